"""Down-conversion of records that the version of a Fetch cannot carry.

Versions 0 and 1 carry magic 0, versions 2 and 3 magic 1; newer batches are converted down. Message sets have
no zstd, so a zstd batch is an error there. From version 4 on batches go out as they are stored, whatever
their codec: it is up to the client to know it.

Conversion reads every record, so it runs in a thread, for one fetch at a time, and stops after
`MAX_CONVERTED_BYTES` of a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.broker.waiting.threads import run_in_thread
from kcli.protocol.corruption import CorruptRecord, TooMuchData
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.conversion import down_convert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.replication.fetch_data import FetchedPartition

MAX_CONVERTED_BYTES = 64 * 1024 * 1024
CONVERTED_BELOW = 4
"""The version from which on clients read batches of magic 2."""

_ONE_AT_A_TIME = trio.CapacityLimiter(1)


async def convert_rows(rows: Sequence[FetchedPartition], version: int) -> list[FetchedPartition]:
    """Convert rows for a Fetch `version` below `CONVERTED_BELOW`, in a thread.

    Returns the rows that had nothing but markers of transactions, which no message set has. Their requests
    now begin behind these: a client that got nothing would ask for the same offset forever.
    """

    def convert() -> list[FetchedPartition]:
        return [row for row in rows if _convert_row(row, 0 if version < 2 else 1)]

    return await run_in_thread(convert, limiter=_ONE_AT_A_TIME)


def _convert_row(row: FetchedPartition, magic: int) -> bool:
    """Convert the records of a row, or set its error; return whether there were markers only."""
    records = row.records
    if records is None or isinstance(records, bytes):
        return False
    try:
        data, request = records.read(), row.request
        row.records = down_convert(
            data, magic, first_offset=request.fetch_offset, max_bytes=MAX_CONVERTED_BYTES
        )
        row.size = len(row.records)
        if not row.size:
            behind = max((batch.last_offset + 1 for batch in iter_batches(data)), default=0)
            if behind > request.fetch_offset:
                request.fetch_offset = behind
                return True
    except (KafkaError, CorruptRecord) as error:
        row.records, row.size = None, 0
        if isinstance(error, KafkaError):
            row.error_code = error.code
        elif isinstance(error, TooMuchData):
            row.error_code = ErrorCode.MESSAGE_TOO_LARGE
        else:
            row.error_code = ErrorCode.CORRUPT_MESSAGE
    return False
