"""Damage in the metadata log: what a crash leaves at the end is cut off, what is before that is refused."""

from __future__ import annotations

from kcli.broker.metadata_replay import InvalidMetadata
from kcli.protocol.record_batch import HEADER_SIZE, CorruptRecord, RecordBatch

_MAGIC_OFFSET = 16


def refuse_inner_damage(path: str, *, is_last: bool) -> None:
    """Raise `InvalidMetadata` if a whole batch, or another segment, stands behind a damaged batch."""
    with open(path, "rb") as file:
        data = file.read()
    position = 0
    while (size := _size_of_batch_at(data, position)) is not None:
        position += size
    is_inner = not is_last and position < len(data)
    for later in range(position + 1, len(data) - HEADER_SIZE + 1):
        if data[later + _MAGIC_OFFSET] == 2 and _size_of_batch_at(data, later) is not None:
            is_inner = True
            break
    if is_inner:
        raise InvalidMetadata(
            f"the metadata log is damaged at byte {position}, before its end: `{path}`",
            hint="restore the file from a copy; cutting it would forget topics",
        )


def _size_of_batch_at(data: bytes, position: int) -> int | None:
    """Return the size of the batch at `position`, None if there is none that is whole and sound."""
    try:
        batch = RecordBatch(data, position)
    except CorruptRecord:
        return None
    return batch.size_in_bytes if batch.is_valid_crc() else None
