"""What a follower checks of the records it fetched, which its leader has validated already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.record import CorruptRecord
from kcli.protocol.records.batch import RecordBatch, iter_batches

if TYPE_CHECKING:
    from kcli.protocol.record import Buffer
    from kcli.protocol.records.message_set import LegacyEntry


def whole_batches(records: Buffer, next_offset: int) -> tuple[Buffer, list[RecordBatch | LegacyEntry]]:
    """Return the whole batches at the start of a buffer, as bytes and taken apart.

    Checksums must be right, and offsets go up from `next_offset`, holes allowed. Raises `KafkaError`
    CORRUPT_MESSAGE and OFFSET_OUT_OF_RANGE.
    """
    batches: list[RecordBatch | LegacyEntry] = []
    size = 0
    try:
        for batch in iter_batches(records):
            last_offset = batch.last_offset
            if not batch.is_valid_crc():
                raise CorruptRecord(f"wrong checksum at offset {last_offset}")
            # The first offset of an older entry is inside; to learn it takes decompressing.
            first_offset = batch.base_offset if isinstance(batch, RecordBatch) else last_offset
            if first_offset < next_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {first_offset} comes after {next_offset - 1}"
                )
            next_offset = last_offset + 1
            size += batch.size_in_bytes
            batches.append(batch)
    except CorruptRecord as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    return (records if size == len(records) else memoryview(records)[:size]), batches
