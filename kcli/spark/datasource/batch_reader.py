"""The data source's batch reader: it plans ranges and splits, and reads one split per task.

Spark plans in a separate process, and more than once per query (`explain` too), so planning changes nothing.
Spark pickles the reader before it has planned; the partition carries what reading needs. Filters that Spark
pushes down narrow the offsets to read.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import datasource as spark
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kcli.spark.datasource.pyspark_version import can_push_filters
from kcli.spark.datasource.reader_options import opened
from kcli.spark.filters.pushdown import narrowing_of
from kcli.spark.filters.where import Comparison, Condition, In
from kcli.spark.python_worker import hinted, keep_what_is_loaded
from kcli.spark.source.data_loss import LossReport, name_of
from kcli.spark.source.ranges.resolve import resolve
from kcli.spark.source.ranges.selection import select
from kcli.spark.split import ReadCounters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.datasource.reader_options import SourceOptions
    from kcli.spark.source.source import Source, SplitReader
    from kcli.spark.split import OffsetInterval, Reading, Split

_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_COMPARISONS = {getattr(spark, name): operator for name, operator in _OPERATORS.items() if can_push_filters}
_OPPOSITE = {"=": "!=", "!=": "=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def pushed_conditions(filters: Iterable[spark.Filter]) -> Iterator[Condition]:
    """Yield the filters that narrow what is read; Spark evaluates the others."""
    yield from filter(None, map(_conjunct, filters))


def _conjunct(one: spark.Filter) -> Condition | None:
    match one:
        case spark.Not(child):
            return _negated(_conjunct(child))
        case spark.In(attribute, value):
            # A null in the list changes nothing: it equals no row.
            return In(tuple(attribute), tuple(item for item in value if item is not None))
        case _ if type(one) in _COMPARISONS and one.value is not None:
            return Comparison(tuple(one.attribute), _COMPARISONS[type(one)], one.value)
    return None


def _negated(condition: Condition | None) -> Condition | None:
    match condition:
        case Comparison(column, operator, value):
            return Comparison(column, _OPPOSITE[operator], value)
        case In(column, values, negated):
            return In(column, values, not negated)
    return None


_logger = logging.getLogger("kcli.spark")


class SplitPartition(InputPartition):
    """A split, and its reader."""

    def __init__(self, split: Split, reader: SplitReader) -> None:
        super().__init__(split)
        self.reader = reader

    def __repr__(self) -> str:
        """Show only the split: the reader may hold passwords."""
        return f"SplitPartition({self.value!r})"


def check_exists(source: Source, options: SourceOptions) -> None:
    """Raise `DataLoss` for a topic or partition that does not exist, as Spark's source does in any case."""
    for partition in select(options.selection, source.topics()).missing:
        LossReport(fails=True).add_missing(partition)


def split_partitions(
    source: Source, ranges: Mapping[TopicPartition, OffsetInterval], options: SourceOptions
) -> list[InputPartition]:
    reader = source.reader()
    splits = source.splits(ranges, options.limits, read_committed=options.rules.read_committed)
    return [SplitPartition(split, reader) for split in splits]


def rows_of(partition: InputPartition, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition; the partition that Spark invents for an empty source has no rows."""
    import pyarrow as pa

    # Spark runs one task per core: Arrow's own threads would only be in the way.
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
    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        for note in self.options.notes:
            _logger.warning(note)
        with hinted(), opened(self.options) as source:
            check_exists(source, self.options)
            resolved = resolve(source, self.options.selection, self.options.rules)
            for loss in resolved.losses:
                _logger.warning("data loss: %s: %s", name_of(loss.partition), loss.reason)
            return split_partitions(source, resolved.ranges, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition, self.options.reading)


class KcliPushdownReader(KcliReader):
    """A reader that also narrows by filters on topic, partition, offset or timestamp.

    It is a separate class, because Spark refuses a reader with `pushFilters` while
    `spark.sql.python.filterPushdown.enabled` is false, its default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Remember the filters that narrow, and leave all of them to Spark."""
        narrowing = narrowing_of(pushed_conditions(filters))
        self.options = replace(self.options, rules=replace(self.options.rules, narrowing=narrowing))
        return filters
