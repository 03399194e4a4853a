"""Planning: what the next plan of a target reads, and what a begun plan can still read."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.topics import TopicPartition
from kcli.spark.export.finishing import GONE
from kcli.spark.export.log.commit import Gap
from kcli.spark.export.log.plan import Plan, PlannedTask
from kcli.spark.export.options import Identity, Mode
from kcli.spark.source.data_loss import DataLoss, TopicReset
from kcli.spark.source.ranges.division import sized, split_bytes
from kcli.spark.source.ranges.offset_specs import OnReset
from kcli.spark.source.ranges.resolve import resolve
from kcli.spark.source.ranges.selection import select
from kcli.spark.source.ranges.trigger_limits import limit_offsets
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kcli.spark.export.log.export_log import ExportLog
    from kcli.spark.export.options import ExportOptions
    from kcli.spark.export.target.layout import Layout
    from kcli.spark.source.data_loss import Loss
    from kcli.spark.source.ranges.offset_specs import RangeRules
    from kcli.spark.source.source import Source
    from kcli.spark.split import BatchMark, Split


@dataclass(frozen=True, slots=True)
class NewOffsets:
    """The offsets that a source has and its target does not."""

    ranges: Mapping[TopicPartition, OffsetInterval]
    """Including empty ones."""
    next_offsets: Mapping[TopicPartition, int]
    """Of the selected partitions."""
    marks: Mapping[TopicPartition, tuple[BatchMark, ...]]
    """Batches that earlier runs read and the logs still have, the last of each."""
    identity: Identity
    gaps: tuple[Gap, ...]
    resets: tuple[TopicPartition, ...] = ()
    """Partitions that begin again: what the target has of them is of another log."""

    @property
    def starts(self) -> dict[TopicPartition, int]:
        return {one: interval.start for one, interval in self.ranges.items()}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        return {one: interval.end for one, interval in self.ranges.items()}

    def limited(self, max_offsets: int) -> NewOffsets:
        """Return about so many of the offsets, from each partition in proportion to what it has."""
        ends = limit_offsets(self.starts, self.ends, max_offsets)
        cut = {one: end for one, end in ends.items() if end < self.ranges[one].end}
        return replace(
            self,
            ranges={one: OffsetInterval(interval.start, ends[one]) for one, interval in self.ranges.items()},
            # Offsets that a filter skips behind a cut range are planned again.
            next_offsets={**self.next_offsets, **cut},
        )


def find_new_offsets(source: Source, log: ExportLog, options: ExportOptions) -> NewOffsets:
    """Return the new offsets; raise `KcliError` if they may not go to the log's target."""
    overwrites = options.mode is Mode.OVERWRITE
    positions, gone = ({}, set()) if overwrites else _positions(source, log, options)
    marks = {one: found for one, found in log.marks.items() if positions.get(one) == log.next_offsets[one]}
    resolved = resolve(source, options.selection, options.rules, positions=positions, marks=marks)
    topics = {topic.name: topic.topic_id for topic in resolved.topics}
    identity = Identity.of(options.write, cluster_id=source.cluster_id(), topics=topics)
    if log.identity is not None and not overwrites:
        replace(log.identity, topics=log.topics).check(identity, log.target.uri)
    gaps = tuple(_gap(loss) for loss in resolved.losses)
    kept = {
        # A batch that was found vouches for all before it; marks that were not looked for stay.
        one: (max(found),) if one in resolved.ranges else found
        for one, found in marks.items()
        if one not in resolved.changed
    }
    resets = tuple(sorted(gone | resolved.restarted))
    return NewOffsets(resolved.ranges, resolved.next_positions, kept, identity, gaps, resets)


