"""Down-conversion of records that the version of a Fetch cannot carry.

Versions 0 and 1 carry magic 0, versions 2 and 3 magic 1; newer batches are converted down. Before version 10
a client cannot read zstd: a zstd batch ends the records, and is an error if it comes first.

Conversion reads every record, so it runs in a thread, for one fetch at a time, and stops after
`MAX_CONVERTED_BYTES` of a partition. The search for zstd reads only the heads of batches, and the slice
before it is sent from the file; large slices are searched in a thread.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import trio

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import CorruptRecord, TooMuchData
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.conversion import down_convert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.replication.fetch_data import FetchedPartition
    from kcli.storage.log.file_records import FileSlice

_HEAD = Struct(">8xi4xb4xh")
"""Size, magic and attributes of a batch of magic 2."""

_CHUNK_BYTES = 8192
_LOG_OVERHEAD = 12
_MIN_ENTRY_SIZE = 14

MAX_CONVERTED_BYTES = 64 * 1024 * 1024
CONVERTED_BELOW = 4
"""The version from which on clients read batches of magic 2."""
ZSTD_FROM = 10
"""The version from which on clients read zstd."""
LARGE_BYTES = 1024 * 1024
"""From this size on a thread looks for zstd."""

_ONE_AT_A_TIME = trio.CapacityLimiter(1)


async def convert_rows(rows: Sequence[FetchedPartition], version: int) -> None:
    """Convert rows for a Fetch `version` below `ZSTD_FROM`, in a thread."""

    def convert() -> None:
        for row in rows:
            convert_row(row, version)

    # The search for zstd does not wait for a conversion.
    await trio.to_thread.run_sync(convert, limiter=_ONE_AT_A_TIME if version < CONVERTED_BELOW else None)


def convert_row(row: FetchedPartition, version: int) -> None:
    """Convert a row for a Fetch `version` below `ZSTD_FROM`, or set its error."""
    records = row.records
    if records is None or isinstance(records, bytes):
        return
    try:
        if version < CONVERTED_BELOW:
            row.records = down_convert(
                records.read(),
                0 if version < 2 else 1,
                first_offset=row.request.fetch_offset,
                max_bytes=MAX_CONVERTED_BYTES,
            )
        else:
            row.records = _before_zstd(records)
        row.size = len(row.records)
    except (KafkaError, CorruptRecord) as error:
        row.records, row.size = None, 0
        if isinstance(error, KafkaError):
            row.error_code = error.code
        elif isinstance(error, TooMuchData):
            row.error_code = ErrorCode.MESSAGE_TOO_LARGE
        else:
            row.error_code = ErrorCode.CORRUPT_MESSAGE


def _before_zstd(records: FileSlice) -> FileSlice:
    """Return the batches before the first zstd batch. Raises `KafkaError` without any, `CorruptRecord`."""
    position = 0
    chunk, chunk_start = b"", 0
    while True:
        at = position - chunk_start
        if at + _HEAD.size > len(chunk):
            chunk, chunk_start, at = records.read_part(position, _CHUNK_BYTES), position, 0
            if len(chunk) < _HEAD.size:
                return records
        size, magic, attributes = _HEAD.unpack_from(chunk, at)
        if magic == 2 and attributes & 7 == Codec.ZSTD:
            if position == 0:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "records compressed with zstd need a newer client"
                )
            return records.first(position)
        if size < _MIN_ENTRY_SIZE:
            raise CorruptRecord(f"an entry of {size} bytes is too small, {position} bytes into a fetch")
        position += _LOG_OVERHEAD + size
