"""Metadata records: the bytes are those that Apache Kafka 4.3.1's MetadataRecordSerde writes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.internal.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from kcli.protocol.schema.declaration import DecodeError

TOPIC = bytes(range(1, 17))
DIRECTORY = bytes(range(17, 33))

GOLDEN: list[tuple[MetadataRecord, str]] = [
    (
        RegisterBrokerRecord(
            broker_id=3,
            incarnation_id=TOPIC,
            broker_epoch=1234567890123,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=65535, security_protocol=0)],
            features=[
                BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)
            ],
            rack="r1",
            log_dirs=[DIRECTORY],
        ),
        "01000400000003000102030405060708090a0b0c0d0e0f100000011f71fb04cb020a504c41494e544558540a6c6f63616c68"
        "6f7374ffff00000002116d657461646174612e76657273696f6e0007001e000372310100010011021112131415161718191a"
        "1b1c1d1e1f20",
    ),
    (UnregisterBrokerRecord(broker_id=3, broker_epoch=9), "01010000000003000000000000000900"),
    (TopicRecord(name="orders", topic_id=TOPIC), "010200076f72646572730102030405060708090a0b0c0d0e0f1000"),
    (
        PartitionRecord(
            partition_id=2,
            topic_id=TOPIC,
            replicas=[1, 2, 3],
            isr=[1, 2],
            removing_replicas=[3],
            adding_replicas=[2],
            leader=1,
            leader_recovery_state=1,
            leader_epoch=4,
            partition_epoch=5,
            directories=[DIRECTORY] * 3,
            eligible_leader_replicas=[3],
            last_known_elr=[2],
        ),
        "010302000000020102030405060708090a0b0c0d0e0f10040000000100000002000000030300000001000000020200000003"
        "0200000002000000010000000400000005041112131415161718191a1b1c1d1e1f201112131415161718191a1b1c1d1e1f20"
        "1112131415161718191a1b1c1d1e1f20030001010105020000000302050200000002",
    ),
    (
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
        "01040002076f72646572730d726574656e74696f6e2e6d73053130303000",
    ),
    (ConfigRecord(resource_type=4, resource_name="", name="x", value=None), "010400040102780000"),
    (
        PartitionChangeRecord(
            partition_id=2,
            topic_id=TOPIC,
            isr=[1],
            leader=-1,
            replicas=[1, 2],
            removing_replicas=[],
            adding_replicas=[2],
            leader_recovery_state=0,
            directories=[DIRECTORY] * 2,
            eligible_leader_replicas=[2],
            last_known_elr=[1],
        ),
        "010502000000020102030405060708090a0b0c0d0e0f1009000502000000010104ffffffff02090300000001000000020301"
        "010405020000000205010006050200000002070502000000010821031112131415161718191a1b1c1d1e1f20111213141516"
        "1718191a1b1c1d1e1f20",
    ),
    (
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC),
        "010502000000000102030405060708090a0b0c0d0e0f1000",
    ),
    (FenceBrokerRecord(id=1, epoch=7), "01070000000001000000000000000700"),
    (UnfenceBrokerRecord(id=1, epoch=7), "01080000000001000000000000000700"),
    (RemoveTopicRecord(topic_id=TOPIC), "0109000102030405060708090a0b0c0d0e0f1000"),
    (
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        "010c00116d657461646174612e76657273696f6e001e00",
    ),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=12, next_producer_id=3000),
        "010f0000000001000000000000000c0000000000000bb800",
    ),
    (
        BrokerRegistrationChangeRecord(
            broker_id=1,
            broker_epoch=12,
            fenced=-1,
            in_controlled_shutdown=1,
            log_dirs=[DIRECTORY],
            cordoned_log_dirs=[],
        ),
        "01110300000001000000000000000c040001ff0101010211021112131415161718191a1b1c1d1e1f20030101",
    ),
    (NoOpRecord(), "01140000"),
    (BeginTransactionRecord(name="Bootstrap records"), "01170001001212426f6f747374726170207265636f726473"),
    (EndTransactionRecord(), "01180000"),
    (AbortTransactionRecord(reason="why"), "01190001000404776879"),
    (ClearElrRecord(topic_name="orders"), "011c00076f726465727300"),
]


@pytest.mark.parametrize(("record", "golden"), GOLDEN, ids=lambda value: type(value).__name__)
def test_the_bytes_are_kafkas_both_ways(record: MetadataRecord, golden: str) -> None:
    assert encode_metadata_record(record).hex() == golden
    assert decode_metadata_record(bytes.fromhex(golden)) == record


def test_older_versions_are_read() -> None:
    # Version 0 of a partition has neither directories nor eligible leader replicas.
    data = bytes.fromhex("010300000000070102030405060708090a0b0c0d0e0f1002000000010200000001010100000001")
    data += bytes.fromhex("000000020000000300")
    partition = decode_metadata_record(data)
    assert partition == PartitionRecord(
        partition_id=7,
        topic_id=TOPIC,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=2,
        partition_epoch=3,
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "malformed frame"),
        ("0114", "malformed frame"),
        ("02140000", "unknown frame version of a metadata record: 2"),
        ("01630000", "unknown metadata record: type 99, version 0"),
        ("01140100", "unknown metadata record: type 20, version 1"),
        ("0114000000", "a NoOpRecord has 1 bytes too many"),
        ("0109000102", "malformed RemoveTopicRecord"),
    ],
)
def test_what_is_no_record_is_refused(data: str, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_metadata_record(bytes.fromhex(data))


@given(st.sampled_from(GOLDEN), st.data())
def test_damage_raises_nothing_but_a_decode_error(
    golden: tuple[MetadataRecord, str], data: st.DataObject
) -> None:
    damaged = bytearray.fromhex(golden[1])
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    with contextlib.suppress(DecodeError):
        decode_metadata_record(bytes(damaged[:cut]))
