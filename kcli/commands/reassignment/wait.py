"""Waiting for moves: their progress is on stderr, as a table on a terminal, else a line every ten seconds.

2 partitions on the move, 120.3 MB of 1.2 GB, 45.1 MB/s, 24s left
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import trio

from kcli.client import admin
from kcli.client.admin import TopicPartitionReplica
from kcli.commands.output import note
from kcli.commands.reassignment.cluster import places_of, read_brokers
from kcli.commands.reassignment.moves import compare_log_dirs
from kcli.commands.reassignment.progress import CopyState, CopyTracker, progress_table, summary
from kcli.commands.reassignment.view import MOVING

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.commands.reassignment.moves import Copy
    from kcli.commands.reassignment.plan import Assignment, Plan

LOOK_SECONDS = 1.0
LINE_SECONDS = 10.0

LOOK_TIMEOUT_MS = 5_000
"""How long a broker may take to tell sizes: what has ended is told by others."""

SETTLE_SECONDS = 5.0
"""How long a broker may take to hear of the end that the controller tells of."""

SETTLE_LOOK_SECONDS = 0.1

Seen = TypeVar("Seen")
Show = Callable[[Sequence[CopyState], str], None]


async def wait_for_moves(client: Client, plan: Plan, current: Assignment, copies: Sequence[Copy]) -> None:
    """Return when no partition and no replica of a plan is on the move any more."""
    brokers = {broker for replicas in (*plan.replicas.values(), *current.values()) for broker in replicas}
    tracker = CopyTracker(copies)
    with shown_progress() as show:
        while True:
            moving = await admin.list_partition_reassignments(client, list(plan.replicas))
            alive = (await read_brokers(client)).racks.keys()
            places = await places_of(client, brokers & alive, plan.replicas, timeout_ms=LOOK_TIMEOUT_MS)
            between_dirs = {
                TopicPartitionReplica(state.topic, state.partition, state.broker)
                for state in compare_log_dirs(plan, places)
                if state.state == MOVING
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
    """Return what is seen as soon as it is as planned, or what is seen of it after some seconds.

    Nothing moves any more: the controller has told so, but a broker that is asked may hear of it later.
    """
    deadline = trio.current_time() + SETTLE_SECONDS
    while not is_done(seen := await look()) and trio.current_time() < deadline:  # noqa: ASYNC110
        await trio.sleep(SETTLE_LOOK_SECONDS)
    return seen


@contextmanager
def shown_progress() -> Iterator[Show]:
    """Give what shows progress while inside."""
    if not sys.stderr.isatty():
        yield TimedLines()
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from kcli.commands.output import rich_table

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show(states: Sequence[CopyState], line: str) -> None:
            live.update(Group(Text(line), rich_table(progress_table(states))), refresh=True)

        yield show


class TimedLines:
    """Prints a line every ten seconds."""

    def __init__(self) -> None:
        self._due = trio.current_time() + LINE_SECONDS

    def __call__(self, states: Sequence[CopyState], line: str) -> None:
        """Print a line if it is time for one."""
        now = trio.current_time()
        if now >= self._due:
            self._due = now + LINE_SECONDS
            note(line)
