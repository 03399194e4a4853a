"""`produce --input-format json`: what `consume -o json` prints is the same records again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from kcli.client.fetch.completed_fetch import FetchedRecords
from kcli.commands.consume.formatters import make_formatter
from kcli.commands.produce.json_reader import JsonReader
from kcli.commands.shared.serdes import serializer
from kcli.errors import UsageError
from kcli.protocol import topics
from kcli.protocol.records.record import Record
from tests.conftest import Finished
from tests.support.kcli_broker import KcliBroker

Kcli = Callable[..., Finished]

HARD = [
    b"",
    b"text",
    None,
    b"\xff\x00",
    b'{"base64":"/w=="}',
    "größe \x1b\u2028😀\n\t\\".encode(),
    b"null",
]


def printed(record: Record, partition: int = 0, **properties: str) -> bytes:
    fetched = FetchedRecords(topics.TopicPartition("t", partition), [record], 0)
    return make_formatter("json", properties)(fetched, record)


data = st.none() | st.binary() | st.text().map(str.encode)
headers = st.lists(st.tuples(st.text(max_size=5), data), max_size=4).map(tuple)


@given(data, data, headers, st.integers(-1, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_any_record_comes_back(
    key: bytes | None, value: bytes | None, headers: Any, timestamp: int, partition: int
) -> None:
    line = printed(Record(7, timestamp, key, value, headers), partition)
    assert line.count(b"\n") == 1
    assert [*JsonReader().records([line[:-1]])] == [(key, value, headers, partition, timestamp)]


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("int", b"\x80\0\0\0"),
        ("long", b"\x7f" + b"\xff" * 7),
        ("double", bytes.fromhex("3fb999999999999a")),
        ("double", bytes.fromhex("7ff8000000000000")),
        ("float", bytes.fromhex("3dcccccd")),
        ("boolean", b"\x01"),
        ("uuid", b"00000000-0000-0000-0000-00000000000a"),
    ],
)
def test_values_with_a_deserializer_come_back_by_the_serializer(type: str, data: bytes) -> None:
    line = printed(Record(0, 1, data, data), **{"key.deserializer": type, "value.deserializer": type})
    (record,) = JsonReader(serializer(type), serializer(type)).records([line])
    assert record is not None
    assert record[:2] == (data, data)


WRONG = [
    ('{"key":}', "line 2: not JSON, at character 8: expecting value"),
    ("\ufeff{}", "line 2: not JSON, at character 1: expecting value"),
    ("[1]", "line 2: not an object"),
    ('{"keys":"a"}', "line 2: there is no field `keys`"),
    ('{"key":1}', '`key` is a number or a boolean, not text, null or {"base64": "..."}'),
    ('{"value":["a"]}', '`value` is not text, null or {"base64": "..."}'),
    ('{"value":{"base64":"/w="}}', "the base64 of `value` is damaged"),
    ('{"value":{"base64":"/w==","x":1}}', "`value` is not text"),
    ('{"value":"\\ud800"}', "`value` has half of a surrogate pair"),
    ('{"partition":-1}', "`partition` is not a number from 0 to 2147483647"),
    ('{"partition":"0"}', "`partition` is not a number"),
    ('{"timestamp":1.5}', "`timestamp` is not a number from -1 to 9223372036854775807"),
    ('{"timestamp":' + "9" * 5000 + "}", "`timestamp` is not a number"),
    ('{"headers":{"a":"b"}}', "`headers` is not a list of [name, value]"),
    ('{"headers":[["a"]]}', "`headers[0]` is not a pair of a name and a value"),
    ('{"headers":[["a","b"],[1,"b"]]}', "`headers[1]` is not a pair"),
    ('{"headers":' + "[" * 100_000, "line 2: not a record: too many brackets"),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_a_line_that_is_no_record_says_what_is_wrong_with_it(line: str, message: str) -> None:
    reader = JsonReader()
    with pytest.raises(UsageError) as raised:
        [*reader.records([b"{}", line.encode()])]
    assert message in raised.value.message
    assert raised.value.message.startswith("line 2: ")


def test_bytes_that_are_no_text_are_told_by_their_place() -> None:
    with pytest.raises(UsageError, match=r"^line 1: byte 9 is not UTF-8$"):
        [*JsonReader().records([b'{"key":"\xff"}'])]


def records_of(bootstrap: str, topic: str, count: int) -> list[tuple[object, ...]]:
    """What librdkafka reads of a topic of two partitions."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    found: list[tuple[object, ...]] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        found.append(
            (
                message.partition(),
                message.offset(),
                message.timestamp(),
                message.key(),
                message.value(),
                message.headers(),
            )
        )
    consumer.close()
    return sorted(found, key=lambda each: each[:2])  # type: ignore[arg-type,return-value]


def test_a_topic_is_copied_exactly(
    broker: KcliBroker, live: Kcli, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    source = new_topic(2)
    target = f"{source}-again"
    assert live("topics", "create", target, "--partitions", "2").exit_code == 0
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, value in enumerate(HARD):
        for key in HARD:
            own = [("name", value), ("name", key), ("größe", b"\xff"), ("", b"")]
            producer.produce(
                source,
                value,
                key,
                number % 2,
                timestamp=1_700_000_000_000 + number,
                headers=own if number else None,
            )
    assert producer.flush(30) == 0
    copied = live("consume", source, "--from-beginning", "--until-end", "-o", "json")
    file = tmp_path / "records.jsonl"
    file.write_text(copied.out)
    sent = live("produce", target, str(file), "--input-format", "json", "-o", "json")
    assert (sent.exit_code, json.loads(sent.out)["delivered"]) == (0, len(HARD) ** 2)
    count = len(HARD) ** 2
    assert records_of(broker.bootstrap, target, count) == records_of(broker.bootstrap, source, count)
    again = live("consume", target, "--from-beginning", "--until-end", "-o", "json")
    assert sorted(again.out.replace(target, source).splitlines()) == sorted(copied.out.splitlines())


def test_a_bad_line_ends_the_input_and_what_came_before_is_sent(
    live: Kcli, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    topic = new_topic(1)
    (tmp_path / "a.jsonl").write_text('{"value":"1"}\n')
    (tmp_path / "b.jsonl").write_text('{"value":"2"}\n\n{"value":3}\n{"value":"4"}\n')
    files = (str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))
    sent = live("produce", topic, *files, "--input-format", "json")
    assert sent.exit_code == 2
    assert sent.err.splitlines() == [
        f"error: `{files[1]}`, line 3: `value` is a number or a boolean, not text, null or "
        '{"base64": "..."}',
        "hint: `--value-serializer` says how numbers are written",
    ]
    assert live("consume", topic, "--from-beginning", "--until-end").out == "1\n2\n"


def test_options_override_the_partition_of_a_record(live: Kcli, new_topic: Callable[[int], str]) -> None:
    topic = new_topic(2)
    line = b'{"partition":1,"value":"a"}\n'
    assert live("produce", topic, "--input-format", "json", input=line).exit_code == 0
    assert live("produce", topic, "--input-format", "json", "--partition", "0", input=line).exit_code == 0
    assert live("get-offsets", topic, "-o", "text").out == f"{topic}:0:1\n{topic}:1:1\n"
    refused = live("produce", topic, "--input-format", "json", input=b'{"partition":7,"value":"a"}\n')
    assert refused.exit_code == 1
    assert "1 of 1 records were not delivered" in refused.err
    text = live("produce", topic, "--input-format", "json", "--reader-property", "parse.key=true")
    assert (text.exit_code, text.err.splitlines()[0]) == (
        2,
        "error: reader properties are for lines of text, not for `--input-format json`",
    )
