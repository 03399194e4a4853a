"""How far a group is behind: per partition in records and in time, and summed up. Pure.

The lag of a partition is its end offset minus the committed offset, and is not known without either of them.
Behind in time is how long the first record that the group has not read has been waiting: now minus that
record's timestamp, and nothing when there is no such record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kcli.assignors.members import java_order

TENTH_MS = 100
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

Partition = tuple[str, int]
"""A topic and one of its partitions; `TopicPartition` is such a pair as well."""


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
    partitions: Collection[Partition]


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
    committed: Mapping[Partition, Committed],
    end_offsets: Mapping[Partition, int | None],
) -> list[PartitionRow]:
    """Return the rows of a group in the order of Kafka's tool.

    First those of members, most partitions first, then those that nobody owns; each by topic and partition.
    """
    rows: list[PartitionRow] = []
    owned: set[Partition] = set()
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


def in_order(partitions: Iterable[Partition]) -> list[Partition]:
    """Return partitions by topic, as Java compares strings, and number."""
    return sorted(partitions, key=lambda partition: (java_order(partition[0]), partition[1]))


def _row(
    partition: Partition, owner: Owner | None, committed: Committed | None, end_offset: int | None
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
    rows: Iterable[PartitionRow], start_offsets: Mapping[Partition, int]
) -> dict[Partition, int]:
    """Return, for each partition with lag, where its first unread record is or would be."""
    return {
        partition: max(row.current_offset, start_offsets.get(partition, 0))
        for row in rows
        if row.current_offset is not None and row.lag is not None and row.lag > 0
        for partition in [(row.topic, row.partition)]
    }


def with_time_lag(
    rows: Iterable[PartitionRow], timestamps: Mapping[Partition, int | None], *, now_ms: int
) -> list[PartitionRow]:
    """Return the rows with the time lag that follows from the timestamps of first unread records.

    A partition whose timestamp is None has nothing left to read, whatever its end offset says: markers of
    transactions, or holes that compaction left. One without a timestamp is not known.
    """
    found = []
    for row in rows:
        partition = (row.topic, row.partition)
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
