"""Formatters: every property and every name, tombstones included."""

from __future__ import annotations

import pytest

from kcli.client.fetch.completed_fetch import FetchedRecords
from kcli.commands.consume.formatters import make_formatter
from kcli.errors import KcliError, UsageError
from kcli.protocol.internal.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    encode_key,
    encode_value,
)
from kcli.protocol.records.record import Record, TimestampType
from kcli.protocol.topics import TopicPartition

FULL = Record(7, 1_700_000_000_000, b"k", b"v", (("a", b"1"), ("b", None)))
TOMBSTONE = Record(8, 5, b"k", None)
BINARY = Record(9, 5, None, b"\xff\x00", (("\N{HONEYBEE}", b"\xff"),))
NUMBER = Record(10, 5, b"\x00\x00\x00\x2a", b"\x7f\xc0\x00\x00")
COLUMNS = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
ALL = {f"print.{name}": "true" for name in COLUMNS}


def show(
    record: Record, name: str, properties: dict[str, str], kind: TimestampType = TimestampType.CREATE_TIME
) -> bytes:
    return make_formatter(name, properties)(FetchedRecords(TopicPartition("t", 3), [record], kind), record)


@pytest.mark.parametrize(
    ("record", "properties", "expected"),
    [
        (FULL, {}, b"v\n"),
        (TOMBSTONE, {}, b"null\n"),
        (TOMBSTONE, {"null.literal": "-", "print.key": "true"}, b"k\t-\n"),
        (FULL, {"print.key": "true"}, b"k\tv\n"),
        (FULL, {"print.key": "true", "print.value": "false"}, b"k\n"),
        (FULL, {"print.value": "false"}, b""),
        (FULL, {"print.key": "true", "key.separator": " = ", "line.separator": ";"}, b"k = v;"),
        (FULL, {"print.headers": "true", "headers.separator": ";"}, b"a:1;b:null\tv\n"),
        (TOMBSTONE, {"print.headers": "true"}, b"NO_HEADERS\tnull\n"),
        (
            FULL,
            ALL,
            b"CreateTime:1700000000000\tPartition:3\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\t"
            b"a:1,b:null\tk\tv\n",
        ),
        (NUMBER, {"print.key": "TRUE ", "key.deserializer": "int"}, b"42\t\x7f\xc0\x00\x00\n"),
        (NUMBER, {"value.deserializer": "float"}, b"NaN\n"),
        (TOMBSTONE, {"value.deserializer": "float"}, b"null\n"),
        (BINARY, {"print.headers": "true"}, "\N{HONEYBEE}:".encode() + b"\xff\t\xff\x00\n"),
    ],
)
def test_the_default_formatter(record: Record, properties: dict[str, str], expected: bytes) -> None:
    assert show(record, "default", properties) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (TimestampType.CREATE_TIME, b"CreateTime:5\tnull\n"),
        (TimestampType.LOG_APPEND_TIME, b"LogAppendTime:5\tnull\n"),
        (TimestampType.NO_TIMESTAMP_TYPE, b"NO_TIMESTAMP\tnull\n"),
    ],
)
def test_the_kind_of_timestamp_is_named(kind: TimestampType, expected: bytes) -> None:
    assert show(TOMBSTONE, "default", {"print.timestamp": "true"}, kind) == expected


@pytest.mark.parametrize(
    ("record", "properties", "expected"),
    [
        (
            FULL,
            {},
            b'{"topic":"t","partition":3,"offset":7,"timestamp":1700000000000,"timestamp_type":"CreateTime",'
            b'"headers":[["a","1"],["b",null]],"key":"k","value":"v"}\n',
        ),
        (
            BINARY,
            {},
            '{"topic":"t","partition":3,"offset":9,"timestamp":5,"timestamp_type":"CreateTime",'
            '"headers":[["\N{HONEYBEE}",{"base64":"/w=="}]],"key":null,"value":{"base64":"/wA="}}\n'.encode(),
        ),
        (
            NUMBER,
            {"key.deserializer": "int", "value.deserializer": "float"},
            b'{"topic":"t","partition":3,"offset":10,"timestamp":5,"timestamp_type":"CreateTime",'
            b'"headers":[],"key":42,"value":"NaN"}\n',
        ),
    ],
)
def test_the_json_formatter(record: Record, properties: dict[str, str], expected: bytes) -> None:
    assert show(record, "json", properties) == expected


