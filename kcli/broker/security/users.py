"""Users and login modules that a start names outside of the properties, as properties of the listeners.

| from | written |
|---|---|
| `--user`, `KCLI_USERS` | `alice=secret` or `alice=secret,mechanism=SCRAM-SHA-256`; `@FILE` has one a line |
| `--jaas-config` | a JAAS file: the section `<listener>.KafkaServer`, or else `KafkaServer` |

Without a mechanism a user may log in by all that the listeners have. The users of PLAIN are in a property,
those of SCRAM in the metadata. A login module in the properties stands above the file's (Kafka class
`JaasContext`), and users of the command line come on top of either.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.config.broker_definitions import BrokerSettings
from kcli.broker.config.config_definition import InvalidConfig
from kcli.broker.config.listener_config import parse_listeners, parse_protocol_map
from kcli.broker.config.listener_properties import MECHANISMS, PREFIX, ListenerProperties
from kcli.broker.config.security_definitions import SecuritySettings
from kcli.errors import UsageError, nearest_hint
from kcli.security.jaas import MODULES, PLAIN_MODULE, JaasEntry, parse_entries, parse_sections
from kcli.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kcli.broker.config.listener_config import ListenerConfig

PLAIN = "PLAIN"
BY_PASSWORD = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms for users with a password."""
SERVER_SECTION = "KafkaServer"
USER_OPTION = "user_"
WRITTEN_AS = "NAME=PASSWORD[,mechanism=MECHANISM]"

_JAAS = SecuritySettings.sasl_jaas_config.name
_MECHANISMS = SecuritySettings.sasl_enabled_mechanisms
_LISTENERS = BrokerSettings.listeners
_PROTOCOL_MAP = BrokerSettings.listener_security_protocol_map
_USER = re.compile(r"([^=]+)=(.+?)(?:,mechanism=([^,=]*))?", re.DOTALL)


class User(NamedTuple):
    """A user who shall be able to log in by a mechanism, if it is empty by any."""

    name: str
    password: Secret
    mechanism: str


def parse_users(texts: Iterable[str]) -> tuple[User, ...]:
    """Return the users of command-line values, and of the files that these name with `@`.

    Raises `UsageError`, which tells the place of a malformed user but not the text, for it has a password.
    """
    users: dict[tuple[str, str], User] = {}
    for number, text in enumerate(texts, start=1):
        for place, line in _lines(text, number):
            user = _user(line, place)
            if users.setdefault((user.name, user.mechanism), user) != user:
                by = f" for {user.mechanism}" if user.mechanism else ""
                raise UsageError(f"user `{user.name}` has two passwords{by}")
    return tuple(users.values())


def _lines(text: str, number: int) -> Iterator[tuple[str, str]]:
    """Yield each user's text with the place where it stands."""
    if not text.startswith("@"):
        yield f"number {number} of the users", text
        return
    path = text.removeprefix("@")
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"cannot read the users of `{path}`: {reason}") from error
    for row, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            yield f"line {row} of `{path}`", line


def _user(text: str, place: str) -> User:
    match = _USER.fullmatch(text)
    if match is None:
        raise UsageError(f"{place} is malformed", hint=f"write it as `{WRITTEN_AS}`")
    name, password, mechanism = match.groups()
    if mechanism is None:
        return User(name, Secret(password), "")
    if mechanism not in MECHANISMS:
        raise UsageError(
            f"unknown mechanism `{mechanism}` of user `{name}`", hint=nearest_hint(mechanism, MECHANISMS)
        )
    if mechanism not in BY_PASSWORD:
        raise UsageError(f"user `{name}` cannot log in by {mechanism}", hint="leave `,mechanism=` out")
    return User(name, Secret(password), mechanism)


