"""Log files made by hand: every format, codec and kind of record, as a broker would have stored them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.internal.coordinator_records import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    GroupMetadataValue,
    MemberMetadata,
)
from kcli.protocol.internal.metadata_records import METADATA_RECORDS
from kcli.protocol.internal.quorum_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kcli.protocol.internal.remote_log_records import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
)
from kcli.protocol.internal.security_records import SECURITY_RECORDS
from kcli.protocol.internal.share_records import SHARE_GROUP_RECORDS, SHARE_STATE_RECORDS
from kcli.protocol.internal.streams_records import STREAMS_GROUP_RECORDS
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.control_records import (
    ControlRecordType,
    EndTxnMarker,
    control_batch,
    end_txn_batch,
)
from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.protocol.records.record import TimestampType
from kcli.protocol.schema.declaration import codec, message_info
from kcli.protocol.schema.unsigned_varint import encode_unsigned_varint
from tests.support.specimens import specimen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

TIME = 1_700_000_000_000
Pair = tuple[bytes | None, bytes | None]

PAIRS: list[Pair] = [
    (b"key", b"value"),
    (None, b"no key"),
    (b"tombstone", None),
    (b"", b""),
    ("schlüssel".encode(), "größe \N{GRINNING FACE}".encode()),
    (b"\xff\xfe", b"caf\xe9 \xed\xa0\x80 \xf0\x9f"),
    (b"line\nbreak\ttab", b"x" * 300),
    (None, None),
    (b"\xe2\x82", b"\x80end"),
]
"""Keys and values, some of which are no UTF-8."""


def write_at_rest(path: Path, data: bytes) -> None:
    """Write a file that looks as if it had been written long ago: readers give one that is new some time."""
    path.write_bytes(data)
    os.utime(path, (TIME / 1000, TIME / 1000))


def segment(directory: Path, batches: Iterable[bytes], base_offset: int = 0, suffix: str = ".log") -> Path:
    """Write a segment that consists of these bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020}{suffix}"
    write_at_rest(path, b"".join(batches))
    return path


def batch_of(pairs: Iterable[Pair], base_offset: int = 0, **settings: Any) -> bytes:
    """A batch of magic 2 with some headers."""
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=3, **settings)
    for number, (key, value) in enumerate(pairs):
        headers = [("trace", b"\x00\xff"), ("größe", None)][: number % 3]
        builder.append(TIME + number * 70 - (number % 2) * 100, key, value, headers)
    return bytes(builder.build())


def formats() -> Iterator[bytes]:
    """Batches of every format and codec; offsets go on from one to the next."""
    offset = 0
    for magic in (0, 1):
        for kind in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            for timestamp_type in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)[: magic + 1]:
                builder = MessageSetBuilder(
                    magic, codec=kind, base_offset=offset, timestamp_type=timestamp_type
                )
                for number, (key, value) in enumerate(PAIRS):
                    builder.append(TIME + (number if not timestamp_type else 0), key, value)
                yield builder.build()
                offset += len(PAIRS)
    for kind in Codec:
        for timestamp_type in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME):
            yield batch_of(PAIRS, offset, codec=kind, timestamp_type=timestamp_type)
            offset += len(PAIRS)
    for sequence in (0, 2**31 - 4):
        yield batch_of(
            PAIRS, offset, producer_id=4000, producer_epoch=7, base_sequence=sequence, is_transactional=True
        )
        offset += len(PAIRS)
    for marker in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
        yield bytes(
            end_txn_batch(
                EndTxnMarker(marker, 11),
                timestamp=TIME,
                producer_id=4000,
                producer_epoch=7,
                base_offset=offset,
            )
        )
        offset += 1


def quorum() -> Iterator[bytes]:
    """Control records of the metadata quorum, and of kinds to come."""
    values: list[tuple[ControlRecordType, type[Any], int]] = [
        (ControlRecordType.LEADER_CHANGE, LeaderChangeMessage, 0),
        (ControlRecordType.LEADER_CHANGE, LeaderChangeMessage, 1),
        (ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord, 0),
        (ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord, 0),
        (ControlRecordType.KRAFT_VERSION, KRaftVersionRecord, 0),
        (ControlRecordType.KRAFT_VOTERS, VotersRecord, 0),
    ]
    for offset, (kind, cls, version) in enumerate(values):
        value = specimen(cls, 0)
        value.version = version
        data = codec(type(value), 0, flexible=True).encode(value)
        yield bytes(control_batch(kind, data, timestamp=TIME, base_offset=offset, leader_epoch=2))
    builder = RecordBatchBuilder(base_offset=len(values), is_control=True)
    builder.append(TIME, b"\0\0\0\x63", b"from the future")
    yield bytes(builder.build())