def test_json_without_a_timestamp() -> None:
    line = show(TOMBSTONE, "json", {}, TimestampType.NO_TIMESTAMP_TYPE)
    assert b'"timestamp":null,"timestamp_type":null' in line


def test_the_logging_formatter_also_logs(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(FULL, "logging", {}) == b"v\n"
    assert show(TOMBSTONE, "org.apache.kafka.tools.consumer.LoggingMessageFormatter", {}) == b"null\n"
    first, second = capsys.readouterr().err.splitlines()
    assert first == "CreateTime:1700000000000, key:k, value:v"
    assert second == "CreateTime:5, key:k, value:null"


def test_the_noop_formatter_prints_nothing() -> None:
    assert show(FULL, "kafka.tools.NoOpMessageFormatter", {}) == b""


def test_the_checksum_formatter() -> None:
    # CRC-32C of "123456789" is the check value of its published parameters.
    record = Record(0, 0, b"1234", b"56789")
    assert show(record, "checksum", {}) == b"t:checksum:%d\n" % 0xE3069283
    assert show(record, "checksum", {"print.topic": "false"}) == b"checksum:%d\n" % 0xE3069283


COMMIT = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m\u00e9", commit_timestamp=5)
OFFSET_KEY = encode_key(OffsetCommitKey(group="g", topic="t", partition=1))
GROUP_KEY = encode_key(GroupMetadataKey(group="g"))
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader="m1",
    current_state_timestamp=9,
    members=[
        MemberMetadata(
            member_id="m1",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=300000,
            session_timeout=45000,
            subscription=b"\x00\x01",
            assignment=b"",
        )
    ],
)
TRANSACTION_KEY = encode_key(TransactionLogKey(transactional_id="x"))
TRANSACTION = TransactionLogValue(
    producer_id=4,
    producer_epoch=0,
    transaction_timeout_ms=60000,
    transaction_status=1,
    transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 2])],
    transaction_last_update_timestamp_ms=8,
    transaction_start_timestamp_ms=7,
)
OFFSET_JSON = '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":1}},"value":'
GROUP_JSON = '{"key":{"type":2,"data":{"group":"g"}},"value":'


@pytest.mark.parametrize(
    ("name", "key", "value", "expected"),
    [
        (
            "offsets",
            OFFSET_KEY,
            encode_value(COMMIT, 3),
            OFFSET_JSON
            + '{"version":3,"data":{"offset":7,"leaderEpoch":2,"metadata":"m\u00e9","commitTimestamp":5}}}\n',
        ),
        (
            "offsets",
            OFFSET_KEY,
            encode_value(COMMIT, 1),
            OFFSET_JSON + '{"version":1,"data":{"offset":7,"metadata":"m\u00e9","commitTimestamp":5,'
            '"expireTimestamp":-1}}}\n',
        ),
        ("offsets", OFFSET_KEY, None, OFFSET_JSON + "null}\n"),
        # Keys of type 0 were written before 0.9 and mean the same.
        (
            "offsets",
            b"\x00\x00" + OFFSET_KEY[2:],
            None,
            '{"key":{"type":0,"data":{"group":"g","topic":"t","partition":1}},"value":null}\n',
        ),
        ("offsets", GROUP_KEY, None, ""),
        ("offsets", TRANSACTION_KEY[:1] + b"\x63", None, ""),
        ("offsets", None, None, ""),
        (
            "group-metadata",
            GROUP_KEY,
            encode_value(GROUP, 3),
            GROUP_JSON + '{"version":3,"data":{"protocolType":"consumer","generation":3,"protocol":"range",'
            '"leader":"m1","currentStateTimestamp":9,"members":[{"memberId":"m1","groupInstanceId":null,'
            '"clientId":"c","clientHost":"/127.0.0.1","rebalanceTimeout":300000,"sessionTimeout":45000,'
            '"subscription":"AAE=","assignment":""}]}}}\n',
        ),
        ("group-metadata", GROUP_KEY, None, GROUP_JSON + "null}\n"),
        ("group-metadata", OFFSET_KEY, encode_value(COMMIT, 3), ""),
        (
            "transaction-log",
            TRANSACTION_KEY,
            encode_value(TRANSACTION, 0),
            '{"key":{"type":0,"data":{"transactionalId":"x"}},"value":{"version":0,"data":{"producerId":4,'
            '"producerEpoch":0,"transactionTimeoutMs":60000,"transactionStatus":1,'
            '"transactionPartitions":[{"topic":"t","partitionIds":[0,2]}],'
            '"transactionLastUpdateTimestampMs":8,"transactionStartTimestampMs":7}}}\n',
        ),
        ("transaction-log", b"\x00\x01", None, ""),
    ],
)
def test_the_formatters_of_coordinators(
    name: str, key: bytes | None, value: bytes | None, expected: str
) -> None:
    assert show(Record(0, 5, key, value), name, {}) == expected.encode()


