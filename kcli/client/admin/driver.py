"""How admin calls ask and retry: `retry_items`, `ask_leaders`, `ask_coordinators` of groups, `ask_nodes`.

Each item settles on its own; the others are retried until the time is up. Leaders come from fresh metadata.
The requests to different brokers run concurrently, and an unreachable broker fails only its own items. A
coordinator that is unreachable or has changed is looked up again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import trio

from kcli.client.client import COORDINATOR_MOVED
from kcli.client.network.backoff import Backoff
from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.connection import Disconnected, UnsupportedVersion
from kcli.client.network.metadata import STALE_METADATA, Node
from kcli.client.network.retry_warnings import request_error
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.schema.declaration import EncodeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kcli.client.client import Client, Coordinators
    from kcli.client.network.metadata import ClusterMetadata
    from kcli.client.network.retry_warnings import RetryWarnings
    from kcli.protocol.topics import TopicPartition


Item = TypeVar("Item")
Value = TypeVar("Value")

RETRIABLE = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_CONTROLLER,
        ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)  # fmt: skip
"""Errors that are retried. An unknown topic is not retried: it is the result."""


async def retry_items(
    client: Client,
    items: Iterable[Item],
    *,
    timeout_ms: int | None,
    attempt: Callable[[list[Item], int], Awaitable[dict[Item, Value | KafkaError]]],
    warnings: RetryWarnings | None = None,
) -> dict[Item, Value | KafkaError]:
    """Call `attempt(items, left_ms)` until every item has a value or an error that is not retriable.

    When the time is up, an item keeps its last error. `warnings` gets the errors that are retried.
    """
    wanted = list(dict.fromkeys(items))
    pending = wanted
    settled: dict[Item, Value | KafkaError] = {}
    if timeout_ms is None:
        timeout_ms = client.config.default_api_timeout_ms
    start = trio.current_time()
    deadline = start + timeout_ms / 1000
    backoff = Backoff.of(client.config)
    while pending:
        left_ms = max(1, round((deadline - trio.current_time()) * 1000))
        try:
            results = await attempt(pending, left_ms)
        except KcliError:
            if not settled:
                raise
            break  # the pending items keep their last errors
        settled.update(results)
        passing = {item: result for item, result in results.items() if _is_passing(result)}
        pending = [item for item in pending if item in passing]
        delay = backoff.next_delay()
        if trio.current_time() + delay >= deadline:
            break
        if pending:
            if warnings is not None:
                for item in pending:
                    warnings.note(str(item), passing[item], since=start)
            if STALE_METADATA.intersection(error.code for error in passing.values()):
                client.request_metadata_update()
            await trio.sleep(delay)
    return {item: settled[item] if item in settled else omitted() for item in wanted}


async def retry(
    client: Client, attempt: Callable[[int], Awaitable[Value | KafkaError]], *, timeout_ms: int | None
) -> Value:
    """Call `attempt(left_ms)` until it returns a value; raise an error that is not retriable."""

    async def attempt_one(_: list[str], left_ms: int) -> dict[str, Value | KafkaError]:
        return {"": await attempt(left_ms)}

    result = (await retry_items(client, [""], timeout_ms=timeout_ms, attempt=attempt_one))[""]
    if isinstance(result, KafkaError):
        raise result
    return result


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """Return the error of a response's code and text, None for no error."""
    return KafkaError(ErrorCode.of(code), message or None) if code else None


def check(code: int, message: str | None = None) -> None:
    """Raise the error of a response's code, if it is one."""
    error = error_of(code, message)
    if error is not None:
        raise error


def omitted() -> KafkaError:
    """Return the error of an item that the response does not mention."""
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left this out of its answer")


def _is_passing(result: object) -> TypeGuard[KafkaError]:
    return isinstance(result, KafkaError) and result.code in RETRIABLE


WATCH_SECONDS = 0.5
"""How often to check whether the asked brokers are reachable."""


