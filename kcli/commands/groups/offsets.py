"""How far a group is behind: per partition in records and in time, and summed up. Pure.

The lag of a partition is its end offset minus the committed offset, and is not known without either of them.
Behind in time is how long the first record that the group has not read has been waiting: now minus that
record's timestamp, and nothing when there is no such record.

What `kcli consumer-groups describe` shows of offsets: partitions with their lag, or totals of groups.

The text of partitions is that of Kafka's own tool (class `ConsumerGroupCommand`), byte for byte; totals and
time lags are kcli's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kcli.commands.groups.head import GroupHead
from kcli.commands.shared.java import columns, widest
from kcli.commands.shared.output import Table
from kcli.errors import KcliError
from kcli.protocol.java import java_order
from kcli.protocol.topics import TopicPartition

TENTH_MS = 100
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Committed(NamedTuple):
    """An offset that a group committed."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class Owner(NamedTuple):
    """A member, as far as its partitions show it, and these."""

    consumer_id: str
    host: str
    client_id: str
    partitions: Collection[TopicPartition]


class PartitionRow(NamedTuple):
    """A partition that a group owns, or committed an offset of. What is not known is None.

    `unread_timestamp_ms` is that of the first record the group has not read; it and `time_lag_ms` are only
    there when they were asked for.
    """

    topic: str
    partition: int
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None
    unread_timestamp_ms: int | None = None
    time_lag_ms: int | None = None


def partition_rows(
    owners: Sequence[Owner],
    committed: Mapping[TopicPartition, Committed],
    end_offsets: Mapping[TopicPartition, int | None],
) -> list[PartitionRow]:
    """Return the rows of a group in the order of Kafka's tool.

    First those of members, most partitions first, then those that nobody owns; each by topic and partition.
    """
    rows: list[PartitionRow] = []
    owned: set[TopicPartition] = set()
    for owner in sorted(owners, key=lambda owner: -len(owner.partitions)):
        owned.update(owner.partitions)
        rows += [
            _row(partition, owner, committed.get(partition), end_offsets.get(partition))
            for partition in in_order(owner.partitions)
        ]
    rows += [
        _row(partition, None, committed[partition], end_offsets.get(partition))
        for partition in in_order(committed.keys() - owned)
    ]
    return rows


def in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions by topic, as Java compares strings, and number."""
    return sorted(partitions, key=lambda partition: (java_order(partition[0]), partition[1]))


def _row(
    partition: TopicPartition, owner: Owner | None, committed: Committed | None, end_offset: int | None
) -> PartitionRow:
    offset = None if committed is None else committed.offset
    return PartitionRow(
        *partition,
        None if committed is None else committed.leader_epoch,
        offset,
        end_offset,
        None if offset is None or end_offset is None else end_offset - offset,
        None if owner is None else owner.consumer_id,
        None if owner is None else owner.host,
        None if owner is None else owner.client_id,
    )


def unread_positions(
    rows: Iterable[PartitionRow], start_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return, for each partition with lag, where its first unread record is or would be."""
    return {
        partition: max(row.current_offset, start_offsets.get(partition, 0))
        for row in rows
        if row.current_offset is not None and row.lag is not None and row.lag > 0
        for partition in [TopicPartition(row.topic, row.partition)]
    }


def with_time_lag(
    rows: Iterable[PartitionRow], timestamps: Mapping[TopicPartition, int | None], *, now_ms: int
) -> list[PartitionRow]:
    """Return the rows with the time lag that follows from the timestamps of first unread records.

    A partition whose timestamp is None has nothing left to read, whatever its end offset says: markers of
    transactions, or holes that compaction left. One without a timestamp is not known.
    """
    found = []
    for row in rows:
        partition = TopicPartition(row.topic, row.partition)
        timestamp = timestamps.get(partition)
        time_lag = None
        if timestamp is not None:
            time_lag = max(0, now_ms - timestamp) if timestamp >= 0 else None
        elif partition in timestamps or (row.lag is not None and row.lag <= 0):
            time_lag = 0
        found.append(row._replace(unread_timestamp_ms=timestamp, time_lag_ms=time_lag))
    return found


def total_lag(rows: Iterable[PartitionRow]) -> int | None:
    """Return the sum of the known lags, None if none is known. No lag counts twice, or below 0."""
    lags = {(row.topic, row.partition): max(0, row.lag) for row in rows if row.lag is not None}
    return sum(lags.values()) if lags else None


def longest_time_lag(rows: Iterable[PartitionRow]) -> int | None:
    """Return the time lag of the partition that is furthest behind, None if none is known."""
    return max((row.time_lag_ms for row in rows if row.time_lag_ms is not None), default=None)


def duration_text(duration_ms: int | None) -> str | None:
    """Return a duration as people say it: 0s, 0.3s, 12s, 1m23s, 2h05m, 3d04h; None stays None."""
    if duration_ms is None:
        return None
    if duration_ms < 10 * SECOND_MS - TENTH_MS // 2:
        tenths = max(round(duration_ms / TENTH_MS), min(duration_ms, 1))
        return f"{tenths / 10:.1f}".removesuffix(".0") + "s"
    if duration_ms < MINUTE_MS - SECOND_MS // 2:
        return f"{round(duration_ms / SECOND_MS)}s"
    duration_ms = max(duration_ms, MINUTE_MS)
    if duration_ms < HOUR_MS:
        return f"{duration_ms // MINUTE_MS}m{duration_ms % MINUTE_MS // SECOND_MS:02d}s"
    if duration_ms < DAY_MS:
        return f"{duration_ms // HOUR_MS}h{duration_ms % HOUR_MS // MINUTE_MS:02d}m"
    return f"{duration_ms // DAY_MS}d{duration_ms % DAY_MS // HOUR_MS:02d}h"


