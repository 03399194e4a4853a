"""PositionResets: gives partitions without a position one, by ListOffsets to their leaders.

A reset that fails is tried again after a backoff that doubles, whether or not anybody polls meanwhile. A
partition whose strategy is `none` is not tried again: only a seek helps it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from kcli.client.admin.partitions import list_offsets
from kcli.client.backoff import Backoff
from kcli.client.config import duration_ms
from kcli.errors import KcliError
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.client.admin.types import OffsetAndTimestamp
    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.subscription import AssignedPartition, Subscription
    from kcli.protocol.topic_partition import TopicPartition


class PositionResets:
    """The resets of one consumer. `ended` is called after each, with what went wrong if anything did."""

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        subscription: Subscription,
        wall_ms: Callable[[], int],
        ended: Callable[[KcliError | None], None],
    ) -> None:
        self._client = client
        self._config = config
        self._subscription = subscription
        self._wall_ms = wall_ms
        self._ended = ended
        self._in_flight: set[object] = set()

    def start(self, nursery: trio.Nursery) -> float:
        """Start the resets that are due; return when the next one is."""
        now = trio.current_time()
        waiting = [
            state for state in self._subscription.awaiting_reset() if state.token not in self._in_flight
        ]
        stuck = [state for state in waiting if state.reset_to == "none" and state.retry_at <= now]
        if stuck:
            self._give_up(stuck)
        due = [state for state in waiting if state.retry_at <= now]
        if due:
            tokens = {state.partition: state.token for state in due}
            timestamps = {state.partition: self._timestamp(state.reset_to) for state in due}
            self._in_flight.update(tokens.values())
            nursery.start_soon(self._reset, tokens, timestamps)
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
        self, tokens: dict[TopicPartition, object], timestamps: dict[TopicPartition, int]
    ) -> None:
        failure: KcliError | None = None
        results: dict[TopicPartition, OffsetAndTimestamp | KafkaError] = {}
        try:
            results = await list_offsets(
                self._client, timestamps, read_committed=self._config.is_read_committed
            )
        except KcliError as error:
            failure = error
        finally:
            self._in_flight.difference_update(tokens.values())
        for partition, token in tokens.items():
            state = self._subscription.partitions.get(partition)
            # Whoever sought or was assigned anew meanwhile has a position of its own.
            if state is None or state.token is not token:
                continue
            found = results.get(partition)
            if found is None:
                self._try_later(state)
            elif isinstance(found, KafkaError):
                self._try_later(state)
                failure = failure or KafkaError(found.code, f"{partition}: {found.message}", hint=found.hint)
            else:
                self._apply(state, found.offset)
        self._ended(failure)

    def _try_later(self, state: AssignedPartition) -> None:
        if state.reset_backoff is None:
            config = self._client.config
            state.reset_backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        state.retry_at = trio.current_time() + state.reset_backoff.next_delay()

    def _apply(self, state: AssignedPartition, offset: int) -> None:
        if offset >= 0:
            state.seek(offset)
        else:
            # No record is as young as the duration asked for: go on at the end.
            state.reset("latest")

    def _timestamp(self, strategy: str) -> int:
        match strategy:
            case "earliest":
                return EARLIEST
            case "latest":
                return LATEST
            case _:
                return self._wall_ms() - duration_ms(strategy)
