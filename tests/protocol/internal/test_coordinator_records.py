"""Coordinators' records: the bodies are those that Apache Kafka 4.3.1 writes, the prefix its serde's."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.protocol.internal import coordinator_records
from kcli.protocol.internal.coordinator_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    DecodedRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
    UnknownRecordType,
    decode_record,
    decode_transaction_record,
    encode_key,
    encode_value,
)
from kcli.protocol.schema.declaration import DecodeError, message_info
from tests.support.arbitrary import instances
from tests.support.specimens import specimen

GOLDEN = [
    (getattr(coordinator_records, name), int(version), bytes.fromhex(body))
    for name, version, body in (
        line.split()
        for line in (Path(__file__).parents[2] / "golden" / "coordinator_records.txt")
        .read_text(encoding="ascii")
        .splitlines()
    )
]
KEYS = {message_info(cls).key: cls for cls, _, _ in GOLDEN if cls.__name__.endswith("Key")}
VALUES = [(cls, version) for cls, version, _ in GOLDEN if cls.__name__.endswith("Value")]

few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def name_and_version(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value) if isinstance(value, int) else ""


def decode(key: bytes, value: bytes | None, cls: type[Any]) -> DecodedRecord:
    """Read a record of the topic that a class belongs to."""
    of_transactions = cls in (TransactionLogKey, TransactionLogValue)
    return (decode_transaction_record if of_transactions else decode_record)(key, value)


@pytest.mark.parametrize(("cls", "version", "body"), GOLDEN, ids=name_and_version)
def test_the_bytes_are_kafkas_both_ways(cls: type[Any], version: int, body: bytes) -> None:
    value = specimen(cls, version)
    if cls.__name__.endswith("Key"):
        key = message_info(cls).key.to_bytes(2, "big") + body
        assert encode_key(value) == key
        assert decode(key, None, cls) == (value, None, -1)
    else:
        stored = version.to_bytes(2, "big") + body
        key = specimen(KEYS[message_info(cls).key], 0)
        assert encode_value(value, version) == stored
        assert decode(encode_key(key), stored, cls) == (key, value, version)


def test_every_class_and_version_has_a_golden_body() -> None:
    classes = {cls for name, cls in vars(coordinator_records).items() if name.endswith(("Key", "Value"))}
    classes -= {coordinator_records.LegacyOffsetCommitValue}  # Only read, and tested where it is printed.
    wanted = {
        (cls, version)
        for cls in classes
        for version in range(message_info(cls).min_version, message_info(cls).max_version + 1)
    }
    assert {(cls, version) for cls, version, _ in GOLDEN} == wanted


OFFSET = OffsetCommitValue(offset=7, leader_epoch=3, metadata="m", commit_timestamp=1000)


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (OFFSET, 4),
        (OffsetCommitValue(offset=7, metadata="", commit_timestamp=1000, expire_timestamp=2000), 1),
        (
            GroupMetadataValue(
                protocol_type="consumer", generation=1, protocol=None, leader=None, members=[]
            ),
            3,
        ),
        (ConsumerGroupMetadataValue(epoch=1), 0),
    ],
)
def test_values_are_written_in_the_versions_of_kafka_4_3(value: object, version: int) -> None:
    assert encode_value(value)[:2] == version.to_bytes(2, "big")


def test_records_of_the_specification() -> None:
    key = bytes.fromhex("000100016700017400000002")
    assert encode_key(OffsetCommitKey(group="g", topic="t", partition=2)) == key
    assert encode_value(OFFSET, 3) == bytes.fromhex("000300000000000000070000000300016d00000000000003e8")
    assert encode_key(GroupMetadataKey(group="g")) == bytes.fromhex("0002000167")


def test_a_key_of_type_0_is_an_offset_too() -> None:
    record = decode_record(bytes.fromhex("000000016700017400000002"), encode_value(OFFSET, 0))
    assert record.key == OffsetCommitKey(group="g", topic="t", partition=2)
    assert record.value == OffsetCommitValue(offset=7, metadata="m", commit_timestamp=1000)


def test_bytes_behind_a_body_are_ignored() -> None:
    key = encode_key(ConsumerGroupMetadataKey(group_id="g"))
    value = encode_value(ConsumerGroupMetadataValue(epoch=1))
    assert decode_record(key + b"?", value + b"?") == decode_record(key, value)


def test_what_a_tag_from_the_future_says_is_passed_over() -> None:
    key = encode_key(ConsumerGroupMetadataKey(group_id="g"))
    value = bytes.fromhex("000000000005016302abcd")
    assert decode_record(key, value).value == ConsumerGroupMetadataValue(epoch=5)


def test_a_member_of_the_consumer_protocol_says_that_it_has_no_classic_metadata() -> None:
    stored = bytes.fromhex(  # as a broker of Apache Kafka 4.3.1 wrote it
        "000008696e73742d636f00046369640b2f3132372e302e302e3102076f726465727301000493e00001000100"
    )
    value = ConsumerGroupMemberMetadataValue(
        instance_id="inst-co",
        rack_id=None,
        client_id="cid",
        client_host="/127.0.0.1",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=300_000,
        server_assignor=None,
        classic_member_metadata=None,
    )
    key = ConsumerGroupMemberMetadataKey(group_id="co", member_id="m")
    assert encode_value(value) == stored
    assert decode_record(encode_key(key), stored) == (key, value, 0)
    without_tags = stored[:-4] + b"\0"
    assert (
        decode_record(encode_key(key), without_tags).value.classic_member_metadata == ClassicMemberMetadata()
    )


@pytest.mark.parametrize("number", [*range(9, 16), *range(17, 40), -1, 0x7FFF])
def test_other_types_are_unknown_and_name_themselves(number: int) -> None:
    with pytest.raises(UnknownRecordType, match=f"unknown type: {number}$") as caught:
        decode_record(number.to_bytes(2, "big", signed=True) + b"?", b"\0\0")
    assert caught.value.type == number


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("", None, "Could not read version from key's buffer"),
        ("00", None, "Could not read version from key's buffer"),
        ("0002000267", None, "version 2 from key's buffer"),
        ("0002000167", "", "Could not read version from value's buffer"),
        ("0002000167", "0005", "unknown version of a coordinator's record: GroupMetadataValue 5"),
        ("0002000167", "ffff", "unknown version of a coordinator's record: GroupMetadataValue -1"),
        ("0002000167", "000300", "version 3 from value's buffer"),
    ],
)
def test_what_is_no_record_is_refused(key: str, value: str | None, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_record(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@pytest.mark.parametrize(("cls", "version"), VALUES, ids=name_and_version)
@few
@given(data=st.data())
def test_what_is_written_is_read(cls: type[Any], version: int, data: st.DataObject) -> None:
    key_class = KEYS[message_info(cls).key]
    key, value = data.draw(instances(key_class, 0)), data.draw(instances(cls, version))
    record = decode(encode_key(key), encode_value(value, version), cls)
    assert record == (key, value, version)


@pytest.mark.parametrize(("cls", "version", "body"), GOLDEN, ids=name_and_version)
@few
@given(data=st.data())
def test_damage_raises_nothing_but_a_decode_error(
    cls: type[Any], version: int, body: bytes, data: st.DataObject
) -> None:
    is_key = cls.__name__.endswith("Key")
    number = message_info(cls).key if is_key else version
    damaged = bytearray(number.to_bytes(2, "big") + body)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    with contextlib.suppress(DecodeError):
        if is_key:
            decode(cut, None, cls)
        else:
            decode(encode_key(specimen(KEYS[message_info(cls).key], 0)), cut, cls)


def test_a_member_of_a_classic_group_as_old_versions_have_it() -> None:
    member = MemberMetadata(
        member_id="m-1",
        group_instance_id="static",
        client_id="m",
        client_host="/127.0.0.1",
        rebalance_timeout=60_000,
        session_timeout=45_000,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m-1", members=[member]
    )
    key = encode_key(GroupMetadataKey(group="g"))
    read = decode_record(key, encode_value(value, 0)).value.members[0]
    assert (read.rebalance_timeout, read.group_instance_id) == (-1, None)
    assert decode_record(key, encode_value(value, 2)).value.members[0].rebalance_timeout == 60_000
    assert decode_record(key, encode_value(value)).value == value


def test_a_transaction_is_written_in_its_flexible_version() -> None:
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=-1,
    )
    key = TransactionLogKey(transactional_id="tx")
    assert decode_transaction_record(encode_key(key), encode_value(value)) == (key, value, 1)
