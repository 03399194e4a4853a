"""Division: cuts one interval per partition into as many splits as were asked for, and sizes them in bytes.

First no split may hold more offsets than `max_records`; if there are still fewer splits than
`min_partitions`, large ones are cut in proportion to their size. Offsets count, not records: compaction and
transactions leave holes. The arithmetic is that of Spark's `KafkaOffsetRangeCalculator`, so splits agree
offset for offset. The bytes of a split keep every slot busy and make files of the size asked for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.compression.codecs import Codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.source.source import SplitLimits
    from kcli.spark.split import OffsetInterval, Split


class OffsetRange(NamedTuple):
    """Offsets `start` (included) to `end` (excluded) of one partition."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def divide(
    intervals: Mapping[TopicPartition, OffsetInterval],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Return the ranges to read, in the order of the partitions, without empty ones."""
    ranges = [
        OffsetRange(partition, start, end) for partition, (start, end) in intervals.items() if end > start
    ]
    if max_records is not None:
        ranges = [piece for one in ranges for piece in cut_evenly(one, -(-one.size // max_records))]
    return ranges if min_partitions is None else at_least(ranges, min_partitions)


def cut_evenly(one: OffsetRange, pieces: int) -> list[OffsetRange]:
    """Cut a range into about equal parts, the larger ones last, none empty."""
    cut = []
    start, remaining = one.start, one.size
    for piece in range(pieces):
        size = remaining // (pieces - piece)
        if size:
            cut.append(OffsetRange(one.partition, start, start + size))
        start += size
        remaining -= size
    return cut


def at_least(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Cut the large ranges, so that there are about `min_partitions`; no range is empty."""
    if len(ranges) >= min_partitions:
        return ranges
    total = sum(one.size for one in ranges)
    large = [one for one in ranges if _share(one.size, total, min_partitions) > 1]
    # Ranges that stay whole do not count in the proportions.
    total_large = sum(one.size for one in large)
    wanted = max(min_partitions - (len(ranges) - len(large)), 1)
    cut = {one: _share(one.size, total_large, wanted) for one in large}
    return [piece for one in ranges for piece in cut_evenly(one, cut.get(one, 1))]


def _share(size: int, total: int, parts: int) -> int:
    """Return how many of `parts` a range of `size` gets; halves are rounded up, as in Java."""
    return max(math.floor(size / total * parts + 0.5), 1)


MIN_SPLIT_BYTES = 16 * 1024 * 1024
SPLITS_PER_SLOT = 3
"""So many that slots end at about the same time, although splits differ in size."""

_LOG_BYTES_PER_FILE_BYTE = {
    Codec.NONE: 4.0, Codec.LZ4: 1.9, Codec.SNAPPY: 1.9, Codec.ZSTD: 1.3, Codec.GZIP: 1.3,
}  # fmt: skip
"""How many bytes of a log make one byte of Parquet, by the codec of the log's batches."""


ASSUMED_BYTES_PER_OFFSET = 500.0
"""For partitions of unknown size; their splits have size 0."""


def sized(split: Split) -> int:
    """Return about how many bytes a split reads, also where its source does not know."""
    return split.size_bytes or int((split.end - split.start) * ASSUMED_BYTES_PER_OFFSET)


def split_bytes(total_bytes: int, limits: SplitLimits, codec: Codec) -> int:
    """Return the size of splits: as asked for, or by the total and the codec."""
    if limits.split_bytes is not None:
        return limits.split_bytes
    largest = int(limits.target_file_bytes * _LOG_BYTES_PER_FILE_BYTE[codec])
    fair = total_bytes // (SPLITS_PER_SLOT * max(1, limits.task_slots))
    return max(1, min(max(fair, MIN_SPLIT_BYTES), largest))
