"""Formatters: every property and every name, tombstones included."""

from __future__ import annotations

import pytest

from kcli.client.completed_fetch import FetchedRecords
from kcli.client.metadata import TopicPartition
from kcli.commands.formatters import make_formatter
from kcli.errors import KcliError, UsageError
from kcli.protocol.record import Record, TimestampType

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


def test_an_unknown_formatter_or_property_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no formatter `xml`"):
        make_formatter("xml", {})
    with pytest.raises(UsageError, match=r"there is no formatter property `print\.keys`"):
        make_formatter("default", {"print.keys": "true"})


def test_a_value_of_another_type_is_an_error() -> None:
    with pytest.raises(KcliError, match="not a value of type int: 1 bytes 76"):
        show(FULL, "default", {"value.deserializer": "int"})
