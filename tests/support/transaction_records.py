"""Records of `__transaction_state` in the log of a broker that does not run."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kcli.protocol.internal.coordinator_records import decode_transaction_record, encode_value
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kcli.protocol.internal.coordinator_records import TransactionLogValue


def append_state(
    node_directory: Path, name: str, change: Callable[[TransactionLogValue], None], *, partition: int = 0
) -> None:
    """Append the newest record of a transactional id once more, changed."""
    path = node_directory / f"__transaction_state-{partition}" / f"{0:020}.log"
    data = path.read_bytes()
    *_, last = batches = list(iter_batches(data))
    records = [
        (record.key, decode_transaction_record(record.key, record.value))
        for batch in batches
        for record in batch.records()
        if record.key is not None
    ]
    key, found = [each for each in records if each[1].key.transactional_id == name][-1]
    assert found.value is not None
    change(found.value)
    builder = RecordBatchBuilder()
    builder.append(last.max_timestamp, key, encode_value(found.value, found.value_version))
    batch = builder.build()
    # Base offset and leader epoch are outside of the checksum.
    batch[:8] = struct.pack(">q", last.next_offset)
    position = _last_position(data)
    batch[12:16] = data[position + 12 : position + 16]
    path.write_bytes(data + batch)


def _last_position(data: bytes) -> int:
    """Return where the last batch begins."""
    position = 0
    while (following := position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")) < len(
        data
    ):
        position = following
    return position