def coordinator(classes: dict[int, tuple[type[Any], type[Any]]]) -> list[Pair]:
    """Records of a coordinator's topic: each type in each version, deleted, and one of an unknown type."""
    pairs: list[Pair] = []
    for number, (key_class, value_class) in sorted(classes.items()):
        key = number.to_bytes(2, "big") + codec(key_class, 0).encode(specimen(key_class, 0))
        info = message_info(value_class)
        for version in range(info.min_version, info.max_version + 1):
            for index in (0, 1):
                value = codec(value_class, version).encode(specimen(value_class, version, index))
                pairs.append((key, version.to_bytes(2, "big") + value))
        pairs.append((key, None))
        pairs.append((key, b"\0\x09" + value))
    return [*pairs, (b"\0\x63future", b"\0\0?"), (b"\0\x63gone", None)]


def consumer_members() -> list[Pair]:
    """Classic groups whose members use the consumer protocol, or say that they do."""
    subscription = "0001 00000002 000161 000162 ffffffff 00000001 000161 00000002 00000000 00000001"
    assignment = "0000 00000001 000161 00000001 00000000 00000003 616263"
    pairs: list[Pair] = []
    for number, (first, second) in enumerate(
        [
            (subscription, assignment),
            ("", ""),
            ("0003 0000", "ff"),
            ("0007" + subscription[4:], "0009" + assignment[4:]),
        ]
    ):
        member = MemberMetadata(
            member_id=f"m-{number}",
            client_id="c",
            client_host="/127.0.0.1",
            session_timeout=45_000,
            subscription=bytes.fromhex(first),
            assignment=bytes.fromhex(second),
        )
        for kind in ("consumer", "connect"):
            value = GroupMetadataValue(
                protocol_type=kind, generation=2, protocol="range", leader="m", members=[member]
            )
            pairs.append((b"\0\2\0\1g", b"\0\3" + codec(GroupMetadataValue, 3).encode(value)))
    return pairs


def framed(classes: Iterable[type[Any]]) -> list[Pair]:
    """Records in the frame of the metadata log: each type in each version."""
    pairs: list[Pair] = []
    for cls in classes:
        info = message_info(cls)
        for version in range(info.min_version, info.max_version + 1):
            frame = b"\1" + encode_unsigned_varint(info.key) + encode_unsigned_varint(version)
            pairs += [
                (None, frame + codec(cls, version).encode(specimen(cls, version, index))) for index in (0, 1)
            ]
    return pairs


def remote_log() -> list[Pair]:
    """Records about segments in tiered storage, in states that there are."""
    segment_record = specimen(RemoteLogSegmentMetadataRecord, 0)
    segment_record.start_offset, segment_record.end_offset = 5, 90
    segment_record.broker_id = 3
    segment_record.remote_log_segment_state = 1
    update = specimen(RemoteLogSegmentMetadataUpdateRecord, 0)
    update.remote_log_segment_state, update.custom_metadata = 2, None
    deleted = specimen(RemotePartitionDeleteMetadataRecord, 0)
    deleted.remote_partition_delete_state = 0
    pairs: list[Pair] = []
    for value in (segment_record, update, deleted):
        frame = b"\1" + encode_unsigned_varint(message_info(type(value)).key) + b"\0"
        pairs.append((None, frame + codec(type(value), 0).encode(value)))
    return pairs


ALL_GROUP_RECORDS = {**GROUP_RECORDS, **SHARE_GROUP_RECORDS, **STREAMS_GROUP_RECORDS}


def write_internal_topics(directory: Path) -> dict[str, Path]:
    """Write a segment of each topic that a cluster keeps for itself; by the option that decodes it."""
    topics: dict[str, tuple[str, list[Pair]]] = {
        "--offsets-decoder": ("__consumer_offsets-0", coordinator(ALL_GROUP_RECORDS) + consumer_members()),
        "--transaction-log-decoder": ("__transaction_state-0", coordinator(TRANSACTION_RECORDS)),
        "--share-group-state-decoder": ("__share_group_state-0", coordinator(SHARE_STATE_RECORDS)),
        "--cluster-metadata-decoder": (
            "__cluster_metadata-0",
            framed([*METADATA_RECORDS.values(), *SECURITY_RECORDS.values()]),
        ),
        "--remote-log-metadata-decoder": ("__remote_log_metadata-0", remote_log()),
    }
    return {option: segment(directory / name, [batch_of(pairs)]) for option, (name, pairs) in topics.items()}