async def ask_leaders(
    client: Client,
    partitions: Iterable[TopicPartition],
    *,
    build: Callable[[list[TopicPartition], int], Any],
    read: Callable[[Any], dict[TopicPartition, Value | KafkaError]],
    timeout_ms: int | None,
    min_version: int = 0,
    warnings: RetryWarnings | None = None,
) -> dict[TopicPartition, Value | KafkaError]:
    """Send `build(partitions, left_ms)` to each leader, and merge the results of `read`."""

    async def ask(node_id: int, group: list[TopicPartition], left_ms: int) -> dict[TopicPartition, Any]:
        request = build(group, left_ms)
        return read(await client.request(node_id, request, timeout_ms=left_ms, min_version=min_version))

    async def attempt(
        pending: list[TopicPartition], left_ms: int
    ) -> dict[TopicPartition, Value | KafkaError]:
        cluster = await client.metadata({partition.topic for partition in pending})
        groups, leaderless = _by_leader(cluster, pending)
        results: dict[TopicPartition, Value | KafkaError] = {**leaderless}

        async def ask_one(node_id: int, group: list[TopicPartition]) -> None:
            results.update(await _results_of_leader(client, node_id, group, ask(node_id, group, left_ms)))

        async with trio.open_nursery() as watches:
            if warnings is not None:
                watches.start_soon(_watch, client, groups, warnings)
            async with trio.open_nursery() as nursery:
                for node_id, group in groups.items():
                    nursery.start_soon(ask_one, node_id, group)
            watches.cancel_scope.cancel()
        return results

    return await retry_items(client, partitions, timeout_ms=timeout_ms, attempt=attempt, warnings=warnings)


async def _watch(client: Client, nodes: Iterable[int], warnings: RetryWarnings) -> None:
    """Warn of unreachable brokers while they are asked, until cancelled."""
    start = trio.current_time()
    while True:
        await trio.sleep(WATCH_SECONDS)
        known = client.cluster.nodes
        for link in (client.links.get(node_id) for node_id in nodes if node_id in known):
            if link.last_error is not None:
                warnings.note(f"broker {link.node.node_id}", request_error(link.last_error), since=start)


def _by_leader(
    cluster: ClusterMetadata, partitions: list[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaError]]:
    """Return the partitions of each leader, and the errors of the leaderless ones."""
    groups: dict[int, list[TopicPartition]] = {}
    leaderless: dict[TopicPartition, KafkaError] = {}
    for partition in partitions:
        leader = cluster.leader_of(partition)
        if leader is not None:
            groups.setdefault(leader.leader, []).append(partition)
        elif partition.topic in cluster.errors:
            leaderless[partition] = KafkaError(cluster.errors[partition.topic])
        elif partition.partition not in cluster.topics[partition.topic].partitions:
            leaderless[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            leaderless[partition] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    return groups, leaderless


async def _results_of_leader(
    client: Client,
    node_id: int,
    group: list[TopicPartition],
    asking: Awaitable[dict[TopicPartition, Value | KafkaError]],
) -> dict[TopicPartition, Value | KafkaError]:
    """Return the results of one leader, with an error for each partition it left out."""
    try:
        answered = await asking
    except UnsupportedVersion as error:
        refused = KafkaError(ErrorCode.UNSUPPORTED_VERSION, error.message, hint=error.hint)
        return dict.fromkeys(group, refused)
    except KafkaError as error:
        return {partition: _unanswered(client, partition, node_id, error) for partition in group}
    except EncodeError:
        raise  # no broker was asked: the request cannot be encoded
    except KcliError as error:
        failed = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, error.message, hint=error.hint)
        return {partition: _unanswered(client, partition, node_id, failed) for partition in group}
    return {partition: answered.get(partition, omitted()) for partition in group}


def _unanswered(client: Client, partition: TopicPartition, node_id: int, error: KafkaError) -> KafkaError:
    """Return the error of a partition whose leader did not answer; retriable if the leader has changed."""
    leader = client.cluster.leader_of(partition)
    if error.code != ErrorCode.BROKER_NOT_AVAILABLE or (leader is not None and leader.leader == node_id):
        return error
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, error.message, hint=error.hint)


