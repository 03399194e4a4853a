"""`kcli broker start` after its options are known, and a parser of simple command lines that needs no Typer.

Importing Typer and declaring all commands of `broker` to it takes a fifth of the start. The parser takes
every option with its full name and a plain value.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.commands.shared.arguments import parse_configs, read_properties, with_values
from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kcli.broker.security.users import User


MOST_NODES = 100
MOST_PORT = 65535

DATA_DIR_VARIABLE = "KCLI_DATA_DIR"
DEFAULT_DATA_DIR = Path("kcli-data")

DEFAULT_HOST = "localhost"
DEFAULT_PORT = 9092

USERS_VARIABLE = "KCLI_USERS"
JAAS_VARIABLE = "KCLI_JAAS_CONFIG"

LISTENERS = "listeners"
SASL_MECHANISMS, DEFAULT_MECHANISMS = "sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
OPTIONAL_VALUES = {"--sasl": ""}
"""Options that may stand without a value."""
FLUSH_INTERVAL = "log.flush.interval.messages"
AUTHORIZER, STANDARD_AUTHORIZER = "authorizer.class.name", "standard"
SUPER_USERS, ADMIN = "super.users", "User:admin"


class StartOptions(NamedTuple):
    """The options of `kcli broker start`, whose help describes them."""

    config: Path | None = None
    override: tuple[str, ...] = ()
    nodes: int | None = None
    rack: str | None = None
    host: str | None = None
    port: int | None = None
    data_dir: Path = DEFAULT_DATA_DIR
    ephemeral: bool = False
    adopt: bool = False
    durable: bool = False
    acls: bool = False
    tls: str | None = None
    client_auth: str | None = None
    sasl: str | None = None
    user: tuple[str, ...] = ()
    jaas_config: Path | None = None
    scenario: Path | None = None
    daemon: bool = False
    verbose: bool = False
    as_json: bool = False


def start_broker(options: StartOptions) -> Awaitable[None] | None:
    """Return an awaitable that serves until an interrupt, None after starting a daemon."""
    if options.daemon:
        from kcli.commands.broker.daemon import start_daemon

        if options.ephemeral:
            refuse_to_remove(options.data_dir)
        start_daemon(options.data_dir)
        return None
    check_ports(options)
    from kcli.broker.process.broker_process import serve
    from kcli.broker.process.cluster import ClusterOptions

    properties = {**read_properties(options.config), **parse_configs(options.override, "--override")}
    if options.durable:
        make_durable(properties)
    if options.acls:
        add_authorizer(properties)
    check_listeners(options, properties)
    if options.sasl is not None:
        add_sasl(options, properties)
    users = add_users(options, properties)
    if options.tls is not None or options.client_auth is not None:
        from kcli.commands.broker.tls_options import add_client_auth, add_tls

        if options.tls is not None:
            add_tls(properties, options.tls, protocol=protocol_of(options))
        if options.client_auth is not None:
            add_client_auth(properties, options.client_auth, protocol=protocol_of(options), tls=options.tls)
    cluster_options = ClusterOptions(
        data_dir=data_dir_of(options),
        is_ephemeral=options.ephemeral,
        nodes=options.nodes,
        host=DEFAULT_HOST if options.host is None else options.host,
        port=DEFAULT_PORT if options.port is None else options.port,
        properties=properties,
        adopt=options.adopt,
        racks=rack_names(options.rack),
        security_protocol=protocol_of(options),
        users=users,
        has_auto_tls=options.tls == "auto",
    )
    steps = None
    if options.scenario is not None:
        from kcli.broker.faults.scenario import read_scenario

        steps = read_scenario(options.scenario)
    return serve(cluster_options, verbose=options.verbose, as_json=options.as_json, scenario=steps)


def data_dir_of(options: StartOptions) -> Path | None:
    """Return where the data is, None for a temporary directory of a broker that is no daemon."""
    if options.ephemeral:
        from kcli.commands.broker.daemon import DAEMON_VARIABLE

        if DAEMON_VARIABLE not in os.environ:
            return None
    return options.data_dir.absolute()


def refuse_to_remove(data_dir: Path) -> None:
    """Raise `UsageError` unless a directory is missing or empty: it will be removed.

    What a killed ephemeral broker left there is removed at once.
    """
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        from kcli.broker.process.broker_process import remove_data
        from kcli.broker.process.pid_file import PidFile

        pid_file = PidFile(data_dir)
        if pid_file.lock_remains():
            remove_data(data_dir, pid_file)
            pid_file.remove()
            return
        raise UsageError(
            f"`{data_dir}` is not empty, and the end of an ephemeral broker removes its directory",
            hint="name another one with `--data-dir`, or leave `--ephemeral` out to keep the data",
        )


def check_ports(options: StartOptions) -> None:
    """Raise `UsageError` if the nodes need ports above the last one."""
    first_port = DEFAULT_PORT if options.port is None else options.port
    last_port = first_port + (options.nodes or 1) - 1
    if last_port > MOST_PORT:
        raise UsageError(
            f"{options.nodes} nodes from port {first_port} on need ports up to {last_port}",
            hint=f"the last port is {MOST_PORT}",
        )


def check_listeners(options: StartOptions, properties: Mapping[str, str]) -> None:
    """Raise `UsageError` for options that name an address beside `listeners`, which would ignore them."""
    if LISTENERS not in properties:
        return
    host = options.host or DEFAULT_HOST
    port = DEFAULT_PORT if options.port is None else options.port
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    for option, value in (("port", options.port), ("host", options.host)):
        if value is not None:
            raise UsageError(
                f"`--{option}` and `listeners` exclude each other",
                hint=f"name the {option} in `listeners`, or use "
                f"`--override listeners={protocol_of(options)}://{address}` instead of it",
            )


def protocol_of(options: StartOptions) -> str:
    """Return what the listeners speak, if no property tells."""
    transport = "PLAINTEXT" if options.tls is None else "SSL"
    return transport if options.sasl is None else f"SASL_{transport}"


def make_durable(properties: dict[str, str]) -> None:
    """Have every write on disk before it is acknowledged. Raises `UsageError` for another interval."""
    interval = properties.setdefault(FLUSH_INTERVAL, "1")
    if interval != "1":
        raise UsageError(
            f"`--durable` and `{FLUSH_INTERVAL}={interval}` exclude each other", hint="leave one of them out"
        )


def add_sasl(options: StartOptions, properties: dict[str, str]) -> None:
    """Have clients log in by SASL at the listeners. Raises `UsageError` for listeners that would not ask."""
    mechanisms = properties.setdefault(SASL_MECHANISMS, options.sasl or DEFAULT_MECHANISMS)
    if options.sasl and mechanisms != options.sasl:
        raise UsageError(
            f"`--sasl {options.sasl}` and `{SASL_MECHANISMS}={mechanisms}` exclude each other",
            hint="leave one of them out",
        )
    from kcli.broker.security.users import sasl_listeners

    if not sasl_listeners(properties, protocol_of(options)):
        raise UsageError(
            "`--sasl`, but no listener in `listeners` has SASL", hint="name one `SASL_PLAINTEXT://host:port`"
        )


def add_users(options: StartOptions, properties: dict[str, str]) -> tuple[User, ...]:
    """Let the users of the options and the environment log in; return those of SCRAM. Raises `UsageError`."""
    texts = (*options.user, *os.environ.get(USERS_VARIABLE, "").split())
    jaas_config = options.jaas_config or Path(os.environ.get(JAAS_VARIABLE, ""))
    if not texts and not jaas_config.name:
        return ()
    from kcli.broker.security.users import add_logins, parse_users

    jaas_file = jaas_config if jaas_config.name else None
    return add_logins(properties, parse_users(texts), jaas_file, security_protocol=protocol_of(options))


def add_authorizer(properties: dict[str, str]) -> None:
    """Have an authorizer decide who may do what, with a super user. Raises `UsageError`."""
    if not properties.setdefault(AUTHORIZER, STANDARD_AUTHORIZER).strip():
        raise UsageError(
            f"`--acls` and an empty `{AUTHORIZER}` exclude each other", hint="leave one of them out"
        )
    others = [text for each in properties.get(SUPER_USERS, "").split(";") if (text := each.strip())]
    properties[SUPER_USERS] = ";".join(dict.fromkeys([*others, ADMIN]))


def rack_names(text: str | None) -> tuple[str, ...]:
    """Return the racks in a list with commas; none may be empty."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(f"`--rack` names an empty rack: {text}")
    return names