class GroupOffsets(NamedTuple):
    """A group and its partitions."""

    head: GroupHead
    partitions: Sequence[PartitionRow]

    def total_lag(self) -> int | None:
        """Return the lag of the whole group."""
        return total_lag(self.partitions)

    def document(self) -> object:
        """Return the group's fields, its total lag and its partitions."""
        return {
            **self.head._asdict(),
            "total_lag": self.total_lag(),
            "longest_time_lag_ms": longest_time_lag(self.partitions),
            "partitions": self.partitions,
        }


class OffsetsView(NamedTuple):
    """The result of `describe --offsets`."""

    groups: Sequence[GroupOffsets]
    verbose: bool = False
    time_lag: bool = False
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return for each group an empty line, a heading and a line for each partition."""
        for group in self.groups:
            if group.partitions:
                yield from self._group_lines(group)

    def _group_lines(self, group: GroupOffsets) -> Iterator[str]:
        rows = group.partitions
        widths = [widest(15, [group.head.group]), widest(15, (row.topic for row in rows)), 10]
        names = ["GROUP", "TOPIC", "PARTITION"]
        if self.verbose:
            names.append("LEADER-EPOCH")
            widths.append(15)
        names += ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
        widths += [15, 15, 15]
        if self.time_lag:
            names.append("TIME-LAG")
            widths.append(15)
        widths += [
            widest(15, (row.consumer_id or "" for row in rows)),
            widest(15, (row.host or "" for row in rows)),
            0,
        ]
        yield ""
        yield columns(widths, (*names, "CONSUMER-ID", "HOST", "CLIENT-ID"))
        for row in rows:
            yield columns(widths, (group.head.group, *self._cells(row)))

    def _cells(self, row: PartitionRow) -> Iterator[object]:
        yield from (row.topic, row.partition)
        if self.verbose:
            yield row.leader_epoch
        yield from (row.current_offset, row.log_end_offset, row.lag)
        if self.time_lag:
            yield duration_text(row.time_lag_ms)
        yield from (row.consumer_id, row.host, row.client_id)

    def document(self) -> object:
        """Return the groups with their totals, and the total of all."""
        return {"groups": self.groups, "total_lag": sum_of_lags(self.groups), "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        """Return a table for each group, its total lag in the title."""
        names = ["Topic", "Partition"]
        if self.verbose:
            names.append("Leader epoch")
        names += ["Committed", "End", "Lag"]
        if self.time_lag:
            names.append("Behind")
        for group in self.groups:
            yield Table(
                (*names, "Consumer", "Host", "Client"),
                [list(self._cells(row)) for row in group.partitions],
                lag_title(group),
            )


def lag_title(group: GroupOffsets) -> str:
    """Return the heading of a group's table with its lag."""
    lag, behind = group.total_lag(), duration_text(longest_time_lag(group.partitions))
    parts = [group.head.title(), None if lag is None else f"lag {lag}", behind and f"behind {behind}"]
    return "  ".join(part for part in parts if part)


def sum_of_lags(groups: Iterable[GroupOffsets]) -> int | None:
    """Return the lag of all groups together, None if none is known."""
    known = [lag for lag in (group.total_lag() for group in groups) if lag is not None]
    return sum(known) if known else None


class TotalsView(NamedTuple):
    """The result of `describe --total-lag`: a line for each group, and one for all."""

    groups: Sequence[GroupOffsets]
    time_lag: bool = False
    failures: Sequence[KcliError] = ()

    def _rows(self) -> list[list[object]]:
        rows: list[list[object]] = [
            [
                group.head.group,
                group.head.state,
                group.head.member_count,
                len(group.partitions),
                group.total_lag(),
                longest_time_lag(group.partitions),
            ]
            for group in self.groups
        ]
        if len(rows) > 1:
            counts = [sum(row[index] for row in rows) for index in (2, 3)]  # type: ignore[misc]
            behind = longest_time_lag(row for group in self.groups for row in group.partitions)
            rows.append(["TOTAL", None, *counts, sum_of_lags(self.groups), behind])
        return [[*row[:5], duration_text(row[5])] if self.time_lag else row[:5] for row in rows]  # type: ignore[arg-type]

    def lines(self) -> Iterator[str]:
        """Return a heading, a line for each group and, of several groups, one for all."""
        rows = self._rows()
        if not rows:
            return
        names = ["GROUP", "STATE", "#MEMBERS", "#PARTITIONS", "LAG"]
        widths = [widest(15, (str(row[0]) for row in rows)), 20, 10, 12, 0]
        if self.time_lag:
            names, widths = [*names, "TIME-LAG"], [*widths[:4], 15, 0]
        yield columns(widths, names)
        for row in rows:
            yield columns(widths, row)

    def document(self) -> object:
        """Return the same document as `describe --offsets`."""
        return OffsetsView(self.groups, failures=self.failures).document()

    def tables(self) -> Iterator[Table]:
        """Return one table."""
        names = ["Group", "State", "Members", "Partitions", "Lag"]
        yield Table([*names, "Behind"] if self.time_lag else names, self._rows())