async def ask_nodes(
    client: Client, node_ids: Iterable[int] | None, ask: Callable[[int], Awaitable[Value]]
) -> dict[int, Value | KcliError]:
    """Ask brokers concurrently; the error of one does not affect the others."""
    if node_ids is None:
        node_ids = (await client.metadata(())).nodes
    results: dict[int, Value | KcliError] = dict.fromkeys(sorted(node_ids), KcliError("not asked"))

    async def ask_one(node_id: int) -> None:
        try:
            results[node_id] = await ask(node_id)
        except KcliError as error:
            results[node_id] = error

    async with trio.open_nursery() as nursery:
        for node_id in list(results):
            nursery.start_soon(ask_one, node_id)
    return results


async def ask_coordinators(
    client: Client,
    group_ids: Iterable[str],
    *,
    ask: Callable[[Node, list[str]], Awaitable[dict[str, Value | KafkaError]]],
    timeout_ms: int | None,
    coordinators: Coordinators | None = None,
) -> dict[str, Value | KafkaError]:
    """Call `ask(coordinator, groups)` for each coordinator of some groups, and merge the results.

    With `coordinators` of another type, the ids are not groups' but of that type.
    """

    async def attempt(pending: list[str], left_ms: int) -> dict[str, Value | KafkaError]:
        return await ask_coordinators_once(
            client, pending, ask=ask, left_ms=left_ms, coordinators=coordinators
        )

    return await retry_items(client, group_ids, timeout_ms=timeout_ms, attempt=attempt)


async def ask_coordinators_once(
    client: Client,
    group_ids: list[str],
    *,
    ask: Callable[[Node, list[str]], Awaitable[dict[str, Value | KafkaError]]],
    left_ms: int,
    coordinators: Coordinators | None = None,
) -> dict[str, Value | KafkaError]:
    """As `ask_coordinators`, but without retries."""
    coordinators = coordinators or client.coordinators
    results: dict[str, Value | KafkaError] = {}
    groups: dict[Node, list[str]] = {}
    found = await coordinators.find_many(group_ids, timeout_ms=left_ms)
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

    with trio.move_on_after(left_ms / 1000):
        async with trio.open_nursery() as nursery:
            for coordinator, group in groups.items():
                nursery.start_soon(ask_one, coordinator, group)
    for coordinator, group in groups.items():
        for group_id in group:
            if group_id not in results:
                whose = f"{coordinators.key_type.noun} `{group_id}`"
                results[group_id] = _coordinator_unanswered(client, whose, coordinator=coordinator)
    for group_id in group_ids:
        if has_moved(results[group_id]):
            coordinators.forget(group_id)
    return results


def _coordinator_unanswered(client: Client, whose: str, *, coordinator: Node) -> KafkaError:
    """Return the error of a coordinator that did not answer in time; prefer the connection error."""
    known = client.cluster.nodes.get(coordinator.node_id)
    error = client.links.get(coordinator.node_id).last_error if known else None
    if error is not None:
        return _with_code(error)
    why = f"the coordinator of {whose} did not answer in time"
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)


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
    coordinators: Coordinators | None = None,
) -> Value:
    """Call `ask(coordinator)` for one group until it returns, or raises an error that is not retriable."""

    async def ask_one(coordinator: Node, group_ids: list[str]) -> dict[str, Value | KafkaError]:
        return {group_id: await ask(coordinator)}

    results = await ask_coordinators(
        client, [group_id], ask=ask_one, timeout_ms=timeout_ms, coordinators=coordinators
    )
    result = results[group_id]
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
    """Send one request to a coordinator, without retries: another may be the coordinator by then."""
    connection = await client.links.get(coordinator.node_id).ready()
    version = connection.versions.choose(request_class, min_version=min_version, max_version=max_version)
    return await connection.request(build(version), version)


def forget_if_moved(client: Client, group_id: str, result: object) -> None:
    """Look up a group's coordinator again if a result says that it has changed."""
    if has_moved(result):
        client.coordinators.forget(group_id)


def has_moved(result: object) -> bool:
    """Return whether a result says that another broker is the coordinator now."""
    return isinstance(result, KafkaError) and result.code in COORDINATOR_MOVED
