"""Waiting for moves, with their progress on stderr.

The rate of a copy is that of the last ten seconds. The line is

    2 partitions on the move, 120.3 MB of 1.2 GB, 45.1 MB/s, 24s left
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import trio

from kcli.client import admin
from kcli.client.admin import TopicPartitionReplica
from kcli.client.admin.replicas import ReplicaPlace
from kcli.commands.reassignment.cluster import places_of, read_brokers
from kcli.commands.reassignment.view import Copy, ReassignmentState
from kcli.commands.shared.formatting import counted, ids_text, size_text, time_text
from kcli.commands.shared.output import Table, note

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import Assignment, Plan


RATE_SECONDS = 10.0


class CopyState(NamedTuple):
    """A copy at one moment; unknown values are None."""

    copy: Copy
    is_done: bool
    copied_bytes: int
    total_bytes: int | None
    bytes_per_second: float | None
    seconds_left: float | None


class CopyTracker:
    """Estimates rates and remaining times from observed sizes. A log may shrink, and its source may grow."""

    def __init__(self, copies: Sequence[Copy]) -> None:
        self._copies = copies
        self._seen: dict[Copy, deque[tuple[float, int]]] = {copy: deque() for copy in copies}

    def observe(
        self,
        now: float,
        places: Mapping[TopicPartitionReplica, ReplicaPlace],
        unfinished: set[TopicPartitionReplica],
    ) -> list[CopyState]:
        """Return the state of each copy; one that is not `unfinished` is done, whatever its size."""
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
    """Return the current size of the copied log, else the size it had at the start."""
    topic, partition, broker = copy.replica
    sizes = [
        place.size_bytes
        for replica, place in places.items()
        if replica[:2] == (topic, partition) and (replica.broker != broker or copy.log_dir is not None)
    ]
    return max(sizes, default=copy.size_bytes)


def summary(states: Sequence[CopyState], moving: int, down: Collection[int] = ()) -> str:
    """Return the progress of all copies in one line; the brokers in `down` are waited for."""
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
        parts.append(f"waiting for brokers that are down: {ids_text(sorted(down))}")
    return ", ".join(parts)


def progress_table(states: Sequence[CopyState]) -> Table:
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


LOOK_SECONDS = 1.0
LINE_SECONDS = 10.0

LOOK_TIMEOUT_MS = 5_000
"""How long a broker may take to tell sizes. The end of a move does not depend on them."""

SETTLE_SECONDS = 5.0
"""How long a broker may take to learn of an end that the controller reports."""

SETTLE_LOOK_SECONDS = 0.1

Seen = TypeVar("Seen")
Show = Callable[[Sequence[CopyState], str], None]


async def wait_for_moves(client: Client, plan: Plan, current: Assignment, copies: Sequence[Copy]) -> None:
    """Return when no partition and no replica of a plan moves any more, and show progress until then."""
    brokers = {broker for replicas in (*plan.replicas.values(), *current.values()) for broker in replicas}
    tracker = CopyTracker(copies)
    with shown_progress() as show:
        while True:
            moving = await admin.list_partition_reassignments(client, list(plan.replicas))
            alive = (await read_brokers(client)).racks.keys()
            places = await places_of(client, brokers & alive, plan.replicas, timeout_ms=LOOK_TIMEOUT_MS)
            between_dirs = {
                TopicPartitionReplica(state.topic, state.partition, state.broker)
                for state in plan.log_dir_states(places)
                if state.state == ReassignmentState.MOVING
            }
            if not moving and not between_dirs:
                return
            unfinished = between_dirs | {
                TopicPartitionReplica(*partition, broker)
                for partition, move in moving.items()
                for broker in move.adding
            }
            states = tracker.observe(trio.current_time(), places, unfinished)
            down = {replica.broker for replica in unfinished} - alive
            count = len({*moving, *((each.topic, each.partition) for each in between_dirs)})
            show(states, summary(states, count, down))
            await trio.sleep(LOOK_SECONDS)


async def settled(look: Callable[[], Awaitable[Seen]], is_done: Callable[[Seen], bool]) -> Seen:
    """Look until `is_done`, for at most `SETTLE_SECONDS`, and return the last look."""
    deadline = trio.current_time() + SETTLE_SECONDS
    while not is_done(seen := await look()) and trio.current_time() < deadline:  # noqa: ASYNC110
        await trio.sleep(SETTLE_LOOK_SECONDS)
    return seen


@contextmanager
def shown_progress() -> Iterator[Show]:
    """Give a function that shows progress: a table on a terminal, else a line every ten seconds."""
    if not sys.stderr.isatty():
        yield TimedLines()
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from kcli.commands.shared.output import shown_table

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show(states: Sequence[CopyState], line: str) -> None:
            live.update(
                Group(Text(line), *shown_table(progress_table(states), live.console.width)), refresh=True
            )

        yield show


class TimedLines:
    def __init__(self) -> None:
        self._due = trio.current_time() + LINE_SECONDS

    def __call__(self, states: Sequence[CopyState], line: str) -> None:
        now = trio.current_time()
        if now >= self._due:
            self._due = now + LINE_SECONDS
            note(line)
