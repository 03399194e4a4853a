"""A partition of fake brokers."""

from __future__ import annotations

from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import set_base_offset_and_epoch


class FakePartition:
    """One partition's log: batches as produced, and per producer id its epoch and next sequence."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.leader_epoch = 0
        self.batches: list[bytes] = []
        self.start_offset = 0
        self.end_offset = 0
        self.producers: dict[int, tuple[int, int]] = {}

    def append(self, records: memoryview) -> tuple[int, int]:
        """Return the error code and base offset of a produced batch."""
        data = bytearray(records)
        batch = RecordBatch(data)
        assert batch.size_in_bytes == len(data)
        assert batch.is_valid_crc()
        if batch.has_producer_id:
            epoch, expected = self.producers.get(
                batch.producer_id, (batch.producer_epoch, batch.base_sequence)
            )
            if batch.producer_epoch > epoch:
                expected = 0
            if batch.base_sequence < expected and batch.producer_epoch == epoch:
                return 46, -1
            if batch.base_sequence != expected:
                return 45, -1
            following = (batch.base_sequence + batch.count) & 0x7FFFFFFF
            self.producers[batch.producer_id] = (batch.producer_epoch, following)
        base_offset = self.end_offset
        set_base_offset_and_epoch(data, 0, base_offset, self.leader_epoch)
        self.batches.append(bytes(data))
        self.end_offset += batch.count
        return 0, base_offset

    def values(self) -> list[bytes | None]:
        """Return the values of all records in order."""
        return [record.value for data in self.batches for record in RecordBatch(data).records()]

    def read(self, offset: int) -> bytes:
        """Return the batches from the one with `offset` on."""
        return b"".join(data for data in self.batches if RecordBatch(data).last_offset >= offset)
