"""What Fetch does to records that a request's version cannot carry.

Versions 0 and 1 carry magic 0, versions 2 and 3 magic 1; everything newer is converted down. Before version
10 a client cannot read zstd: a batch of it ends the records, and is an error where it comes first.

Converting means reading every record, so it is done in a thread, for one fetch at a time; the records of one
partition are converted as far as `MAX_CONVERTED_BYTES` go.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import trio

from kcli.protocol.compression import Codec
from kcli.protocol.conversion import down_convert
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.record import CorruptRecord, TooMuchData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.fetch_data import FetchedPartition

_HEAD = Struct(">qiibIh")
"""Offset, size, leader epoch, magic, CRC, attributes of a batch of magic 2."""


MAX_CONVERTED_BYTES = 64 * 1024 * 1024
CONVERTED_BELOW = 4
"""The version from which on clients read batches of magic 2."""

_ONE_AT_A_TIME = trio.CapacityLimiter(1)


async def convert_rows(rows: Sequence[FetchedPartition], version: int) -> None:
    """Make rows fit a Fetch `version` below `CONVERTED_BELOW`, in a thread."""

    def convert() -> None:
        for row in rows:
            convert_row(row, version)

    await trio.to_thread.run_sync(convert, limiter=_ONE_AT_A_TIME)


def convert_row(row: FetchedPartition, version: int) -> None:
    """Make `row` fit a Fetch `version` below 10; what cannot be made to fit becomes its error."""
    if row.records is None:
        return
    data = row.records if isinstance(row.records, bytes) else row.records.read()
    try:
        if version < CONVERTED_BELOW:
            row.records = down_convert(
                data,
                0 if version < 2 else 1,
                first_offset=row.request.fetch_offset,
                max_bytes=MAX_CONVERTED_BYTES,
            )
        else:
            row.records = _before_zstd(data)
        row.size = len(row.records)
    except (KafkaError, CorruptRecord) as error:
        row.records, row.size = None, 0
        if isinstance(error, KafkaError):
            row.error_code = error.code
        elif isinstance(error, TooMuchData):
            row.error_code = ErrorCode.MESSAGE_TOO_LARGE
        else:
            row.error_code = ErrorCode.CORRUPT_MESSAGE


def _before_zstd(data: bytes) -> bytes:
    """Return the batches before the first one that is compressed with zstd."""
    position = 0
    while position + _HEAD.size <= len(data):
        _, size, _, magic, _, attributes = _HEAD.unpack_from(data, position)
        if magic == 2 and attributes & 7 == Codec.ZSTD:
            if position == 0:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "records compressed with zstd need a newer client"
                )
            return data[:position]
        position += 12 + size
    return data
