"""How many bytes a split should have, so that every slot is busy and files get the size asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec

if TYPE_CHECKING:
    from kcli.spark.source import SplitLimits

MIN_SPLIT_BYTES = 16 * 1024 * 1024
SPLITS_PER_SLOT = 3
"""Enough that slots end at about the same time, though splits are of different sizes."""

_LOG_BYTES_PER_FILE_BYTE = {
    Codec.NONE: 4.0, Codec.LZ4: 1.9, Codec.SNAPPY: 1.9, Codec.ZSTD: 1.3, Codec.GZIP: 1.3,
}  # fmt: skip
"""How many bytes of a log go into one byte of Parquet, by the codec of the log's batches."""


def split_bytes(total_bytes: int, limits: SplitLimits, codec: Codec) -> int:
    """Return the size to cut splits at: what was asked for, or what the total and the codec suggest."""
    if limits.split_bytes is not None:
        return limits.split_bytes
    largest = int(limits.target_file_bytes * _LOG_BYTES_PER_FILE_BYTE[codec])
    fair = total_bytes // (SPLITS_PER_SLOT * max(1, limits.task_slots))
    return max(1, min(max(fair, MIN_SPLIT_BYTES), largest))
