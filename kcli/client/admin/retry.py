"""Retrying the items of an admin call: each settles alone, the rest go again until the time is up."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, TypeVar

import trio

from kcli.client.backoff import Backoff
from kcli.client.metadata import STALE_METADATA
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kcli.client.client import Client
    from kcli.client.setbacks import HeldUp

Item = TypeVar("Item")
Value = TypeVar("Value")

LATER = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Codes that pass. Of the stale metadata, an unknown topic is not among them: it is the answer."""


async def retry_items(
    client: Client,
    items: Iterable[Item],
    *,
    timeout_ms: int | None,
    attempt: Callable[[list[Item], int], Awaitable[dict[Item, Value | KafkaError]]],
    held_up: HeldUp | None = None,
) -> dict[Item, Value | KafkaError]:
    """Call `attempt(items, remaining_ms)` until every item has a value or an error that will not pass.

    When the time is up an item keeps the last error it was answered with. `held_up` is told of those before.
    """
    wanted = list(dict.fromkeys(items))
    pending = wanted
    settled: dict[Item, Value | KafkaError] = {}
    if timeout_ms is None:
        timeout_ms = client.config.default_api_timeout_ms
    start = trio.current_time()
    deadline = start + timeout_ms / 1000
    backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
    while pending:
        remaining_ms = max(1, round((deadline - trio.current_time()) * 1000))
        try:
            results = await attempt(pending, remaining_ms)
        except KcliError:
            if not settled:
                raise
            break  # the pending items keep the errors they were answered with before
        settled.update(results)
        passing = {item: result for item, result in results.items() if _is_passing(result)}
        pending = [item for item in pending if item in passing]
        delay = backoff.next_delay()
        if trio.current_time() + delay >= deadline:
            break
        if pending:
            if held_up is not None:
                for item in pending:
                    held_up.met(str(item), passing[item], since=start)
            if STALE_METADATA.intersection(error.code for error in passing.values()):
                client.request_metadata_update()
            await trio.sleep(delay)
    return {item: settled[item] if item in settled else omitted() for item in wanted}


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """Return the error of a response's code and text, None for no error."""
    return KafkaError(ErrorCode.of(code), message or None) if code else None


def check(code: int, message: str | None = None) -> None:
    """Raise the error of a response's code, if it is one."""
    error = error_of(code, message)
    if error is not None:
        raise error


def omitted() -> KafkaError:
    """Return the error of an item that the broker's answer does not mention."""
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left this out of its answer")


def _is_passing(result: object) -> TypeGuard[KafkaError]:
    return isinstance(result, KafkaError) and result.code in LATER
