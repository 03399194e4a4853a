"""Where a stream begins, how far it could read now, and what one of its plans reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.spark.ranges.data_loss import Loss, LossReport
from kcli.spark.ranges.resolve import Bounds
from kcli.spark.ranges.selection import select
from kcli.spark.reading import OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.spark.ranges.offset_specs import RangeRules
    from kcli.spark.ranges.selection import Selection
    from kcli.spark.source import Source
    from kcli.spark.split import TopicPartition


def initial_offsets(source: Source, selection: Selection, rules: RangeRules) -> dict[TopicPartition, int]:
    """Return where a stream without a checkpoint begins."""
    selected = select(selection, source.topics())
    losses = LossReport(rules.fail_on_data_loss)
    for missing in selected.missing:
        losses.add_missing(missing)
    bounds = Bounds(source, rules, selected.partitions, {}, {})
    return {partition: bounds.start(partition) for partition in selected.partitions}


def latest_offsets(
    source: Source,
    selection: Selection,
    rules: RangeRules,
    *,
    known: Mapping[TopicPartition, int] | None = None,
    attempts: int = 3,
    pause: Callable[[], None] = lambda: None,
) -> dict[TopicPartition, int]:
    """Return where the selected partitions end.

    An end before a `known` offset is asked for again, with a pause between the attempts: a broker with old
    metadata may have answered (KAFKA-7703).
    """
    while True:
        partitions = select(selection, source.topics()).partitions
        found = dict(source.latest(partitions, read_committed=rules.read_committed)) if partitions else {}
        attempts -= 1
        if attempts <= 0 or all(found[one] >= (known or {}).get(one, 0) for one in found):
            return found
        pause()


def ranges_between(
    source: Source,
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    fail_on_data_loss: bool = True,
) -> dict[TopicPartition, OffsetInterval]:
    """Return what a plan from `start` to `end` reads; both are what earlier answers named.

    Partitions that `start` lacks are new and begin at their first offset, which should be 0. Raises
    `DataLoss` for partitions that are gone or went back.
    """
    losses = LossReport(fail_on_data_loss)
    added = [partition for partition in end if partition not in start]
    begins = {**start, **(source.earliest(added) if added else {})}
    for partition in added:
        losses.add_late_begin(partition, begins[partition])
    for partition in sorted(start.keys() - end.keys()):
        losses.add_missing(partition)
    ranges = {}
    for partition, stop in end.items():
        begin = begins[partition]
        if stop < begin:
            losses.add(Loss(partition, stop, begin, f"it went back from offset {begin} to {stop}"))
        ranges[partition] = OffsetInterval(begin, max(begin, stop))
    return ranges
