"""The views of `kcli consumer-groups describe`, from a cluster or from files, and what `--history` shows."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.groups.findings import ExplainView
from kcli.commands.groups.head import GroupHead, StatesView
from kcli.commands.groups.history import CommitEvent, Event, GenerationEvent, GroupHistory
from kcli.commands.groups.members import GroupMembers, MembersView
from kcli.commands.groups.offsets import OffsetsView, TotalsView
from kcli.commands.groups.options import View
from kcli.commands.shared.formatting import moment_text
from kcli.commands.shared.java import Column, table_lines
from kcli.commands.shared.output import Table
from kcli.errors import KcliError
from kcli.protocol.java import java_order

if TYPE_CHECKING:
    from kcli.client.client import Client


class HistoryRow(NamedTuple):
    """An event: of a partition, with its offset unless that was deleted; or of a group, with its members."""

    timestamp_ms: int
    event: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    generation: int | None = None
    assignor: str | None = None
    members: Sequence[str] | None = None

    def detail(self) -> str | None:
        if self.members is None:
            return None
        who = ", ".join(self.members) or "no members"
        return f"{self.assignor}: {who}" if self.assignor else who


class GroupEvents(NamedTuple):
    """A group and its events in the order of the log."""

    group: str
    events: Sequence[HistoryRow]


class HistoryView(NamedTuple):
    """The result of `describe --history`."""

    groups: Sequence[GroupEvents]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        rows = [
            (
                group.group,
                moment_text(row.timestamp_ms),
                *row[1:5],
                " ".join(str(part) for part in (row.generation, row.detail()) if part is not None) or None,
            )
            for group in self.groups
            for row in group.events
        ]
        columns = [Column("GROUP", 15, True), Column("TIME", 20), Column("EVENT", 14)]
        columns += [Column("TOPIC", 15, True), Column("PARTITION", 10), Column("OFFSET", 15)]
        if self.groups:
            yield from table_lines([*columns, Column("GENERATION-AND-MEMBERS", 0)], rows)

    def tables(self) -> Iterator[Table]:
        for group in self.groups:
            yield Table(
                ("Time", "Event", "Topic", "Partition", "Offset", "Generation", "Members"),
                [(moment_text(row.timestamp_ms), *row[1:6], row.detail()) for row in group.events],
                group.group,
            )


def history_row(event: Event) -> HistoryRow:
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
                event.at_ms, "generation", generation=event.number, assignor=event.assignor, members=members
            )


Description = OffsetsView | TotalsView | MembersView | StatesView | ExplainView | HistoryView


def notes(description: Description) -> Iterator[str]:
    """Yield what Kafka's tool prints on stderr about the states of groups."""
    heads: list[GroupHead] = []
    match description:
        case StatesView():
            heads = list(description.groups)
        case OffsetsView() | MembersView():
            heads = [group.head for group in description.groups]
    for head in heads:
        if (note := head.note()) is not None:
            yield note


class DescribeOptions(NamedTuple):
    """The view of `describe` and its options; `apart_ms` is the time between the snapshots of `--explain`."""

    view: View
    verbose: bool = False
    time_lag: bool = False
    apart_ms: int = 0
    timeout_ms: int | None = None


async def describe_live(client: Client, names: Sequence[str], options: DescribeOptions) -> Description:
    """Ask the cluster for the named groups, or for all."""
    from kcli.commands.groups import lookup

    view, verbose, time_lag, apart_ms, timeout_ms = options
    unlisted: list[KcliError] = []
    if not names:
        names, unlisted = await lookup.every_name(client, timeout_ms)
    if view is View.EXPLAIN:
        from kcli.commands.groups.explain import explain_groups

        explained = await explain_groups(client, names, apart_ms=apart_ms, timeout_ms=timeout_ms)
        return explained._replace(failures=[*unlisted, *explained.failures])
    if view is View.HISTORY:
        from kcli.commands.groups.records import read_histories

        histories, damaged = await read_histories(client, names, with_commits=True, timeout_ms=timeout_ms)
        return history_view(histories, names, failures=[*unlisted, *damaged])
    found = await lookup.describe(client, names, timeout_ms=timeout_ms)
    failures = [*unlisted, *found.failures]
    if view is View.STATE:
        return StatesView([GroupHead.of(group) for group in found.groups], verbose, failures)
    if view is View.MEMBERS:
        return MembersView([GroupMembers.of(group) for group in found.groups], verbose, failures)
    groups, unknown = await lookup.offsets_of(client, found.groups, timeout_ms=timeout_ms)
    failures += unknown
    if time_lag:
        now_ms = time.time_ns() // 1_000_000
        groups, refused = await lookup.add_time_lag(client, groups, now_ms=now_ms, timeout_ms=timeout_ms)
        failures += refused
    if view is View.TOTAL_LAG:
        return TotalsView(groups, time_lag, failures)
    return OffsetsView(groups, verbose, time_lag, failures)


def describe_files(
    directories: Sequence[Path], names: Sequence[str], view: View, *, verbose: bool = False
) -> Description:
    """Read the named groups, or all, from the files of a broker."""
    from kcli.commands.groups import files as offline
    from kcli.commands.groups.lookup import CONSUMER_PROTOCOL_TYPES, unknown_group

    files = offline.GroupFiles(directories)
    wanted = set(names)
    every = files.groups(with_events=lambda name: view is View.HISTORY and (not wanted or name in wanted))
    if view is View.HISTORY:
        return history_view(every, names or every, failures=files.failures, option=" --log-dir DIR")
    failures = files.failures + [
        unknown_group(name, " --log-dir DIR") for name in names if name not in every or not every[name].exists
    ]
    groups = [
        every[name]
        for name in sorted(wanted or every, key=java_order)
        if name in every
        and every[name].exists
        and (wanted or offline.protocol_type(every[name]) in CONSUMER_PROTOCOL_TYPES)
    ]
    match view:
        case View.STATE:
            return StatesView([offline.head_of(group) for group in groups], verbose, failures)
        case View.MEMBERS:
            members = [offline.members_of(group, files.topic_name) for group in groups]
            return MembersView(members, verbose, failures)
    ranges = files.ranges(offline.partitions_of(groups, files.topic_name))
    offsets = [offline.offsets_of(group, files.topic_name, ranges) for group in groups]
    if view is View.TOTAL_LAG:
        return TotalsView(offsets, failures=failures)
    return OffsetsView(offsets, verbose, failures=failures)


def history_view(
    histories: dict[str, GroupHistory],
    names: Collection[str],
    *,
    failures: Sequence[KcliError],
    option: str = "",
) -> HistoryView:
    """Return the history of groups; a group without records is an error."""
    from kcli.commands.groups.lookup import unknown_group

    ordered = sorted(names, key=java_order)
    empty = [name for name in ordered if name not in histories or not histories[name].events]
    groups = [
        GroupEvents(name, [history_row(event) for event in histories[name].events])
        for name in ordered
        if name not in empty
    ]
    return HistoryView(groups, [*failures, *(unknown_group(name, option) for name in empty)])
