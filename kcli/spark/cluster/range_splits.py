"""Ranges of offsets become splits of about equal bytes, as far as brokers tell the size of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.spark.ranges.division import at_least, cut_evenly, divide
from kcli.spark.ranges.split_size import split_bytes
from kcli.spark.split import Split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.compression.codecs import Codec
    from kcli.spark.ranges.division import OffsetRange
    from kcli.spark.reading import OffsetInterval
    from kcli.spark.source import SplitLimits
    from kcli.spark.split import TopicPartition

ASSUMED_BYTES_PER_OFFSET = 500.0
"""Of a partition whose size nobody tells; such splits say that their size is 0."""


def cut(
    ranges: Mapping[TopicPartition, OffsetInterval],
    bytes_per_offset: Mapping[TopicPartition, float],
    limits: SplitLimits,
    codec: Codec,
) -> list[Split]:
    """Return the splits of ranges, largest first.

    `max_records` cuts first, then the bytes of a split, and then `min_partitions` if that made too few.
    """
    density = {one: bytes_per_offset.get(one, ASSUMED_BYTES_PER_OFFSET) for one in ranges}

    def size(piece: OffsetRange) -> float:
        return piece.size * density[piece.partition]

    pieces = divide(ranges, max_records=limits.max_records)
    largest = split_bytes(int(sum(map(size, pieces))), limits, codec)
    pieces = [part for piece in pieces for part in cut_evenly(piece, max(1, -(-int(size(piece)) // largest)))]
    if limits.min_partitions is not None:
        pieces = at_least(pieces, limits.min_partitions)
    pieces.sort(key=size, reverse=True)
    return [
        Split(
            *piece.partition,
            piece.start,
            piece.end,
            size_bytes=int(size(piece)) if piece.partition in bytes_per_offset else 0,
        )
        for piece in pieces
    ]
