"""What `describe --history` shows: generations of groups and their commits, as far as records are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcli.commands.groups.findings import time_text
from kcli.commands.groups.history import CommitEvent, Event, GenerationEvent
from kcli.commands.java.text import columns, widest
from kcli.commands.output import Table
from kcli.errors import KcliError


class HistoryRow(NamedTuple):
    """One event: of a partition, with an offset unless that was deleted; or of a group, with its members."""

    timestamp_ms: int
    event: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    generation: int | None = None
    assignor: str | None = None
    members: Sequence[str] | None = None

    def detail(self) -> str | None:
        """Return what a generation says."""
        if self.members is None:
            return None
        who = ", ".join(self.members) or "no members"
        return f"{self.assignor}: {who}" if self.assignor else who


class GroupEvents(NamedTuple):
    """A group and what happened to it, in the order of the log."""

    group: str
    events: Sequence[HistoryRow]


class HistoryView(NamedTuple):
    """The result of `describe --history`."""

    groups: Sequence[GroupEvents]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return a heading and a line for each event."""
        if not self.groups:
            return
        rows = [(group.group, row) for group in self.groups for row in group.events]
        widths = [widest(15, (group for group, _ in rows)), 20, 14]
        widths += [widest(15, (row.topic or "-" for _, row in rows)), 10, 15, 0]
        yield columns(
            widths, ("GROUP", "TIME", "EVENT", "TOPIC", "PARTITION", "OFFSET", "GENERATION-AND-MEMBERS")
        )
        for group, row in rows:
            generation = " ".join(str(part) for part in (row.generation, row.detail()) if part is not None)
            yield columns(
                widths,
                (
                    group,
                    time_text(row.timestamp_ms),
                    row.event,
                    row.topic,
                    row.partition,
                    row.offset,
                    generation or None,
                ),
            )

    def tables(self) -> Iterator[Table]:
        """Return a table for each group."""
        for group in self.groups:
            yield Table(
                ("Time", "Event", "Topic", "Partition", "Offset", "Generation", "Members"),
                [
                    (
                        time_text(row.timestamp_ms),
                        row.event,
                        row.topic,
                        row.partition,
                        row.offset,
                        row.generation,
                        row.detail(),
                    )
                    for row in group.events
                ],
                group.group,
            )


def history_row(event: Event) -> HistoryRow:
    """Return an event as it is shown."""
    match event:
        case CommitEvent():
            kind = "commit" if event.offset is not None else "delete-offset"
            return HistoryRow(event.at_ms, kind, event.topic, event.partition, event.offset)
        case GenerationEvent(number=None):
            return HistoryRow(event.at_ms, "delete-group")
        case GenerationEvent():
            members = [
                f"{member.instance_id or member.client_id}@{member.host.lstrip('/')}"
                for member in event.members
            ]
            return HistoryRow(
                event.at_ms,
                "generation",
                generation=event.number,
                assignor=event.assignor,
                members=members,
            )
