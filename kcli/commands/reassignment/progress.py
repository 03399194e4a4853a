"""How far copies are: bytes, rate and time left of each, from sizes that are looked at again and again. Pure.

The rate is that of the last ten seconds. A log may shrink while it is copied, and its source may grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kcli.client.admin.replicas import ReplicaPlace, TopicPartitionReplica
from kcli.commands.amounts import size_text, time_text
from kcli.commands.output import Table
from kcli.commands.reassignment.moves import Copy
from kcli.commands.reassignment.view import ids
from kcli.commands.words import counted

RATE_SECONDS = 10.0


class CopyState(NamedTuple):
    """A copy at one moment; what is not known yet is None."""

    copy: Copy
    is_done: bool
    copied_bytes: int
    total_bytes: int | None
    bytes_per_second: float | None
    seconds_left: float | None


class CopyTracker:
    """Remembers the sizes of copies; `observe` tells of a look at all of them."""

    def __init__(self, copies: Sequence[Copy]) -> None:
        self._copies = copies
        self._seen: dict[Copy, deque[tuple[float, int]]] = {copy: deque() for copy in copies}

    def observe(
        self,
        now: float,
        places: Mapping[TopicPartitionReplica, ReplicaPlace],
        unfinished: set[TopicPartitionReplica],
    ) -> list[CopyState]:
        """Return the state of each copy; those not `unfinished` are done, whatever their size."""
        return [self._state(now, copy, places, copy.replica in unfinished) for copy in self._copies]

    def _state(
        self,
        now: float,
        copy: Copy,
        places: Mapping[TopicPartitionReplica, ReplicaPlace],
        is_unfinished: bool,
    ) -> CopyState:
        total = _source_bytes(copy, places)
        if not is_unfinished:
            return CopyState(copy, True, total or 0, total, None, None)
        place = places.get(copy.replica, ReplicaPlace())
        is_between_dirs = copy.log_dir is not None and place.log_dir != copy.log_dir
        copied = place.future_size_bytes if is_between_dirs else place.size_bytes
        seen = self._seen[copy]
        seen.append((now, copied))
        while now - seen[0][0] > RATE_SECONDS and len(seen) > 2:
            seen.popleft()
        seconds = now - seen[0][0]
        rate = max(0.0, (copied - seen[0][1]) / seconds) if seconds > 0 else None
        left = None if total is None or not rate else max(0, total - copied) / rate
        return CopyState(copy, False, copied, total, rate, left)


def _source_bytes(copy: Copy, places: Mapping[TopicPartitionReplica, ReplicaPlace]) -> int | None:
    """Return the size of the log that is copied, as it is now if a broker tells."""
    topic, partition, broker = copy.replica
    sizes = [
        place.size_bytes
        for replica, place in places.items()
        if replica[:2] == (topic, partition) and (replica.broker != broker or copy.log_dir is not None)
    ]
    return max(sizes, default=copy.size_bytes)


def summary(states: Sequence[CopyState], moving: int, down: Collection[int] = ()) -> str:
    """Return all of it in one line; `down` are brokers that are waited for."""
    copied = sum(state.copied_bytes for state in states)
    total = max(copied, sum(state.total_bytes or 0 for state in states))
    rates = [state.bytes_per_second for state in states if state.bytes_per_second is not None]
    left = [state.seconds_left for state in states if state.seconds_left is not None]
    parts = [f"{counted(moving, 'partition')} on the move", f"{size_text(copied)} of {size_text(total)}"]
    if rates:
        parts.append(f"{size_text(sum(rates))}/s")
    if left:
        parts.append(f"{time_text(max(left))} left")
    if down:
        parts.append(f"waiting for what is down: broker {ids(sorted(down))}")
    return ", ".join(parts)


def progress_table(states: Sequence[CopyState]) -> Table:
    """Return a row for each copy that is not done."""
    rows: list[tuple[object, ...]] = [
        (
            f"{state.copy.replica.topic}-{state.copy.replica.partition}",
            f"{state.copy.replica.broker}{f' {state.copy.log_dir}' if state.copy.log_dir else ''}",
            size_text(state.copied_bytes),
            None if state.total_bytes is None else size_text(state.total_bytes),
            None if state.bytes_per_second is None else f"{size_text(state.bytes_per_second)}/s",
            None if state.seconds_left is None else time_text(state.seconds_left),
        )
        for state in states
        if not state.is_done
    ]
    return Table(("Partition", "To", "Copied", "Of", "Rate", "Left"), rows)
