"""Calls that a group's coordinator answers: who that is, one request per broker, and what to ask again.

Requests to different coordinators run at the same time. A coordinator that cannot be reached, or is none any
more, is forgotten, and its groups are asked about again wherever they are then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import trio

from kcli.client.admin.retry import retry_items
from kcli.client.bootstrap import Unreachable
from kcli.client.connection import Disconnected
from kcli.client.coordinators import COORDINATOR_MOVED
from kcli.client.metadata import Node
from kcli.client.versions import UnsupportedVersion
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kcli.client.client import Client
    from kcli.errors import KcliError

Value = TypeVar("Value")


async def ask_coordinators(
    client: Client,
    group_ids: Iterable[str],
    *,
    ask: Callable[[Node, list[str]], Awaitable[dict[str, Value | KafkaError]]],
    timeout_ms: int | None,
) -> dict[str, Value | KafkaError]:
    """Call `ask(coordinator, groups)` for each coordinator of some groups, and merge the answers."""

    async def attempt(pending: list[str], remaining_ms: int) -> dict[str, Value | KafkaError]:
        return await ask_coordinators_once(client, pending, ask=ask, remaining_ms=remaining_ms)

    return await retry_items(client, group_ids, timeout_ms=timeout_ms, attempt=attempt)


async def ask_coordinators_once(
    client: Client,
    group_ids: list[str],
    *,
    ask: Callable[[Node, list[str]], Awaitable[dict[str, Value | KafkaError]]],
    remaining_ms: int,
) -> dict[str, Value | KafkaError]:
    """As `ask_coordinators`, but what says "later" is an answer."""
    results: dict[str, Value | KafkaError] = {}
    groups: dict[Node, list[str]] = {}
    found = await client.coordinators.find_many(group_ids, timeout_ms=remaining_ms)
    for group_id, coordinator in found.items():
        if isinstance(coordinator, Node):
            groups.setdefault(coordinator, []).append(group_id)
        else:
            results[group_id] = coordinator

    async def ask_one(coordinator: Node, group: list[str]) -> None:
        try:
            answered = await ask(coordinator, group)
        except (KafkaError, Disconnected, Unreachable, UnsupportedVersion) as error:
            answered = dict.fromkeys(group, _with_code(error))
        results.update(answered)

    with trio.move_on_after(remaining_ms / 1000):
        async with trio.open_nursery() as nursery:
            for coordinator, group in groups.items():
                nursery.start_soon(ask_one, coordinator, group)
    for coordinator, group in groups.items():
        for group_id in group:
            if group_id not in results:
                results[group_id] = _unanswered(client, group_id, coordinator=coordinator)
    for group_id in group_ids:
        forget_if_moved(client, group_id, results[group_id])
    return results


def _unanswered(client: Client, group_id: str, *, coordinator: Node) -> KafkaError:
    """Return why a coordinator gave no answer in time: that it cannot be reached, where that is known."""
    known = client.cluster.nodes.get(coordinator.node_id)
    error = client.links.get(coordinator.node_id).last_error if known else None
    if error is not None:
        return _with_code(error)
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT, f"the coordinator of group `{group_id}` did not answer in time"
    )


def _with_code(error: KcliError) -> KafkaError:
    if isinstance(error, KafkaError):
        return error
    is_old = isinstance(error, UnsupportedVersion)
    code = ErrorCode.UNSUPPORTED_VERSION if is_old else ErrorCode.COORDINATOR_NOT_AVAILABLE
    return KafkaError(code, error.message, hint=error.hint)


async def ask_about_group(
    client: Client,
    group_id: str,
    *,
    ask: Callable[[Node], Awaitable[Value]],
    timeout_ms: int | None,
) -> Value:
    """Call `ask(coordinator)` for one group until it gives a value or raises what will not pass."""

    async def ask_one(coordinator: Node, group_ids: list[str]) -> dict[str, Value | KafkaError]:
        return {group_id: await ask(coordinator)}

    result = (await ask_coordinators(client, [group_id], ask=ask_one, timeout_ms=timeout_ms))[group_id]
    if isinstance(result, KafkaError):
        raise result
    return result


async def request_once(
    client: Client,
    coordinator: Node,
    *,
    request_class: type[Any],
    build: Callable[[int], Any],
    min_version: int = 0,
    max_version: int | None = None,
) -> Any:  # noqa: ANN401  # the type follows from the request
    """Send one request to a coordinator and return its response.

    Unlike `Client.request` it does not try again: meanwhile another broker may have become the coordinator.
    """
    connection = await client.links.get(coordinator.node_id).ready()
    version = connection.versions.choose(request_class, min_version=min_version, max_version=max_version)
    return await connection.request(build(version), version)


def forget_if_moved(client: Client, group_id: str, result: object) -> None:
    """Have a group's coordinator looked up again if an answer says that it is another one."""
    if isinstance(result, KafkaError) and result.code in COORDINATOR_MOVED:
        client.coordinators.forget(group_id)
