"""Planning: what the next plan of a target reads, as its log and its source stand now."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.job.identity import Identity
from kcli.spark.job.options import Mode
from kcli.spark.job.plan import Plan, PlannedSplit
from kcli.spark.job.summary import Gap
from kcli.spark.ranges.data_loss import TopicReset
from kcli.spark.ranges.offset_specs import OnReset
from kcli.spark.ranges.resolve import resolve
from kcli.spark.ranges.streaming import limit_offsets
from kcli.spark.reading import OffsetInterval
from kcli.spark.split import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.spark.job.export_log import ExportLog
    from kcli.spark.job.options import ExportOptions, WriteOptions
    from kcli.spark.ranges.data_loss import Loss
    from kcli.spark.reading import BatchMark
    from kcli.spark.source import Source
    from kcli.spark.split import Split


@dataclass(frozen=True, slots=True)
class News:
    """What a source has that its target does not."""

    ranges: Mapping[TopicPartition, OffsetInterval]
    """Empty ones included."""
    next_offsets: Mapping[TopicPartition, int]
    """Of the partitions selected."""
    marks: Mapping[TopicPartition, tuple[BatchMark, ...]]
    """What the logs have that earlier runs read, the last batch of each."""
    identity: Identity
    gaps: tuple[Gap, ...]

    @property
    def starts(self) -> dict[TopicPartition, int]:
        """Return where reading begins."""
        return {one: interval.start for one, interval in self.ranges.items()}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Return where reading ends."""
        return {one: interval.end for one, interval in self.ranges.items()}

    def limited(self, max_offsets: int) -> News:
        """Return about so many offsets of it, spread over the partitions by what each has."""
        ends = limit_offsets(self.starts, self.ends, max_offsets)
        cut = {one: end for one, end in ends.items() if end < self.ranges[one].end}
        return replace(
            self,
            ranges={one: OffsetInterval(interval.start, ends[one]) for one, interval in self.ranges.items()},
            # What a filter passes over behind a range that was cut comes another time.
            next_offsets={**self.next_offsets, **cut},
        )


def find_news(source: Source, log: ExportLog, options: ExportOptions) -> News:
    """Return what is to be exported; raise `KcliError` if that may not go to the log's target."""
    overwrites = options.mode is Mode.OVERWRITE
    positions = {} if overwrites else _positions(source, log, options)
    marks = {one: found for one, found in log.marks.items() if positions.get(one) == log.next_offsets[one]}
    resolved = resolve(source, options.selection, options.rules, positions=positions, marks=marks)
    identity = Identity.of(
        options.write,
        cluster_id=source.cluster_id(),
        topics={topic.name: topic.topic_id for topic in resolved.topics},
    )
    if log.identity is not None and not overwrites:
        replace(log.identity, topics=log.topics).check(identity, log.target.uri)
    gaps = tuple(_gap(loss) for loss in resolved.losses)
    kept = {
        # One that was found again vouches for all before it; what was not looked for stays to be found.
        one: (max(found),) if one in resolved.ranges else found
        for one, found in marks.items()
        if one not in resolved.changed
    }
    return News(resolved.ranges, resolved.next_positions, kept, identity, gaps)


def make_plan(
    source: Source, log: ExportLog, options: ExportOptions, news: News, *, now_ms: int
) -> Plan | None:
    """Return the plan for what is new, None if nothing is."""
    overwrites = options.mode is Mode.OVERWRITE and bool(log.commits)
    ranges = {one: interval for one, interval in news.ranges.items() if interval.start < interval.end}
    if not ranges and not news.gaps and not overwrites:
        return None
    reading = replace(options.write.reading, read_committed=options.rules.read_committed)
    write = replace(options.write, reading=reading)
    splits = source.splits(ranges, options.limits, read_committed=reading.read_committed) if ranges else []
    check_cover(ranges, splits)
    number = log.next_number
    return Plan(
        number=number,
        plan_id=os.urandom(8).hex(),
        created_ms=now_ms,
        overwrites=overwrites,
        asked=asked(options),
        identity=news.identity,
        options=write,
        ranges=ranges,
        next_offsets={**({} if overwrites else log.next_offsets), **news.next_offsets},
        marks=news.marks,
        gaps=news.gaps,
        splits=tuple(_planned(index, split, write, number) for index, split in enumerate(splits)),
    )


def asked(options: ExportOptions) -> str:
    """Return a digest of what was asked for: a later run that is asked for the same has the same."""
    words = f"{options.mode} {options.selection} {options.rules} {options.write}"
    return sha256(words.encode()).hexdigest()


def check_cover(ranges: Mapping[TopicPartition, OffsetInterval], splits: Sequence[Split]) -> None:
    """Raise unless splits cover ranges, every offset once: holes and duplicates would begin here."""
    reached = {one: interval.start for one, interval in ranges.items()}
    for split in sorted(splits, key=lambda split: split.start):
        partition = TopicPartition(split.topic, split.partition)
        if reached.get(partition) != split.start or split.end <= split.start:
            raise KcliError(f"the splits of {split.topic}-{split.partition} do not follow on each other")
        reached[partition] = split.end
    for one, interval in ranges.items():
        if reached[one] != interval.end:
            raise KcliError(f"the splits of {one.topic}-{one.partition} end at offset {reached[one]}")


def _planned(index: int, split: Split, options: WriteOptions, number: int) -> PlannedSplit:
    return PlannedSplit(index=index, stem=options.layout.stem(split, number), split=split)


def _positions(source: Source, log: ExportLog, options: ExportOptions) -> dict[TopicPartition, int]:
    """Return where partitions go on; those of a topic that was made again, at its first offset if allowed."""
    positions = dict(log.next_offsets)
    present = {topic.name: topic.topic_id for topic in source.topics()}
    made_again = [
        name
        for name, topic_id in log.topics.items()
        if topic_id and present.get(name) not in (None, topic_id)
    ]
    for name in made_again:
        if options.rules.on_reset is OnReset.FAIL:
            raise TopicReset(f"topic {name} was deleted and made again since the last export")
        partitions = [one for one in positions if one.topic == name]
        for one in partitions:
            del positions[one]
        known = [
            TopicPartition(topic.name, index)
            for topic in source.topics()
            if topic.name == name
            for index in topic.partitions
        ]
        positions.update(source.earliest(known))
    return positions


def _gap(loss: Loss) -> Gap:
    topic, partition = loss.partition
    return Gap(topic=topic, partition=partition, start=loss.start, end=loss.end, reason=loss.reason)