def _number(lowest: int, highest: int) -> Callable[[str], int]:
    """Return a parser of whole numbers, which raises `ValueError` for texts that Typer must judge."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and lowest <= int(text) <= highest):
            raise ValueError(text)
        return int(text)

    return read


_SWITCHES = ("--ephemeral", "--adopt", "--durable", "--acls", "--daemon", "--verbose")
_VALUES: dict[str, Callable[[str], Any]] = {
    "--config": Path,
    "--override": str,
    "--nodes": _number(1, MOST_NODES),
    "--rack": str,
    "--host": str,
    "--port": _number(0, MOST_PORT),
    "--data-dir": Path,
    "--tls": str,
    "--client-auth": str,
    "--sasl": str,
    "--user": str,
    "--jaas-config": Path,
    "--scenario": Path,
}


def parse_start(words: Sequence[str]) -> StartOptions | None:
    """Parse the words after `broker start`; return None if they need Typer."""
    directory = os.environ.get(DATA_DIR_VARIABLE)
    found: dict[str, Any] = {"data_dir": Path(directory)} if directory else {}
    repeated: dict[str, list[str]] = {"override": [], "user": []}
    rest = iter(with_values(words, OPTIONAL_VALUES))
    for word in rest:
        option, equals, value = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if word in _SWITCHES:
            found[name] = True
            continue
        if not equals:
            value = next(rest, "")
        is_optional = word in OPTIONAL_VALUES
        if option not in _VALUES or not (value or is_optional) or value.startswith("-"):
            return None
        try:
            found[name] = _VALUES[option](value)
        except ValueError:
            return None
        if name in repeated:
            repeated[name].append(value)
    return StartOptions(**{**found, **{name: tuple(values) for name, values in repeated.items()}})
