"""The lag of a group: per partition in records and in time, and in total. Pure.

The lag of a partition is its end offset minus the committed offset, and unknown without either of them. The
time lag is the age of the first record that the group has not read, and 0 without such a record. The text of
partitions is that of Kafka's tool (class `ConsumerGroupCommand`), byte for byte; totals and time lags are
kcli's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kcli.commands.groups.head import GroupHead
from kcli.commands.shared.formatting import lag_text
from kcli.commands.shared.java import Column, table_lines
from kcli.commands.shared.output import Table
from kcli.errors import KcliError
from kcli.protocol.java import java_order
from kcli.protocol.topics import TopicPartition


class Committed(NamedTuple):
    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class Owner(NamedTuple):
    consumer_id: str
    host: str
    client_id: str
    partitions: Collection[TopicPartition]


class PartitionRow(NamedTuple):
    """A partition that a group owns or has committed an offset of; unknown values are None."""

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

    The members come first, most partitions first, then partitions without an owner; each by topic and index.
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
    """Return partitions sorted by topic, as Java compares strings, and index."""
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
        *(owner[:3] if owner is not None else (None, None, None)),
    )


def unread_positions(
    rows: Iterable[PartitionRow], start_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offset of the first unread record of each partition with lag."""
    return {
        partition: max(row.current_offset, start_offsets.get(partition, 0))
        for row in rows
        if row.current_offset is not None and row.lag is not None and row.lag > 0
        for partition in [TopicPartition(row.topic, row.partition)]
    }


def with_time_lag(
    rows: Iterable[PartitionRow], timestamps: Mapping[TopicPartition, int | None], *, now_ms: int
) -> list[PartitionRow]:
    """Return the rows with time lags, computed from the timestamps of the first unread records.

    Timestamp None: the partition has no unread record, only transaction markers or compacted offsets. Missing
    timestamp: the time lag is unknown.
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
    """Return the sum of the known lags, None without any. Each partition counts once, negative lags as 0."""
    lags = {(row.topic, row.partition): max(0, row.lag) for row in rows if row.lag is not None}
    return sum(lags.values()) if lags else None


def longest_time_lag(rows: Iterable[PartitionRow]) -> int | None:
    return max((row.time_lag_ms for row in rows if row.time_lag_ms is not None), default=None)


class GroupOffsets(NamedTuple):
    head: GroupHead
    partitions: Sequence[PartitionRow]

    def total_lag(self) -> int | None:
        return total_lag(self.partitions)

    def title(self) -> str:
        lag, behind = self.total_lag(), lag_text(longest_time_lag(self.partitions))
        parts = [self.head.title(), None if lag is None else f"lag {lag}", behind and f"behind {behind}"]
        return "  ".join(part for part in parts if part)

    def document(self) -> object:
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
        for group in self.groups:
            if group.partitions:
                yield from self._group_lines(group)

    def _group_lines(self, group: GroupOffsets) -> Iterator[str]:
        columns = [Column("GROUP", 15, True), Column("TOPIC", 15, True), Column("PARTITION", 10)]
        if self.verbose:
            columns.append(Column("LEADER-EPOCH", 15))
        columns += [Column("CURRENT-OFFSET", 15), Column("LOG-END-OFFSET", 15), Column("LAG", 15)]
        if self.time_lag:
            columns.append(Column("TIME-LAG", 15))
        columns += [Column("CONSUMER-ID", 15, True), Column("HOST", 15, True), Column("CLIENT-ID", 0)]
        rows = [(group.head.group, *self._cells(row)) for row in group.partitions]
        yield from ("", *table_lines(columns, rows))

    def _cells(self, row: PartitionRow) -> Iterator[object]:
        yield from (row.topic, row.partition)
        if self.verbose:
            yield row.leader_epoch
        yield from (row.current_offset, row.log_end_offset, row.lag)
        if self.time_lag:
            yield lag_text(row.time_lag_ms)
        yield from (row.consumer_id, row.host, row.client_id)

    def document(self) -> object:
        return {"groups": self.groups, "total_lag": sum_of_lags(self.groups), "failures": self.failures}

    def tables(self) -> Iterator[Table]:
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
                group.title(),
            )


def sum_of_lags(groups: Iterable[GroupOffsets]) -> int | None:
    """Return the lag of all groups together, None if no lag is known."""
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
        return [[*row[:5], lag_text(row[5])] if self.time_lag else row[:5] for row in rows]  # type: ignore[arg-type]

    def lines(self) -> Iterator[str]:
        rows = self._rows()
        if not rows:
            return
        columns = [Column("GROUP", 15, True), Column("STATE", 20), Column("#MEMBERS", 10)]
        columns += [Column("#PARTITIONS", 12), Column("LAG", 15 if self.time_lag else 0)]
        yield from table_lines([*columns, Column("TIME-LAG", 0)] if self.time_lag else columns, rows)

    def document(self) -> object:
        return OffsetsView(self.groups, failures=self.failures).document()

    def tables(self) -> Iterator[Table]:
        names = ["Group", "State", "Members", "Partitions", "Lag"]
        yield Table([*names, "Behind"] if self.time_lag else names, self._rows())
