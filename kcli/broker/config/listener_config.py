"""Listeners as configured: `listeners`, `advertised.listeners` and `listener.security.protocol.map`.

An entry is `NAME://host:port`, with an IPv6 host in brackets; an empty host means every address. The map
gives the security protocol of each name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kcli.broker.config.config_definition import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SECURITY_PROTOCOLS: Mapping[str, int] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Numbered as in broker registrations (class `SecurityProtocol`)."""


_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})
"""The addresses of a socket that listens on all; Kafka refuses to advertise the first (`KafkaConfig`)."""

_ENTRY = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:/]*)):(-?\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """An address to listen on or to advertise: an empty `host` is every address, `port` 0 any free port."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        """Whether clients have to log in."""
        return self.security_protocol.startswith("SASL")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """Return the security protocol of each listener name; raise `InvalidConfig` for a malformed map."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (word.strip() for word in text.split(","))):
        name, colon, protocol = pair.partition(":")
        if not colon or protocol.strip() not in SECURITY_PROTOCOLS:
            raise InvalidConfig(f"invalid entry `{pair}` in `listener.security.protocol.map`")
        protocols[name.strip().upper()] = protocol.strip()
    return protocols


def parse_listeners(
    entries: Iterable[str], protocols: Mapping[str, str], *, property_name: str
) -> tuple[ListenerConfig, ...]:
    """Return the listeners of a list; raise `InvalidConfig` for a malformed one or a second of a name."""
    found: dict[str, ListenerConfig] = {}
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        if match is None or not 0 <= int(match[4]) <= 65_535:
            raise InvalidConfig(
                f"invalid entry `{entry}` in `{property_name}`", hint="write it as `NAME://host:port`"
            )
        name = match[1].upper()
        if name in found:
            raise InvalidConfig(f"listener `{name}` comes twice in `{property_name}`")
        if name not in protocols:
            raise InvalidConfig(
                f"no security protocol for listener `{name}` in `listener.security.protocol.map`"
            )
        found[name] = ListenerConfig(name, match[2] or match[3], int(match[4]), protocols[name])
    return tuple(found.values())


def check_distinct_ports(listeners: Iterable[ListenerConfig]) -> None:
    """Raise `InvalidConfig` if listeners share a port other than 0; an IPv4 and an IPv6 address may."""
    by_port: dict[int, list[ListenerConfig]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        families = [":" in listener.host for listener in sharing if _is_address(listener.host)]
        if len(sharing) > 1 and sorted(families) != [False, True]:
            names = " and ".join(f"`{listener.name}`" for listener in sharing)
            raise InvalidConfig(
                f"{names} have the same port {port} in `listeners`",
                hint="only an IPv4 and an IPv6 address may share one",
            )


def check_routable(advertised: Iterable[ListenerConfig]) -> None:
    """Raise `InvalidConfig` if an advertised address is one that only a listener can have."""
    listeners = list(advertised)
    for listener in listeners:
        if listener.host in _EVERY_ADDRESS:
            named = (
                replace(each, host="localhost") if each.host in _EVERY_ADDRESS else each for each in listeners
            )
            raise InvalidConfig(
                f"clients cannot connect to the advertised `{listener}`: `{listener.host}` is not a host",
                hint=f"`--override advertised.listeners={','.join(map(str, named))}` gives one they can use",
            )


def _is_address(host: str) -> bool:
    return ":" in host or all(part.isdecimal() for part in host.split("."))
