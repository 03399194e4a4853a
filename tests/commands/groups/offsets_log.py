"""OffsetsLog: writes `__consumer_offsets` and other partitions into a log directory, batch by batch."""

from __future__ import annotations

from pathlib import Path

from kcli.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kcli.protocol.internal.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.uuids import uuid_to_text

NOW = 1_700_000_000_000


def offset_key(group: str, topic: str, partition: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group, topic=topic, partition=partition)


def offset_value(offset: int, at_ms: int = NOW, metadata: str = "", epoch: int = -1) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=at_ms)


def classic_group(
    generation: int, at_ms: int = NOW, **members: dict[str, tuple[int, ...]]
) -> GroupMetadataValue:
    """A generation of consumers with their partitions."""
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range" if members else None,
        leader=next((f"{name}-id" for name in members), None),
        current_state_timestamp=at_ms,
        members=[
            MemberMetadata(
                member_id=f"{name}-id",
                client_id=name,
                client_host="/10.0.0.1",
                session_timeout=45_000,
                rebalance_timeout=60_000,
                subscription=encode_subscription(Subscription(tuple(assignment))),
                assignment=encode_assignment(Assignment(assignment)),
            )
            for name, assignment in members.items()
        ],
    )


class OffsetsLog:
    """A log directory; every verb appends one batch to the offsets topic's partition."""

    def __init__(self, directory: Path, partition: int = 0) -> None:
        self.directory = directory
        self.path = directory / f"__consumer_offsets-{partition}"
        self.path.mkdir(parents=True, exist_ok=True)
        self.segment = self.path / f"{0:020d}.log"
        self.next_offset = 0

    def append(self, *records: tuple[object, object | None], at_ms: int = NOW, producer_id: int = -1) -> None:
        """Append records of keys and values as one batch, in a transaction if a producer is named."""
        builder = RecordBatchBuilder(
            base_offset=self.next_offset, producer_id=producer_id, is_transactional=producer_id >= 0
        )
        for key, value in records:
            raw_key = key if isinstance(key, bytes) else encode_key(key)
            raw_value = value if value is None or isinstance(value, bytes) else encode_value(value)
            builder.append(at_ms, raw_key, raw_value)
        self.write(bytes(builder.build()), len(records))

    def write(self, data: bytes, count: int) -> None:
        """Append bytes that occupy so many offsets."""
        with self.segment.open("ab") as file:
            file.write(data)
        self.next_offset += count

    def commit(self, group: str, topic: str, partition: int, offset: int, at_ms: int = NOW) -> None:
        self.append((offset_key(group, topic, partition), offset_value(offset, at_ms)), at_ms=at_ms)

    def generation(
        self, group: str, number: int, at_ms: int = NOW, **members: dict[str, tuple[int, ...]]
    ) -> None:
        self.append((GroupMetadataKey(group=group), classic_group(number, at_ms, **members)), at_ms=at_ms)

    def end_transaction(self, producer_id: int, end: ControlRecordType) -> None:
        self.write(
            bytes(
                end_txn_batch(
                    EndTxnMarker(end, 0),
                    timestamp=NOW,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_offset=self.next_offset,
                )
            ),
            1,
        )

    def roll(self) -> None:
        """Begin a new segment."""
        self.segment = self.path / f"{self.next_offset:020d}.log"

    def corrupt(self, position: int) -> None:
        """Change a byte of the current segment; negative positions count from its end."""
        data = bytearray(self.segment.read_bytes())
        data[position] ^= 0xFF
        self.segment.write_bytes(data)

    def cut(self, count: int) -> None:
        """Remove bytes from the end of the current segment."""
        self.segment.write_bytes(self.segment.read_bytes()[:-count])


def write_topic(
    directory: Path, topic: str, partition: int, records: int, topic_id: bytes = b"\1" * 16
) -> Path:
    """Write a partition of a topic that holds so many records."""
    path = directory / f"{topic}-{partition}"
    path.mkdir(parents=True, exist_ok=True)
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_to_text(topic_id)}")
    builder = RecordBatchBuilder()
    for number in range(records):
        builder.append(NOW, None, str(number).encode())
    (path / f"{0:020d}.log").write_bytes(bytes(builder.build()) if records else b"")
    return path
