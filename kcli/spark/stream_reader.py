"""The data source's reader of streams, with the offsets, limits and triggers of Spark's own Kafka source.

Offsets are `{"topic": {"0": 123}}`, the next offset to read of each partition; Spark keeps them in the
query's checkpoint. One process per query calls these methods, one after the other, and keeps the object as
long as the query runs; `read` runs in the tasks.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kcli.spark.batch_reader import rows_of, split_partitions
from kcli.spark.job.offsets_json import flat, nested
from kcli.spark.open_source import opened
from kcli.spark.ranges.stream_ranges import initial_offsets, latest_offsets, ranges_between
from kcli.spark.ranges.streaming import is_due, limit_offsets
from kcli.spark.worker_errors import hinted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from kcli.spark.ranges.options import SourceOptions
    from kcli.spark.source import Source
    from kcli.spark.split import TopicPartition

_logger = logging.getLogger("kcli.spark")


class KcliStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream as its options say."""

    def __init__(self, options: SourceOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._clock = clock
        self._last_trigger: float | None = None
        self._is_available_now = False
        self._target: dict[TopicPartition, int] | None = None
        """Where a query that reads only what is there now ends."""
        self._latest: dict[TopicPartition, int] = {}
        for note in options.notes:
            _logger.warning(note)

    # --- where the stream stands -----------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return where a query without a checkpoint begins."""
        with hinted(), opened(self.options) as source:
            return nested(initial_offsets(source, self.options.selection, self.options.rules))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set; `latestOffset` adds what one limit cannot say."""
        triggers = self.options.triggers
        if triggers.max_offsets is not None:
            return ReadMaxRows(triggers.max_offsets)
        if triggers.min_offsets is not None:
            return ReadMinRows(triggers.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Take the ends that the next `latestOffset` finds for those of the query."""
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends; `start` itself where it is too early for one."""
        begin = flat(start)
        with hinted(), opened(self.options) as source:
            self._latest = end = self._end(source, begin)
            if isinstance(limit, ReadAllAvailable):
                return nested(end)
            if not self._is_time(begin, end):
                return start
            if isinstance(limit, ReadMaxRows):
                added = [partition for partition in end if partition not in begin]
                begins = {**begin, **(source.earliest(added) if added else {})}
                end = limit_offsets(begins, end, limit.max_rows)
        return nested(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends that were last seen, for the query's progress."""
        return nested(self._latest) or None

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint is Spark's, and of the last batch it does not tell."""

    def stop(self) -> None:
        """Do nothing: nothing stays open."""

    # --- one batch -------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return a partition for every split between two offsets."""
        if start == end:
            return []
        with hinted(), opened(self.options) as source:
            fails = self.options.rules.fail_on_data_loss
            ranges = ranges_between(source, flat(start), flat(end), fail_on_data_loss=fails)
            return split_partitions(source, ranges, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        return rows_of(partition, self.options.reading)

    # --- ends ------------------------------------------------------------------------------------------

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
        # A query of what is there now reads all of it: waiting for more would be waiting for ever.
        if self._is_available_now:
            return True
        now = self._clock()
        waited_ms = float("inf") if self._last_trigger is None else (now - self._last_trigger) * 1000
        if not is_due(begin, end, self.options.triggers, waited_ms=waited_ms):
            return False
        self._last_trigger = now
        return True
