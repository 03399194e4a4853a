"""The data source's reader of batches: plans ranges and splits, and reads one split per task.

Spark plans in a process of its own, more than once for a query (`explain` too), so planning changes nothing.
What reading needs travels in the partition: the reader object is pickled before it has planned.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kcli.spark.open_source import opened
from kcli.spark.pushed_filters import conjuncts_of
from kcli.spark.ranges.pushdown import narrowing_of
from kcli.spark.ranges.resolve import resolve
from kcli.spark.reading import ReadCounters
from kcli.spark.worker_errors import hinted
from kcli.spark.worker_memory import keep_what_is_loaded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from kcli.spark.ranges.options import SourceOptions
    from kcli.spark.reading import OffsetInterval, Reading
    from kcli.spark.source import Source, SplitReader
    from kcli.spark.split import Split, TopicPartition

_logger = logging.getLogger("kcli.spark")


class SplitPartition(InputPartition):
    """A split, and what reads it."""

    def __init__(self, split: Split, reader: SplitReader) -> None:
        super().__init__(split)
        self.reader = reader

    def __repr__(self) -> str:
        """Show the split only: the reader may hold passwords."""
        return f"SplitPartition({self.value!r})"


def split_partitions(
    source: Source, ranges: Mapping[TopicPartition, OffsetInterval], options: SourceOptions
) -> list[InputPartition]:
    """Return ranges cut into partitions of a Spark job."""
    reader = source.reader()
    splits = source.splits(ranges, options.limits, read_committed=options.rules.read_committed)
    return [SplitPartition(split, reader) for split in splits]


def rows_of(partition: InputPartition, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition; none of the partition that Spark makes up when there is none."""
    import pyarrow as pa

    # Spark runs one task per core; Arrow's own threads would only get in each other's way.
    pa.set_cpu_count(1)
    if isinstance(partition, SplitPartition):
        counters = ReadCounters()
        with hinted():
            yield from partition.reader.read(partition.value, reading, counters)
        keep_what_is_loaded()
        if counters.corrupt_batches:
            _logger.warning(
                "skipped %d corrupt batches (%d bytes) of %s-%d, offsets missing: %s",
                counters.corrupt_batches, counters.corrupt_bytes,
                partition.value.topic, partition.value.partition, counters.missing,
            )  # fmt: skip


class KcliReader(DataSourceReader):
    """Reads what its options say."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Return a partition for every split."""
        for note in self.options.notes:
            _logger.warning(note)
        with hinted(), opened(self.options) as source:
            resolved = resolve(source, self.options.selection, self.options.rules)
            for loss in resolved.losses:
                _logger.warning("data loss: %s: %s", loss.partition, loss.reason)
            return split_partitions(source, resolved.ranges, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        return rows_of(partition, self.options.reading)


class KcliPushdownReader(KcliReader):
    """Reads less where a filter on topic, partition, offset or timestamp allows it.

    A class of its own, because Spark fails on any reader that has `pushFilters` while
    `spark.sql.python.filterPushdown.enabled` is false, its default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Remember what narrows, and leave every filter for Spark to check."""
        narrowing = narrowing_of(conjuncts_of(filters))
        self.options = replace(self.options, rules=replace(self.options.rules, narrowing=narrowing))
        return filters