def make_plan(
    source: Source, log: ExportLog, options: ExportOptions, news: NewOffsets, *, now_ms: int
) -> Plan | None:
    """Return the plan for new offsets, None if there is nothing to do."""
    overwrites = options.mode is Mode.OVERWRITE and bool(log.commits)
    ranges = {one: interval for one, interval in news.ranges.items() if interval.start < interval.end}
    if not ranges and not news.gaps and not news.resets and not overwrites:
        return None
    reading = replace(options.write.reading, read_committed=options.rules.read_committed)
    write = replace(options.write, reading=reading)
    splits = source.splits(ranges, options.limits, read_committed=reading.read_committed) if ranges else []
    check_cover(ranges, splits)
    sharing = shared_out(splits, ranges, write.layout, options.limits)
    number = log.next_number
    return Plan(
        number=number,
        plan_id=os.urandom(8).hex(),
        created_ms=now_ms,
        overwrites=overwrites,
        asked=options.fingerprint(),
        identity=news.identity,
        options=write,
        ranges=ranges,
        next_offsets={**_standing(log, news, overwrites=overwrites), **news.next_offsets},
        marks=news.marks,
        gaps=news.gaps,
        resets=news.resets,
        keeps_resets=options.rules.on_reset is OnReset.EARLIEST,
        tasks=tuple(
            PlannedTask(index=index, stem=write.layout.stem(shared, number), splits=shared)
            for index, shared in enumerate(sharing)
        ),
    )


def _standing(log: ExportLog, news: NewOffsets, *, overwrites: bool) -> Mapping[TopicPartition, int]:
    """Return the next offsets of partitions that the target keeps."""
    if overwrites:
        return {}
    return {one: offset for one, offset in log.next_offsets.items() if one not in news.resets}


def check_cover(ranges: Mapping[TopicPartition, OffsetInterval], splits: Sequence[Split]) -> None:
    """Raise `KcliError` unless splits cover the ranges exactly once: holes and duplicates begin here."""
    reached = {one: interval.start for one, interval in ranges.items()}
    for split in sorted(splits, key=lambda split: split.start):
        partition = TopicPartition(split.topic, split.partition)
        if reached.get(partition) != split.start or split.end <= split.start:
            raise KcliError(f"the splits of {split.topic}-{split.partition} have a gap or overlap")
        reached[partition] = split.end
    for one, interval in ranges.items():
        if reached[one] != interval.end:
            raise KcliError(f"the splits of {one} end at offset {reached[one]}")


