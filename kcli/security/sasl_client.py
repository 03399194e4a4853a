"""The client's side of a SASL login: bytes in, bytes out, by the mechanism that the properties name.

`sasl.mechanism` names it, Java's default being GSSAPI, and the one login module of `sasl.jaas.config` has the
credentials (Kafka class `SaslClientAuthenticator`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import UsageError
from kcli.security.jaas import MODULES, parse_entries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.security.jaas import JaasEntry
    from kcli.security.sasl import SaslClient

MECHANISM = "sasl.mechanism"
DEFAULT_MECHANISM = "GSSAPI"
JAAS_CONFIG = "sasl.jaas.config"
SCRAM = "SCRAM-"
SPOKEN = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class PlainClient:
    """PLAIN (RFC 4616): name and password in one token; the answer has nothing."""

    mechanism = "PLAIN"

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self.is_complete = False

    def step(self, challenge: bytes | None) -> bytes:
        self.is_complete = True
        return b"\0".join((b"", self._user.encode(), self._password.encode()))


def sasl_mechanism(properties: Mapping[str, str]) -> str:
    """Return the mechanism that the properties name; raise `UsageError` for one that kcli does not speak."""
    mechanism = properties.get(MECHANISM, DEFAULT_MECHANISM).strip()
    if mechanism == "GSSAPI":
        default = "" if MECHANISM in properties else f", the default of `{MECHANISM}`"
        raise UsageError(
            f"cannot log in by GSSAPI (Kerberos){default}", hint=f"set `{MECHANISM}` to {_choice(SPOKEN)}"
        )
    if mechanism not in SPOKEN:
        raise UsageError(f"invalid value for `{MECHANISM}`: {mechanism}", hint=f"use {_choice(SPOKEN)}")
    return mechanism


def login_module(properties: Mapping[str, str]) -> JaasEntry:
    """Return the login module that `sasl.jaas.config` has for the mechanism; raise `UsageError` without."""
    mechanism = sasl_mechanism(properties)
    wanted = MODULES[mechanism]
    text = properties.get(JAAS_CONFIG, "")
    if not text.strip():
        raise UsageError(
            f"{mechanism} needs `{JAAS_CONFIG}`",
            hint=f'{JAAS_CONFIG}={wanted} required username="NAME" password="PASSWORD";',
        )
    entries = parse_entries(text, f"`{JAAS_CONFIG}`")
    if len(entries) != 1:
        raise UsageError(f"`{JAAS_CONFIG}` must have one login module, it has {len(entries)}")
    if entries[0].module != wanted:
        raise UsageError(
            f"`{JAAS_CONFIG}` has the login module {entries[0].module}, {mechanism} needs another",
            hint=f"use {wanted}",
        )
    return entries[0]


def user_of(properties: Mapping[str, str]) -> str:
    """Return whom a login is of; "" where only the broker can tell."""
    return login_module(properties).option("username") or ""


def sasl_client(properties: Mapping[str, str]) -> SaslClient:
    """Return a new login by the properties; raise `UsageError` for what they lack."""
    entry = login_module(properties)
    user, password = _needed(entry, "username"), _needed(entry, "password")
    mechanism = sasl_mechanism(properties)
    if mechanism.startswith(SCRAM):
        from kcli.security.scram import MECHANISMS, ScramClient

        is_token = (entry.option("tokenauth") or "").lower() == "true"
        return ScramClient(MECHANISMS[mechanism], user, password, is_token=is_token)
    return PlainClient(user, password)


def _needed(entry: JaasEntry, name: str) -> str:
    value = entry.option(name)
    if not value:
        raise UsageError(f"the login module of `{JAAS_CONFIG}` has no `{name}`")
    return value


def _choice(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