@pytest.mark.parametrize("value", [b"", b"\x00\x63", encode_value(COMMIT, 3)[:-1]])
def test_damage_in_a_coordinators_record_is_an_error(value: bytes) -> None:
    with pytest.raises(KcliError, match="not a coordinator's record"):
        show(Record(0, 5, OFFSET_KEY, value), "offsets", {})


@pytest.mark.parametrize("name", ["offsets", "group-metadata", "transaction-log"])
def test_foreign_records_are_the_same_to_all_formatters_of_coordinators(name: str) -> None:
    """As in Kafka's `CoordinatorRecordMessageFormatter`, which reads a record before it looks at its kind."""
    assert show(Record(0, 5, None, b"v"), name, {}) == b""
    assert show(Record(0, 5, b"user-7", b"v"), name, {}) == b""
    with pytest.raises(KcliError, match=r"record: Could not read version from key's buffer$"):
        show(Record(0, 5, b"x", b"v"), name, {})
    cut = (
        "not a coordinator's record: Could not read record with version 0 from key's buffer due to: "
        "Error reading byte array of 1 byte(s): only 0 byte(s) available"
    )
    with pytest.raises(KcliError) as raised:
        show(Record(0, 5, b"\0\0\0\1", b"v"), name, {})
    assert raised.value.message == cut


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("org.apache.kafka.tools.consumer.OffsetsMessageFormatter", OFFSET_KEY),
        ("kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter", OFFSET_KEY),
        ("org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter", GROUP_KEY),
        ("kafka.coordinator.GroupMetadataManager$GroupMetadataMessageFormatter", GROUP_KEY),
        ("org.apache.kafka.tools.consumer.TransactionLogMessageFormatter", TRANSACTION_KEY),
        ("kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter", TRANSACTION_KEY),
    ],
)
def test_formatters_of_coordinators_have_the_names_of_their_classes(name: str, key: bytes) -> None:
    assert show(Record(0, 5, key, None), name, {}).endswith(b'"value":null}\n')


def test_an_unknown_formatter_or_property_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no formatter `xml`"):
        make_formatter("xml", {})
    with pytest.raises(UsageError, match=r"there is no formatter property `print\.keys`"):
        make_formatter("default", {"print.keys": "true"})


@pytest.mark.parametrize(
    ("formatter", "name"),
    [
        *(("default", f"print.{column}") for column in COLUMNS),
        ("json", "print.key"),
        ("logging", "print.value"),
        ("checksum", "print.topic"),
    ],
)
def test_what_is_neither_true_nor_false_is_refused(formatter: str, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        make_formatter(formatter, {name: "ja"})
    assert refused.value.message == f"invalid value for `{name}`: ja"
    assert refused.value.hint == "use true or false"


def test_a_value_of_another_type_is_an_error() -> None:
    with pytest.raises(KcliError, match="not a value of type int: 1 bytes 76"):
        show(FULL, "default", {"value.deserializer": "int"})
