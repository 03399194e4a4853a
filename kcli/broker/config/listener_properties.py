"""ListenerProperties: properties of security as one listener has them.

`listener.name.<listener>.<name>` overrides `<name>` for a listener, and
`listener.name.<listener>.<mechanism>.<name>` overrides both for one SASL mechanism. Listener and mechanism
are in lower case there (Kafka methods `valuesWithPrefixOverride`, `saslMechanismConfig`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import nearest_hint

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

PREFIX = "listener.name."
SSL = "ssl."
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
"""The SASL mechanisms of Kafka."""


class ListenerProperties:
    """What `properties` say of one listener, which overrides what they say of all."""

    def __init__(self, properties: Mapping[str, str], listener_name: str) -> None:
        self.listener_name = listener_name
        self._properties = properties
        self._prefix = f"{PREFIX}{listener_name.lower()}."

    def own(self, name: str, mechanism: str) -> str | None:
        """Return what is set for a mechanism of this listener alone."""
        return self._properties.get(self.own_name(name, mechanism))

    def own_name(self, name: str, mechanism: str) -> str:
        """Return the name of a property for a mechanism of this listener alone."""
        return f"{self._prefix}{mechanism.lower()}.{name}"

    def text(self, name: str, mechanism: str | None = None) -> str | None:
        """Return the value of a property here, None if it is not set."""
        if mechanism is not None and (found := self.own(name, mechanism)) is not None:
            return found
        found = self._properties.get(self._prefix + name)
        return self._properties.get(name) if found is None else found

    def is_own(self, name: str) -> bool:
        """Return whether a property is set for this listener alone."""
        return self._prefix + name in self._properties

    def beginning_with(self, start: str) -> dict[str, str]:
        """Return the properties whose names begin with `start`, as they are here."""
        general = {name: text for name, text in self._properties.items() if name.startswith(start)}
        own = {
            name.removeprefix(self._prefix): text
            for name, text in self._properties.items()
            if name.startswith(self._prefix + start)
        }
        return general | own


def split_name(name: str) -> tuple[str, str, str]:
    """Return the listener, the mechanism and the property of a name, "" for what it has not.

    A name without the prefix of a listener has no property either.
    """
    if not name.startswith(PREFIX):
        return "", "", ""
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    for mechanism in MECHANISMS:
        if rest.startswith(f"{mechanism.lower()}."):
            return listener, mechanism, rest.partition(".")[2]
    return listener, "", rest


def unknown_hint(name: str, known: Collection[str]) -> str | None:
    """Return the hint for a name with the prefix of a listener whose property nobody knows."""
    rest = split_name(name)[2]
    return nearest_hint(name, [name.removesuffix(rest) + each for each in known])
