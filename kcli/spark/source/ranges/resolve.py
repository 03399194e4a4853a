"""Resolving: turns what was asked for into one interval of offsets per partition.

| found                                            | data loss fails             | otherwise           |
|--------------------------------------------------|-----------------------------|---------------------|
| a named topic or partition is gone               | error                       | left out            |
| a start before the first offset                  | error with the lost offsets | begins at the first |
| an end, or a start, behind the partition's end   | error                       | ends there          |
| a new partition that does not begin at 0         | error with the lost offsets | begins at the first |
| an earlier run's position behind the end         | always an error (`on_reset`)| (begins at the first) |
| another log below an earlier run's position      | error with the offsets      | goes on there       |

As in Spark's source, specific offsets and timestamps must name every selected partition and no other, and an
explicit start must not be behind an explicit end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.source.data_loss import Loss, LossReport, TopicReset, name_of
from kcli.spark.source.ranges.offset_specs import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    OnNoMatch,
    OnReset,
    check_named,
    check_order,
)
from kcli.spark.source.ranges.selection import select
from kcli.spark.split import OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.source.ranges.offset_specs import OffsetSpec, RangeRules
    from kcli.spark.source.ranges.selection import Selection
    from kcli.spark.source.source import Source, TopicIdentity
    from kcli.spark.split import BatchMark


@dataclass(frozen=True, slots=True)
class Resolved:
    """One interval per selected partition, including empty ones, and what was lost."""

    ranges: Mapping[TopicPartition, OffsetInterval]
    next_positions: Mapping[TopicPartition, int]
    """Where the next run goes on, which a filter does not change."""
    topics: tuple[TopicIdentity, ...]
    losses: tuple[Loss, ...] = ()
    """The accepted data loss."""
    changed: frozenset[TopicPartition] = frozenset()
    """Partitions whose log is not the one that earlier runs read."""
    restarted: frozenset[TopicPartition] = frozenset()
    """Those of them that begin again, so that all rows of earlier runs are of another log."""


def resolve(
    source: Source,
    selection: Selection,
    rules: RangeRules,
    *,
    positions: Mapping[TopicPartition, int] | None = None,
    marks: Mapping[TopicPartition, Sequence[BatchMark]] | None = None,
) -> Resolved:
    """Return the ranges to read now; raise `DataLoss`, `TopicReset` or another `KcliError`.

    `positions` are the next offsets of earlier runs. Partitions with a position go on there, new partitions
    of their topics begin at the first offset, and other topics begin as the rules say. `marks` are batches
    that the log of a partition has, if it is still the one that was read.
    """
    selected = select(selection, source.topics())
    losses = LossReport(rules.fail_on_data_loss)
    for missing in selected.missing:
        losses.add_missing(missing)
    bounds = Bounds(source, rules, selected.partitions, positions or {}, marks or {})
    ranges, following = {}, {}
    for partition in selected.partitions:
        ranges[partition], following[partition] = bounds.interval(partition, losses)
    return Resolved(
        ranges,
        following,
        selected.topics,
        tuple(losses.found),
        frozenset(bounds.changed),
        frozenset(bounds.restarted),
    )


class Bounds:
    """The bounds of partitions, by a source's answers and the rules."""

    def __init__(
        self,
        source: Source,
        rules: RangeRules,
        partitions: Sequence[TopicPartition],
        positions: Mapping[TopicPartition, int],
        marks: Mapping[TopicPartition, Sequence[BatchMark]],
    ) -> None:
        self._source = source
        self._rules = rules
        self._positions = positions
        self.changed: set[TopicPartition] = set()
        self.restarted: set[TopicPartition] = set()
        known_topics = {one.topic for one in positions}
        self._fresh = [one for one in partitions if one.topic not in known_topics]
        check_named(rules.starting, needed=self._fresh, selected=partitions, side="starting")
        check_named(rules.ending, needed=partitions, selected=partitions, side="ending")
        check_order(rules.starting, rules.ending, self._fresh)
        # Timestamps first: what they find is then never behind an end.
        self._start_times = self._found_at(rules.starting, self._fresh)
        self._end_times = self._found_at(rules.ending, partitions)
        self._newer = self._found_by_filter(partitions)
        self._earliest = source.earliest(partitions) if partitions else {}
        self._latest = source.latest(partitions, read_committed=rules.read_committed) if partitions else {}
        wanted = {one: marks[one] for one in partitions if one in marks}
        self._divergences = source.divergences(wanted) if wanted else {}

    def start(self, partition: TopicPartition) -> int:
        """Return where the starting spec puts a partition without a position."""
        match self._rules.starting:
            case Earliest():
                return self._earliest[partition]
            case Latest():
                return self._latest[partition]
            case AtOffsets(offsets):
                return self._offset(partition, offsets[partition])
            case AtTimestamp() | AtTimestamps():
                return self._start_at_time(partition)

    def interval(self, partition: TopicPartition, losses: LossReport) -> tuple[OffsetInterval, int]:
        """Return the interval to read of a partition, and the next offset of the following run."""
        start = self._begin(partition, losses)
        end = self._end(partition, start, losses)
        low, high = self._narrowed(partition, start, end)
        earliest = self._earliest[partition]
        if low < min(earliest, high):
            lost = min(earliest, high)
            reason = f"offsets {low} to {lost - 1} are gone, the first is {earliest}"
            losses.add(Loss(partition, low, lost, reason))
            low = lost
        return OffsetInterval(low, max(low, high)), max(start, end)

    def _begin(self, partition: TopicPartition, losses: LossReport) -> int:
        """Return the start, never behind the end of the partition."""
        latest = self._latest[partition]
        position = self._positions.get(partition)
        if position is not None:
            if position > latest:
                return self._behind_end(partition, position)
            divergence = self._divergences.get(partition, position)
            return position if divergence >= position else self._in_other_log(partition, divergence, losses)
        if partition not in self._fresh:
            losses.add_late_begin(partition, self._earliest[partition])
            return self._earliest[partition]
        start = self.start(partition)
        if start > latest:
            reason = f"it ends at offset {latest}, before the start {start}"
            losses.add(Loss(partition, latest, start, reason))
        return min(start, latest)

    def _behind_end(self, partition: TopicPartition, position: int) -> int:
        """Return the position if only open transactions are before it, else the start after a reset."""
        end = self._latest[partition]
        if self._rules.read_committed:
            end = self._source.latest([partition], read_committed=False)[partition]
            if position <= end:
                return position
        if self._rules.on_reset is OnReset.FAIL:
            raise TopicReset(
                f"{name_of(partition)} ends at offset {end}, but offsets before {position} were read already"
            )
        self.changed.add(partition)
        self.restarted.add(partition)
        return self._earliest[partition]

    def _in_other_log(self, partition: TopicPartition, divergence: int, losses: LossReport) -> int:
        """Return the start in a log that was truncated, and has grown beyond the position since."""
        self.changed.add(partition)
        if self._rules.on_reset is not OnReset.FAIL:
            self.restarted.add(partition)
            return self._earliest[partition]
        position = self._positions[partition]
        losses.add_truncation(partition, max(divergence, self._earliest[partition]), position)
        return position

    def _end(self, partition: TopicPartition, start: int, losses: LossReport) -> int:
        latest = self._latest[partition]
        match self._rules.ending:
            case AtOffsets(offsets):
                end = self._offset(partition, offsets[partition])
            case AtTimestamp() | AtTimestamps():
                found = self._end_times.get(partition)
                # Records of open transactions may be behind the end: they are not lost.
                end = latest if found is None else min(found, latest)
            case _:
                return latest
        if end < start and partition in self._fresh:
            raise KcliError(
                f"the start of {name_of(partition)} is behind its end: {start} > {end}",
                hint="choose an earlier start or a later end",
            )
        if end > latest:
            losses.add(Loss(partition, latest, end, f"it ends at offset {latest}, before the end {end}"))
        return min(end, latest)

    def _narrowed(self, partition: TopicPartition, start: int, end: int) -> tuple[int, int]:
        narrowing = self._rules.narrowing
        if narrowing is None:
            return start, end
        low, high = start, end
        if narrowing.min_offset is not None:
            low = max(low, narrowing.min_offset)
        if narrowing.end_offset is not None:
            high = min(high, narrowing.end_offset)
        if narrowing.min_timestamp_ms is not None:
            found = self._newer.get(partition)
            low = high if found is None else max(low, found)
        if not narrowing.allows(partition) or low >= high:
            return end, end
        return low, high

    def _offset(self, partition: TopicPartition, offset: int) -> int:
        if offset == EARLIEST_OFFSET:
            return self._earliest[partition]
        return self._latest[partition] if offset == LATEST_OFFSET else offset

    def _start_at_time(self, partition: TopicPartition) -> int:
        found = self._start_times.get(partition)
        latest = self._latest[partition]
        if found is not None and found <= latest:
            return found
        if self._rules.on_no_match is OnNoMatch.ERROR:
            raise KcliError(
                f"no record of {name_of(partition)} is as new as the starting timestamp",
                hint="begin at the end there with --starting-offsets-by-timestamp-strategy latest",
            )
        return latest

    def _found_at(
        self, spec: OffsetSpec, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int | None]:
        match spec:
            case AtTimestamp(moment):
                times = dict.fromkeys(partitions, moment)
            case AtTimestamps(moments):
                times = {one: moments[one] for one in partitions}
            case _:
                return {}
        return self._source.at_timestamps(times) if times else {}

    def _found_by_filter(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        narrowing = self._rules.narrowing
        if narrowing is None or narrowing.min_timestamp_ms is None:
            return {}
        wanted = [one for one in partitions if narrowing.allows(one)]
        return self._found_at(AtTimestamp(narrowing.min_timestamp_ms), wanted)
