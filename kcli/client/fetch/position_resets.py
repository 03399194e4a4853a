"""PositionResets: finds positions for partitions without one, by ListOffsets to their leaders.

A failed reset is retried after a backoff that doubles, whether or not the application polls. A partition with
strategy `none` is not retried: only a seek helps. If a position was out of range, `warn` reports it before
any record of the new position is read, because records may be missed or read again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from kcli.client.admin.partitions import list_offsets
from kcli.client.admin.types import OffsetAndTimestamp
from kcli.client.config import duration_ms
from kcli.client.fetch.subscription_state import FetchState
from kcli.client.network.backoff import Backoff
from kcli.errors import KcliError
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.subscription_state import AssignedPartition, AssignedPartitions
    from kcli.client.network.retry_warnings import RetryWarnings
    from kcli.protocol.topics import TopicPartition

    Offsets = dict[TopicPartition, OffsetAndTimestamp | KafkaError]


class PositionResets:
    """The resets of one consumer.

    `ended` is called after each with its error or None; `warn` gets a line for each position that was out of
    range, `warnings` the errors that are retried.
    """

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        assigned: AssignedPartitions,
        wall_ms: Callable[[], int],
        ended: Callable[[KcliError | None], None],
        warn: Callable[[str], None],
        warnings: RetryWarnings,
    ) -> None:
        self._client = client
        self._config = config
        self._assigned = assigned
        self._wall_ms = wall_ms
        self._ended = ended
        self._warn = warn
        self._warnings = warnings
        self._in_flight: set[object] = set()

    def start(self, nursery: trio.Nursery) -> float:
        """Start the resets that are due; return when the next one is due."""
        now = trio.current_time()
        resetting = self._assigned.in_state(FetchState.AWAIT_RESET)
        waiting = [state for state in resetting if state.token not in self._in_flight]
        stuck = [state for state in waiting if state.reset_to == "none" and state.retry_at <= now]
        if stuck:
            self._give_up(stuck)
        due = [state for state in waiting if state.retry_at <= now]
        if due:
            tokens = {state.partition: state.token for state in due}
            timestamps = {state.partition: self._timestamp(state.reset_to) for state in due}
            self._in_flight.update(tokens.values())
            out_of_range = [state.partition for state in due if state.out_of_range >= 0]
            nursery.start_soon(self._reset, tokens, timestamps, out_of_range)
        return min((state.retry_at for state in waiting if state.retry_at > now), default=math.inf)

    def _give_up(self, stuck: list[AssignedPartition]) -> None:
        for state in stuck:
            state.retry_at = math.inf
        names = ", ".join(str(state.partition) for state in stuck)
        self._ended(
            KcliError(
                f"no valid offset to read from: {names}",
                hint="seek, or set `auto.offset.reset` to earliest or latest",
            )
        )

    async def _reset(
        self,
        tokens: dict[TopicPartition, object],
        timestamps: dict[TopicPartition, int],
        out_of_range: list[TopicPartition],
    ) -> None:
        failure: KcliError | None = None
        results: Offsets = {}
        ranges: dict[TopicPartition, str] = {}
        try:
            ranges = await self._ranges(out_of_range)
            read_committed = self._config.is_read_committed
            results = await list_offsets(
                self._client, timestamps, read_committed=read_committed, warnings=self._warnings
            )
        except KcliError as error:
            failure = error
        finally:
            self._in_flight.difference_update(tokens.values())
        for partition, token in tokens.items():
            state = self._assigned.partitions.get(partition)
            # A partition that was sought or assigned anew meanwhile has its own position.
            if state is None or state.token is not token:
                continue
            found = results.get(partition)
            if found is None:
                self._try_later(state)
            elif isinstance(found, KafkaError):
                self._try_later(state)
                failure = failure or KafkaError(found.code, f"{partition}: {found.message}", hint=found.hint)
            else:
                self._apply(state, found.offset, in_range=ranges.get(partition, ""))
        self._ended(failure)

    def _try_later(self, state: AssignedPartition) -> None:
        if state.reset_backoff is None:
            state.reset_backoff = Backoff.of(self._client.config)
        state.retry_at = trio.current_time() + state.reset_backoff.next_delay()

    async def _ranges(self, partitions: list[TopicPartition]) -> dict[TopicPartition, str]:
        """Return, as text, the first and the last readable offset of partitions."""
        if not partitions:
            return {}
        firsts = await list_offsets(self._client, dict.fromkeys(partitions, EARLIEST))
        ends = await list_offsets(self._client, dict.fromkeys(partitions, LATEST))
        ranges: dict[TopicPartition, str] = {}
        for partition in partitions:
            first, end = firsts.get(partition), ends.get(partition)
            if isinstance(first, OffsetAndTimestamp) and isinstance(end, OffsetAndTimestamp):
                ranges[partition] = f" ({first.offset} to {end.offset})"
        return ranges

    def _apply(self, state: AssignedPartition, offset: int, *, in_range: str) -> None:
        missed = state.out_of_range
        if offset < 0:
            # No record is younger than the duration: go on at the end.
            state.reset("latest", out_of_range=missed)
            return
        state.seek(offset)
        if missed >= 0:
            self._warn(f"{state.partition}: offset {missed} is out of range{in_range}, going on at {offset}")

    def _timestamp(self, strategy: str) -> int:
        known = {"earliest": EARLIEST, "latest": LATEST}.get(strategy)
        return max(0, self._wall_ms() - duration_ms(strategy)) if known is None else known
