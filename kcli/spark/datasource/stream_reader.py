"""The data source's stream reader, with the offsets, limits and triggers of Spark's own Kafka source.

An offset is `{"topic": {"0": 123}}`, the next offset to read of each partition; Spark keeps it in the query's
checkpoint. One process per query calls these methods, one at a time, and keeps the object as long as the
query runs; `read` runs in the tasks.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from kcli.spark.datasource.batch_reader import check_exists, rows_of, split_partitions
from kcli.spark.datasource.pyspark_version import (
    ReadAllAvailable,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from kcli.spark.datasource.reader_options import opened
from kcli.spark.python_worker import hinted
from kcli.spark.source.data_loss import Loss, LossReport
from kcli.spark.source.ranges.json_forms import flat, nested
from kcli.spark.source.ranges.resolve import Bounds
from kcli.spark.source.ranges.selection import select
from kcli.spark.source.ranges.trigger_limits import is_due, limit_offsets
from kcli.spark.split import OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.datasource.reader_options import SourceOptions
    from kcli.spark.source.ranges.offset_specs import RangeRules
    from kcli.spark.source.ranges.selection import Selection
    from kcli.spark.source.source import Source


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

    An end before a `known` offset is asked for again, after a pause: a broker with old metadata may have
    answered (KAFKA-7703).
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
    """Return the ranges of a plan from `start` to `end`, both of which were returned earlier.

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


_logger = logging.getLogger("kcli.spark")


class KcliStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._clock = clock
        self._last_trigger: float | None = None
        self._is_available_now = False
        self._target: dict[TopicPartition, int] | None = None
        """Where a query with the trigger `availableNow` ends."""
        self._latest: dict[TopicPartition, int] = {}
        for note in options.notes:
            _logger.warning(note)

    def initialOffset(self) -> dict[str, Any]:
        with hinted(), opened(self.options) as source:
            check_exists(source, self.options)
            return nested(initial_offsets(source, self.options.selection, self.options.rules))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the options; `latestOffset` applies what one limit cannot express."""
        triggers = self.options.triggers
        if triggers.max_offsets is not None:
            return ReadMaxRows(triggers.max_offsets)
        if triggers.min_offsets is not None:
            return ReadMinRows(triggers.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Make the next ends that `latestOffset` finds the end of the query."""
        self._is_available_now = True

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return where the next batch ends; `start` itself while it is too early for one.

        PySpark before 4.2 tells neither `start` nor `limit`: the batch ends where the topics do.
        """
        begin = flat(start or {})
        with hinted(), opened(self.options) as source:
            self._latest = end = self._end(source, begin)
            if start is None or isinstance(limit, ReadAllAvailable):
                return nested(end)
            if not self._is_time(begin, end):
                return start
            if isinstance(limit, ReadMaxRows):
                added = [partition for partition in end if partition not in begin]
                begins = {**begin, **(source.earliest(added) if added else {})}
                end = limit_offsets(begins, end, limit.max_rows)
        return nested(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the last known ends, for the query's progress."""
        return nested(self._latest) or None

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint is Spark's, which does not report the last batch."""

    def stop(self) -> None:
        """Do nothing: nothing is open."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start == end:
            return []
        with hinted(), opened(self.options) as source:
            fails = self.options.rules.fail_on_data_loss
            ranges = ranges_between(source, flat(start), flat(end), fail_on_data_loss=fails)
            return split_partitions(source, ranges, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition, self.options.reading)

    def _end(self, source: Source, begin: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if self._target is not None:
            return self._target
        end = latest_offsets(
            source,
            self.options.selection,
            self.options.rules,
            known=begin,
            attempts=self.options.offset_attempts,
            pause=lambda: time.sleep(self.options.offset_retry_ms / 1000),
        )
        if self._is_available_now:
            self._target = end
        return end

    def _is_time(self, begin: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> bool:
        # With `availableNow` everything is read: waiting for more would never end.
        if self._is_available_now:
            return True
        now = self._clock()
        waited_ms = float("inf") if self._last_trigger is None else (now - self._last_trigger) * 1000
        if not is_due(begin, end, self.options.triggers, waited_ms=waited_ms):
            return False
        self._last_trigger = now
        return True