def add_logins(
    properties: dict[str, str],
    users: Iterable[User],
    jaas_file: Path | None = None,
    *,
    security_protocol: str = "PLAINTEXT",
) -> tuple[User, ...]:
    """Give each SASL listener of `properties` the login modules of a file, and users; return those of SCRAM.

    Without `listeners` there is one for `security_protocol`, of the same name. Raises `UsageError` for a
    malformed file and for users that no listener would let in.
    """
    sections = {} if jaas_file is None else read_jaas_file(jaas_file)
    logins = list(_logins(properties, security_protocol))
    known = list(_with_mechanisms(users, {name for _, names in logins for name in names}, properties))
    plain_users = [user for user in known if user.mechanism == PLAIN]
    for listener, mechanisms in logins:
        own = ListenerProperties(properties, listener)
        for mechanism in mechanisms:
            name = f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{_JAAS}"
            entry = _module(sections, listener, mechanism)
            if (text := own.own(_JAAS, mechanism)) is None and entry is not None:
                properties[name] = entry.text()
            elif text is not None:
                entry = _inline(text, name) if plain_users and mechanism == PLAIN else None
            if mechanism == PLAIN and plain_users:
                properties[name] = _with_users(entry, plain_users).text()
    return tuple(user for user in known if user.mechanism != PLAIN)


def _with_mechanisms(
    users: Iterable[User], enabled: Collection[str], properties: Mapping[str, str]
) -> Iterator[User]:
    """Yield each user once for each mechanism. Raises `UsageError` if no listener has one of them."""
    for user in users:
        wanted = (user.mechanism,) if user.mechanism else BY_PASSWORD
        found = [name for name in wanted if name in enabled]
        if not found:
            mechanism = user.mechanism or PLAIN
            hint = (
                f"`--override {_MECHANISMS.name}={mechanism}`, and SASL_PLAINTEXT or SASL_SSL in `listeners`"
            )
            raise UsageError(
                f"user `{user.name}` could not log in: no listener has {user.mechanism or 'SASL'}",
                hint=hint if _LISTENERS.name in properties else "`--sasl` makes the listeners SASL_PLAINTEXT",
            )
        yield from (user._replace(mechanism=name) for name in found)


def read_jaas_file(path: Path) -> Mapping[str, tuple[JaasEntry, ...]]:
    """Return the entries of each section of a JAAS file. Raises `UsageError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"cannot read the JAAS configuration `{path}`: {reason}") from error
    return parse_sections(text, f"`{path}`")


def _logins(properties: Mapping[str, str], security_protocol: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each SASL listener's name with its mechanisms; what is malformed is refused with the rest."""
    try:
        for listener in sasl_listeners(properties, security_protocol):
            text = ListenerProperties(properties, listener.name).text(_MECHANISMS.name)
            yield listener.name, _MECHANISMS.default if text is None else _MECHANISMS.parse(text)
    except InvalidConfig as error:
        raise UsageError(error.message, hint=error.hint) from error


def sasl_listeners(properties: Mapping[str, str], security_protocol: str) -> list[ListenerConfig]:
    """Return the listeners of properties whose clients log in. Raises `UsageError`."""
    return [each for each in named_listeners(properties, security_protocol) if each.is_sasl]


def named_listeners(properties: Mapping[str, str], security_protocol: str) -> Sequence[ListenerConfig]:
    """Return the listeners of properties, which speak `security_protocol` if none is named.

    Raises `UsageError`.
    """
    try:
        protocols = parse_protocol_map(properties.get(_PROTOCOL_MAP.name, _PROTOCOL_MAP.default))
        entries = _LISTENERS.parse(properties.get(_LISTENERS.name, f"{security_protocol}://:0"))
        return parse_listeners(entries, protocols, property_name=_LISTENERS.name)
    except InvalidConfig as error:
        raise UsageError(error.message, hint=error.hint) from error


def _module(sections: Mapping[str, tuple[JaasEntry, ...]], listener: str, mechanism: str) -> JaasEntry | None:
    """Return the login module of a mechanism in the section of a listener, or else in that of all."""
    for section in (f"{listener.lower()}.{SERVER_SECTION}", SERVER_SECTION):
        if section in sections:
            found = [entry for entry in sections[section] if entry.module == MODULES[mechanism]]
            if len(found) > 1:
                raise UsageError(f"section `{section}` has {len(found)} login modules for {mechanism}")
            return found[0] if found else None
    return None


def _inline(text: str, name: str) -> JaasEntry:
    return parse_entries(text, f"`{name}`")[0]


def _with_users(entry: JaasEntry | None, users: Iterable[User]) -> JaasEntry:
    options = {} if entry is None else dict(entry.options)
    for user in users:
        option = f"{USER_OPTION}{user.name}"
        if not options.setdefault(option, user.password).matches(user.password):
            raise UsageError(f"user `{user.name}` has another password in the JAAS configuration")
    return JaasEntry(PLAIN_MODULE, "required", options)
