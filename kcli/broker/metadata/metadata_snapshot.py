"""Snapshots of the metadata log: an image as the records that make it (KIP-630).

A snapshot replaces the log below its end offset. Its file, beside the segments, has that offset and the epoch
before it in its name: `00000000000000007822-0000000005.checkpoint`. It consists of record batches with
offsets of their own: a header control record, those of a quorum whose voters may change, the records, a
footer control record. Without the footer it is
unfinished and not used.
"""

from __future__ import annotations

import re
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.metadata.metadata_replay import MetadataBatch
from kcli.errors import KcliError
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.internal.metadata_records import (
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.control_records import ControlRecordType, control_batch, parse_control_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.broker.metadata.metadata_image import BrokerRegistration, MetadataImage
    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.internal.security_records import SecurityRecord

RECORDS_PER_BATCH = 1000

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
_QUORUM_TYPES = (ControlRecordType.KRAFT_VERSION, ControlRecordType.KRAFT_VOTERS)
# Version, timestamp of the last record below the end offset, no tags.
_HEADER = Struct(">hqb")
_FOOTER = Struct(">hb")


class InvalidSnapshot(KcliError):
    """A snapshot is damaged or unfinished."""


class SnapshotId(NamedTuple):
    """The first offset that is not in the snapshot, and the epoch before it."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The name of the file, in the directory of the metadata log."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"

    @classmethod
    def parse(cls, file_name: str) -> SnapshotId | None:
        """Return the id in a snapshot's file name, None for other files."""
        match = _NAME.fullmatch(file_name)
        return cls(int(match[1]), int(match[2])) if match else None


def image_records(image: MetadataImage) -> Iterator[MetadataRecord | SecurityRecord]:
    """Yield the records that make this image from an empty one, in Kafka's order."""
    for name, level in image.features.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for name in sorted(image.disabled_features):
        yield FeatureLevelRecord(name=name, feature_level=0)
    for broker in image.brokers.values():
        yield _broker_record(broker)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for index, partition in enumerate(topic.partitions):
            yield partition.to_record(topic.topic_id, index)
    for (type, resource), config in image.configs.items():
        for name, value in config.items():
            yield ConfigRecord(resource_type=type, resource_name=resource, name=name, value=value)
    for entity, quotas in image.client_quotas.items():
        for key, limit in quotas.items():
            parts = [EntityData(entity_type=type, entity_name=name) for type, name in entity]
            yield ClientQuotaRecord(entity=parts, key=key, value=limit, remove=False)
    if image.next_producer_id:
        # The broker of the last block is not part of the image, and is never needed.
        yield ProducerIdsRecord(broker_id=-1, next_producer_id=image.next_producer_id)
    yield from image.security.values()


def encode_snapshot(image: MetadataImage, *, now_ms: int) -> bytes:
    epoch = image.epoch
    header = _HEADER.pack(0, now_ms, 0)
    data = control_batch(ControlRecordType.SNAPSHOT_HEADER, header, timestamp=now_ms, leader_epoch=epoch)
    offset = 1
    for control_type, value in image.quorum.items():
        data += control_batch(control_type, value, timestamp=now_ms, base_offset=offset, leader_epoch=epoch)
        offset += 1
    records = image_records(image)
    while chunk := list(islice(records, RECORDS_PER_BATCH)):
        builder = RecordBatchBuilder(base_offset=offset, leader_epoch=epoch)
        for record in chunk:
            builder.append(now_ms, None, encode_metadata_record(record, image.metadata_version))
        data += builder.build()
        offset += len(chunk)
    data += control_batch(
        ControlRecordType.SNAPSHOT_FOOTER,
        _FOOTER.pack(0, 0),
        timestamp=now_ms,
        base_offset=offset,
        leader_epoch=epoch,
    )
    return bytes(data)


def decode_snapshot(data: bytes, snapshot_id: SnapshotId) -> MetadataBatch:
    """Return a snapshot's records as one batch. Raises `InvalidSnapshot`, and `DecodeError`."""
    records: list[MetadataRecord | SecurityRecord] = []
    controls: list[ControlRecordType] = []
    quorum: dict[ControlRecordType, bytes] = {}
    size = next_offset = 0
    try:
        for batch in iter_batches(data):
            if not isinstance(batch, RecordBatch) or not batch.is_valid_crc():
                raise CorruptRecord("a batch is damaged")
            if batch.base_offset != next_offset:
                raise CorruptRecord(f"a batch at offset {next_offset} is missing")
            size, next_offset = size + batch.size_in_bytes, batch.next_offset
            for record in batch.records():
                if batch.is_control:
                    controls.append(parse_control_key(record.key))
                else:
                    records.append(decode_metadata_record(record.value or b""))
            quorum |= quorum_records(batch)
    except CorruptRecord as error:
        raise InvalidSnapshot(f"snapshot `{snapshot_id.file_name}`: {error}") from error
    is_whole = controls[:1] == [ControlRecordType.SNAPSHOT_HEADER] and (
        controls[-1:] == [ControlRecordType.SNAPSHOT_FOOTER] and size == len(data)
    )
    if not is_whole:
        raise InvalidSnapshot(f"snapshot `{snapshot_id.file_name}` is not finished")
    return MetadataBatch(snapshot_id.end_offset - 1, snapshot_id.epoch, records, quorum)


def quorum_records(batch: RecordBatch) -> dict[ControlRecordType, bytes]:
    """Return the control records of a batch about the voters of the quorum (KIP-853), by type."""
    if not batch.is_control:
        return {}
    found = {parse_control_key(record.key): bytes(record.value or b"") for record in batch.records()}
    return {type: value for type, value in found.items() if type in _QUORUM_TYPES}


def _broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=[each.to_record() for each in broker.endpoints],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, lowest, highest in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
    )