def shared_out(
    splits: Sequence[Split],
    ranges: Mapping[TopicPartition, OffsetInterval],
    layout: Layout,
    limits: SplitLimits,
) -> list[tuple[Split, ...]]:
    """Return the splits of each task, largest task first: partitions with little to read share files.

    They share where their rows go to the same directories. Together they have as much to read as a split
    may have, so that there are tasks for every slot.
    """
    if not limits.shares_files or "partition" in layout.partition_by:
        return [(split,) for split in splits]
    total = sum(map(sized, splits))
    # As if the log was compressed as well as Parquet: where it is not, files are smaller.
    most_bytes = split_bytes(total, limits, Codec.ZSTD)
    if limits.min_partitions:
        most_bytes = min(most_bytes, total // limits.min_partitions)
    groups: list[list[Split]] = []
    alone: list[tuple[Split, ...]] = []
    size = offsets = 0
    for split in sorted(splits, key=lambda one: (one.topic, one.partition, one.start)):
        if ranges[TopicPartition(split.topic, split.partition)] != (split.start, split.end):
            alone.append((split,))
            continue
        size += sized(split)
        offsets += split.end - split.start
        is_full = size > most_bytes or (limits.max_records is not None and offsets > limits.max_records)
        if not groups or groups[-1][0].topic != split.topic or is_full:
            groups.append([])
            size, offsets = sized(split), split.end - split.start
        groups[-1].append(split)
    shared = [*map(tuple, groups), *alone]
    return sorted(shared, key=lambda one: -sum(map(sized, one)))


def _positions(
    source: Source, log: ExportLog, options: ExportOptions
) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
    """Return the next offset of each partition, and the partitions whose topics were created again.

    These begin again if that is allowed.
    """
    positions = dict(log.next_offsets)
    gone: set[TopicPartition] = set()
    present = {topic.name: topic.topic_id for topic in select(options.selection, source.topics()).topics}
    made_again = [
        name
        for name, topic_id in log.topics.items()
        if topic_id and present.get(name) not in (None, topic_id)
    ]
    for name in made_again:
        if options.rules.on_reset is OnReset.FAIL:
            raise TopicReset(f"topic {name} was deleted and made again since the last export")
        partitions = [one for one in positions if one.topic == name]
        gone.update(partitions)
        for one in partitions:
            del positions[one]
        known = [
            TopicPartition(topic.name, index)
            for topic in source.topics()
            if topic.name == name
            for index in topic.partitions
        ]
        positions.update(source.earliest(known))
    return positions, gone


def _gap(loss: Loss) -> Gap:
    topic, partition = loss.partition
    return Gap(topic=topic, partition=partition, start=loss.start, end=loss.end, reason=loss.reason)


_UNLIMITED = 2**62


class Remaining(NamedTuple):
    """The tasks of a plan that are still to be run, and what can no longer be read."""

    tasks: list[PlannedTask]
    """With those of their splits that can be read."""
    lost: list[Gap]
    """Gaps of whole splits; the receipts show those of tasks that read other splits, or less of one."""


def remaining(source: Source, plan: Plan, done: Collection[int], rules: RangeRules) -> Remaining:
    """Return the tasks without a receipt that have something to read; raise `DataLoss` or `TopicReset`."""
    found = Remaining([], [])
    left = [one for one in plan.tasks if one.index not in done]
    if not left:
        return found
    present = {topic.name: topic for topic in source.topics()}
    partitions = {TopicPartition(split.topic, split.partition) for one in left for split in one.splits}
    there = [
        one
        for one in sorted(partitions)
        if one.topic in present and one.partition in present[one.topic].partitions
    ]
    earliest = source.earliest(there) if there else {}
    latest = source.latest(there, read_committed=False) if there else {}

    def readable(split: Split) -> Split | None:
        partition = TopicPartition(split.topic, split.partition)
        if partition not in earliest:
            _lose(found, rules, split, "it does not exist any more")
        elif _is_another(plan, partition.topic, present[partition.topic].topic_id):
            _reset(found, rules, split, "was deleted and made again")
        elif split.end > latest[partition]:
            _reset(found, rules, split, f"ends at offset {latest[partition]}")
        else:
            first = min(max(split.start, earliest[partition]), split.end)
            if first > split.start:
                _lose(found, rules, replace(split, end=first), GONE, whole=first == split.end)
            if first < split.end:
                return _found_again(source, replace(split, start=first), plan)
        return None

    for task in left:
        kept = tuple(split for split in map(readable, task.splits) if split is not None)
        if kept:
            found.tasks.append(replace(task, splits=kept))
    return found


def _found_again(source: Source, split: Split, plan: Plan) -> Split:
    """Return a split of a directory that was moved, with the new place."""
    if split.directory is None or os.path.isdir(split.directory):
        return split
    ranges = {TopicPartition(split.topic, split.partition): OffsetInterval(split.start, split.end)}
    whole = SplitLimits(split_bytes=_UNLIMITED)
    found = source.splits(ranges, whole, read_committed=plan.options.reading.read_committed)
    is_same = len(found) == 1 and (found[0].start, found[0].end) == (split.start, split.end)
    return found[0] if is_same else split


def _is_another(plan: Plan, topic: str, topic_id: str | None) -> bool:
    planned = plan.identity.topics.get(topic)
    return planned is not None and topic_id is not None and planned != topic_id


def _lose(found: Remaining, rules: RangeRules, split: Split, reason: str, *, whole: bool = True) -> None:
    if rules.fail_on_data_loss:
        raise DataLoss(
            f"offsets {split.start} to {split.end - 1} of {split.topic}-{split.partition} are gone, and an "
            f"export that was begun has not read them: {reason}"
        )
    if whole:
        found.lost.append(_lost_gap(split, reason))


def _reset(found: Remaining, rules: RangeRules, split: Split, reason: str) -> None:
    if rules.on_reset is OnReset.FAIL:
        raise TopicReset(
            f"{split.topic}-{split.partition} {reason}, and an unfinished export still has to read "
            f"offsets {split.start} to {split.end - 1}"
        )
    found.lost.append(_lost_gap(split, reason))


def _lost_gap(split: Split, reason: str) -> Gap:
    return Gap(topic=split.topic, partition=split.partition, start=split.start, end=split.end, reason=reason)
