"""Resuming: whether what a begun plan has yet to read is still there."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kcli.spark.job.finishing import GONE
from kcli.spark.job.summary import Gap
from kcli.spark.ranges.data_loss import DataLoss, TopicReset
from kcli.spark.ranges.offset_specs import OnReset
from kcli.spark.reading import OffsetInterval
from kcli.spark.source import SplitLimits
from kcli.spark.split import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.spark.job.plan import Plan, PlannedSplit
    from kcli.spark.ranges.offset_specs import RangeRules
    from kcli.spark.source import Source
    from kcli.spark.split import Split


_UNLIMITED = 2**62


class Remaining(NamedTuple):
    """What of a plan is still to be written, and what can no longer be."""

    splits: list[PlannedSplit]
    lost: list[Gap]
    """Of whole splits; those that lost their beginning tell by where their receipts start."""


def remaining(source: Source, plan: Plan, done: Collection[int], rules: RangeRules) -> Remaining:
    """Return the splits without a receipt as far as they can be read; raise `DataLoss` or `TopicReset`."""
    left = [one for one in plan.splits if one.index not in done]
    if not left:
        return Remaining([], [])
    present = {topic.name: topic for topic in source.topics()}
    partitions = {TopicPartition(one.split.topic, one.split.partition) for one in left}
    there = [
        one
        for one in sorted(partitions)
        if one.topic in present and one.partition in present[one.topic].partitions
    ]
    earliest = source.earliest(there) if there else {}
    latest = source.latest(there, read_committed=False) if there else {}
    found = Remaining([], [])
    for one in left:
        split = one.split
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
                kept = _found_again(source, replace(split, start=first), plan)
                found.splits.append(replace(one, split=kept))
    return found


def _found_again(source: Source, split: Split, plan: Plan) -> Split:
    """Return a split of a directory that was moved as the source has it now."""
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
        found.lost.append(_gap(split, reason))


def _reset(found: Remaining, rules: RangeRules, split: Split, reason: str) -> None:
    if rules.on_reset is OnReset.FAIL:
        raise TopicReset(
            f"{split.topic}-{split.partition} {reason}, and an export that was begun has yet to read "
            f"offsets {split.start} to {split.end - 1}"
        )
    found.lost.append(_gap(split, reason))


def _gap(split: Split, reason: str) -> Gap:
    return Gap(topic=split.topic, partition=split.partition, start=split.start, end=split.end, reason=reason)
