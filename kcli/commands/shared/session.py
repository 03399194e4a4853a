"""How a command talks to a cluster: it reads its client properties, connects, and words a refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.commands.shared.arguments import parse_properties, read_properties
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.client.denials import Wanted

DEFAULT_BOOTSTRAP_SERVER = "localhost:9092"
LEAST_CONNECTING_MS = 5_000
"""Connecting may take this long even if the wait for records, or for buffer space, is shorter."""

HINTS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`kcli topics list` shows the topics there are",
    "TOPIC_ALREADY_EXISTS": "`--if-not-exists` accepts a topic that exists",
    "INVALID_REPLICATION_FACTOR": "`kcli cluster nodes` shows the brokers there are",
    "INVALID_TOPIC_EXCEPTION": "a name is 1 to 249 of the characters a-z A-Z 0-9 . _ -",
    "INVALID_PARTITIONS": "partitions can be added, never removed",
    "GROUP_ID_NOT_FOUND": "`kcli consumer-groups list` shows the groups there are",
    "TRANSACTIONAL_ID_NOT_FOUND": "`kcli transactions list` shows the transactional ids there are",
    "INVALID_REGULAR_EXPRESSION": "`kcli consumer-groups validate-regex` shows what is wrong with it",
    "INVALID_TRANSACTION_TIMEOUT": "the broker's `transaction.max.timeout.ms` is the limit",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop the members that read the topic first",
    "LEADER_NOT_AVAILABLE": "`kcli topics describe --unavailable-partitions` shows where there is no leader",
    "PREFERRED_LEADER_NOT_AVAILABLE": "its first replica is down or not in sync, see `kcli topics describe`",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": "start a broker that has a replica, see `kcli topics describe`",
    "MESSAGE_TOO_LARGE": "`kcli configs alter TOPIC --add max.message.bytes=N` raises the topic's limit",
    "OFFSET_OUT_OF_RANGE": "`kcli get-offsets --time earliest` and `--time latest` show the range",
}


def client_properties(
    command_config: Path | None,
    command_property: Sequence[str] | None,
    defaults: Mapping[str, str] | None = None,
    *,
    profile: str | None = None,
) -> dict[str, str]:
    """Return the client properties: defaults, overridden by profile, file and command line in this order.

    Values that refer to the environment or to files are replaced by what they refer to.
    """
    properties = {
        **(defaults or {}),
        **_profile_properties(profile),
        **read_properties(command_config),
        **parse_properties(command_property, "--command-property"),
    }
    if any("${" in value for value in properties.values()):
        from kcli.security.config_providers import resolved

        return resolved(properties)
    return properties


def _profile_properties(profile: str | None) -> dict[str, str]:
    if not profile:
        return {}
    from kcli.commands.shared.profiles import read_profile

    return read_profile(profile)


def addresses(bootstrap_server: str | None, properties: Mapping[str, str]) -> str:
    """Return the brokers to connect to first: from the option, else from the properties."""
    if bootstrap_server is not None:
        return bootstrap_server
    return properties.get("bootstrap.servers", DEFAULT_BOOTSTRAP_SERVER)


def open_client(
    bootstrap_server: str | None,
    command_config: Path | None = None,
    command_property: Sequence[str] | None = None,
    *,
    profile: str | None = None,
    timeout_ms: int | None = None,
) -> AbstractAsyncContextManager[Client]:
    """Return a context manager that connects on entry and closes the client on exit."""
    properties = client_properties(command_config, command_property, profile=profile)
    return connect_with(bootstrap_server, properties, timeout_ms=timeout_ms)


def connecting_ms(timeout_ms: int | None) -> int | None:
    """Return how long connecting may take, where `timeout_ms` bounds the wait for records or buffer space."""
    return None if timeout_ms is None else max(timeout_ms, LEAST_CONNECTING_MS)


def connect_with(
    bootstrap_server: str | None, properties: Mapping[str, str], *, timeout_ms: int | None = None
) -> AbstractAsyncContextManager[Client]:
    """Return a context manager that connects, and warn of properties without effect."""
    from kcli.client.client import connect
    from kcli.client.config import ClientConfig, property_warnings
    from kcli.commands.shared.output import note

    for warning in property_warnings(properties):
        note(f"warning: {warning}")
    config = ClientConfig.from_properties(properties)
    return _session(connect(addresses(bootstrap_server, properties), config, timeout_ms=timeout_ms))


_client: ContextVar[Client | None] = ContextVar("client", default=None)
"""The client of the command, which knows what its last requests were about."""


@asynccontextmanager
async def _session(connecting: AbstractAsyncContextManager[Client]) -> AsyncIterator[Client]:
    """Give a command its client; an authorization error that leaves it says who may not do what."""
    try:
        async with connecting as client:
            # It stays: what is told of a result comes after the connections are closed.
            _client.set(client)
            yield client
    except KcliError as error:
        tell_denial(error)
        raise


_DENIED = "_AUTHORIZATION_FAILED"


def tell_denial(error: KcliError, wanted: Sequence[Wanted] = ()) -> None:
    """Put who may not do what into an authorization error of the command's client, once.

    `wanted` is what the command needs where no answer for administration tells it.
    """
    client = _client.get()
    if client is None or not getattr(getattr(error, "code", None), "name", "").endswith(_DENIED):
        return
    from kcli.client.denials import denial_of

    denial = denial_of(error, client.config, client.exchanges, wanted)
    if denial is not None:
        error.reword(denial.message, hint=denial.hint)


def failure(attempt: str, error: KcliError, *, hint: str | None = None) -> KcliError:
    """Return the error for the user: `attempt` ("cannot create topic `x`") failed; a given `hint` wins."""
    tell_denial(error)
    return KcliError(f"{attempt}: {error.message.rstrip('.')}", hint=hint or hint_of(error))


def hint_of(error: KcliError) -> str | None:
    """Return an error's hint, or the one for its error code."""
    code = getattr(error, "code", None)
    if error.hint or not error.wants_hint:
        return error.hint
    return HINTS.get(getattr(code, "name", ""))


@contextmanager
def hinted() -> Iterator[None]:
    """Add the hint for its error code to an error that is raised inside."""
    try:
        yield
    except KcliError as error:
        tell_denial(error)
        error.hint = hint_of(error)
        raise
