"""SaslSettings: how the clients of one listener log in, checked (Kafka class `JaasContext`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kcli.broker.config.config_definition import InvalidConfig
from kcli.broker.config.listener_properties import MECHANISMS
from kcli.broker.config.security_definitions import SecuritySettings
from kcli.errors import KcliError, nearest_hint
from kcli.security.jaas import KERBEROS_MODULE, MODULES, JaasEntry, parse_entries

if TYPE_CHECKING:
    from kcli.broker.config.config_definition import ConfigDefinition
    from kcli.broker.config.listener_properties import ListenerProperties

T = TypeVar("T")

GSSAPI = "GSSAPI"
SPOKEN = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms that clients can log in with."""
PASSWORDS_IN_JAAS = ("PLAIN",)
"""The mechanisms whose users the login module names, so that there must be one."""


class MechanismSettings(NamedTuple):
    """One mechanism of a listener: its login module, if any, and the time until a client logs in again."""

    name: str
    jaas: JaasEntry | None
    max_reauth_ms: int


class SaslSettings(NamedTuple):
    """The mechanisms of one listener, as SaslHandshake lists them, and the largest request before a login.

    `warnings` has a line for what clients may ask for and cannot have.
    """

    mechanisms: tuple[MechanismSettings, ...]
    max_receive_bytes: int
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, properties: ListenerProperties) -> SaslSettings:
        """Take the settings of a listener; raise `InvalidConfig` for those that let nobody in."""
        return _Reader(properties).settings()


class _Reader:
    """Reads the properties of one listener."""

    def __init__(self, properties: ListenerProperties) -> None:
        self._properties = properties
        self._listener = properties.listener_name

    def settings(self) -> SaslSettings:
        names: tuple[str, ...] = self._value(SecuritySettings.sasl_enabled_mechanisms)
        _check_mechanisms(names, self._listener)
        self._check_prefix()
        mechanisms = tuple(self._mechanism(name) for name in names if name in SPOKEN)
        spoken = ", ".join(each.name for each in mechanisms)
        return SaslSettings(
            mechanisms,
            self._value(SecuritySettings.sasl_server_max_receive_size),
            tuple(
                f"listener `{self._listener}` cannot speak {name}, only {spoken}"
                for name in names
                if name not in SPOKEN
            ),
        )

    def _value(self, row: ConfigDefinition[T], mechanism: str | None = None) -> T:
        text = self._properties.text(row.name, mechanism)
        return row.default if text is None else row.parse(text)

    def _check_prefix(self) -> None:
        """Refuse a login module without the prefix of a mechanism, which Kafka would not read."""
        row = SecuritySettings.sasl_jaas_config
        if self._properties.text(row.name) is not None:
            raise InvalidConfig(
                f"`{row.name}` must have the prefix of a listener and a mechanism",
                hint=f"name it `{self._properties.own_name(row.name, 'PLAIN')}`",
            )

    def _mechanism(self, name: str) -> MechanismSettings:
        row = SecuritySettings.sasl_jaas_config
        property_name = self._properties.own_name(row.name, name)
        text = self._properties.own(row.name, name)
        jaas = None if text is None else _login_module(text, name, property_name)
        if jaas is None and name in PASSWORDS_IN_JAAS:
            raise InvalidConfig(
                f"listener `{self._listener}` knows no users for {name}",
                hint="`--user NAME=PASSWORD` names one, `--jaas-config FILE` a JAAS file, or set "
                f"`{property_name}`",
            )
        return MechanismSettings(name, jaas, self._value(SecuritySettings.connections_max_reauth_ms, name))


def _check_mechanisms(names: tuple[str, ...], listener_name: str) -> None:
    property_name = SecuritySettings.sasl_enabled_mechanisms.name
    unknown = [name for name in names if name not in MECHANISMS]
    if unknown:
        raise InvalidConfig(
            f"unknown mechanism `{unknown[0]}` in `{property_name}`",
            hint=nearest_hint(unknown[0], MECHANISMS),
        )
    if not any(name in SPOKEN for name in names):
        reason = "kcli has no Kerberos" if GSSAPI in names else "clients need one to log in"
        raise InvalidConfig(
            f"listener `{listener_name}` has {' and '.join(names) or 'no mechanism'}, and {reason}",
            hint=f"`--override {property_name}={','.join(SPOKEN)}`",
        )


def _login_module(text: str, mechanism: str, property_name: str) -> JaasEntry:
    try:
        entries = parse_entries(text, f"`{property_name}`")
    except KcliError as error:
        raise InvalidConfig(error.message, hint=error.hint) from error
    if len(entries) != 1:
        raise InvalidConfig(f"`{property_name}` must have one login module, it has {len(entries)}")
    if entries[0].module != MODULES[mechanism]:
        problem = "is Kerberos" if entries[0].module == KERBEROS_MODULE else "does not know it"
        raise InvalidConfig(
            f"`{property_name}` has the login module {entries[0].module}, which {problem}",
            hint=f"{mechanism} needs {MODULES[mechanism]}",
        )
    return entries[0]
