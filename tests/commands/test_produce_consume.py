"""`produce` and `consume` against a running broker: command lines and their bytes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from kcli.client import admin
from kcli.commands.produce.line_sender import wait_for_topic
from tests.commands.pipes import (
    await_prompt,
    next_line,
    start,
    start_at,
    stop_reading,
    unread_bytes,
)
from tests.conftest import Finished
from tests.support.kcli_broker import KcliBroker
from tests.support.waiting import PATIENCE_SECONDS, eventually

Kcli = Callable[..., Finished]


@pytest.fixture
def topic(new_topic: Callable[[int], str]) -> str:
    """A new topic of three partitions, on the broker that commands use by default."""
    return new_topic(3)


def consumed(kcli: Kcli, topic: str, *arguments: str) -> list[str]:
    """Return the sorted lines that `consume` prints of a whole topic."""
    finished = kcli("consume", topic, "--from-beginning", "--until-end", *arguments)
    assert finished.exit_code == 0, finished.err
    lines = finished.out.splitlines()
    assert finished.err == f"Processed a total of {len(lines)} messages\n"
    return sorted(lines)


def test_lines_come_back(topic: str, kcli: Kcli) -> None:
    sent = kcli("produce", topic, "-o", "json", input=b"one\ntwo\r\n\nlast")
    assert json.loads(sent.out) == {"topic": topic, "delivered": 4, "failed": 0, "bytes": 14, "failures": []}
    assert sent.exit_code == 0
    assert consumed(kcli, topic) == ["", "last", "one", "two"]


def test_the_text_format_prints_nothing_of_what_was_sent(topic: str, kcli: Kcli) -> None:
    assert kcli("produce", topic, input=b"one\n") == Finished(0, "", "")


def test_a_topic_that_the_broker_makes_is_told_of_once(broker: KcliBroker, kcli: Kcli) -> None:
    lines = [kcli("produce", "misspelt", "-b", broker.bootstrap, input=b"one\n") for _ in range(2)]
    assert lines == [
        Finished(0, "", "note: topic `misspelt` is new: the broker created it with 1 partition\n"),
        Finished(0, "", ""),
    ]


def test_an_empty_input_makes_no_topic(broker: KcliBroker, kcli: Kcli) -> None:
    assert kcli("produce", "never-made", "-b", broker.bootstrap, input=b"") == Finished(0, "", "")
    listed = kcli("topics", "list", "-b", broker.bootstrap, "-o", "text")
    assert "never-made" not in listed.out.splitlines()


class LateTopic:
    """A client, a producer and a topic that exists after five seconds."""

    partitions = (0, 1)

    async def partitions_for(self, topic: str) -> LateTopic:
        await trio.sleep(5 - trio.current_time())
        return self


async def test_a_topic_that_the_broker_takes_long_to_make_is_told_of_too(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def listed(client: object) -> list[admin.TopicListing]:
        return [admin.TopicListing("late", bytes(16), False, 2)]

    monkeypatch.setattr(admin, "list_topics", listed)
    late: Any = LateTopic()
    await wait_for_topic(late, late, "late", is_missing=True)
    assert capsys.readouterr().err == "note: topic `late` is new: the broker created it with 2 partitions\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(codec: str, topic: str, kcli: Kcli, tmp_path: Path) -> None:
    lines = [f"line {number} " + "x" * (number % 50) for number in range(2_000)]
    (tmp_path / "a").write_text("\n".join(lines[:700]) + "\n")
    (tmp_path / "b").write_text("\n".join(lines[700:]))
    sent = kcli("produce", topic, str(tmp_path / "a"), str(tmp_path / "b"), "-z", codec)
    assert sent == Finished(0, "", "")
    assert consumed(kcli, topic) == sorted(lines)


@pytest.mark.parametrize("option", ["-z", "--compression-codec"])
def test_compression_without_a_codec_is_gzip(
    option: str, topic: str, broker: KcliBroker, kcli: Kcli, here: Path
) -> None:
    (here / "lines").write_text("one\n")
    # `-` is standard input, not a codec.
    assert kcli("produce", topic, "lines", option, "-", "--partition", "0", input=b"two\n").exit_code == 0
    [log] = broker.node_directory.glob(f"{topic}-0/*.log")
    assert "compresscodec: gzip" in kcli("dump-log", str(log), "-o", "text").out
    assert consumed(kcli, topic) == ["one", "two"]


def test_keys_headers_and_nulls(topic: str, kcli: Kcli) -> None:
    arguments = [
        "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
        "--reader-property", "null.marker=NULL",
    ]  # fmt: skip
    lines = b"h:1,i:NULL\tk\tv\nNULL\tk\tNULL\n"
    assert kcli("produce", "--topic", topic, *arguments, input=lines).exit_code == 0
    printed = [f"print.{column}=true" for column in ("headers", "key")]
    shown = consumed(kcli, topic, *(word for each in printed for word in ("--formatter-property", each)))
    assert shown == ["NO_HEADERS\tk\tnull", "h:1,i:null\tk\tv"]


@pytest.mark.parametrize(
    ("arguments", "partition"),
    [
        ((), 0),
        (("--partitioner", "consistent_random"), 0),
        (("--partitioner", "fnv1a"), 2),
        (("--partition", "1"), 1),
    ],
)
def test_keys_choose_partitions_as_other_clients_do(
    arguments: Sequence[str], partition: int, topic: str, kcli: Kcli
) -> None:
    sent = kcli("produce", topic, "--reader-property", "parse.key=true", *arguments, input=b"abc\tv\n")
    assert sent.exit_code == 0
    [line] = consumed(kcli, topic, "-o", "json")
    assert json.loads(line)["partition"] == partition


def test_serializers_and_deserializers(topic: str, kcli: Kcli) -> None:
    assert kcli("produce", topic, "--value-serializer", "double", input=b"1.5\n-2\n").exit_code == 0
    assert consumed(kcli, topic, "--value-deserializer", "DoubleDeserializer") == ["-2.0", "1.5"]
    failed = kcli("consume", topic, "--from-beginning", "--until-end", "--value-deserializer", "int")
    assert failed.exit_code == 1
    assert "not a value of type int: 8 bytes" in failed.err
    assert failed.err.splitlines()[-1] == "hint: `--skip-message-on-error` skips such records"
    skipped = kcli(
        "consume",
        topic,
        "--from-beginning",
        "--until-end",
        "--value-deserializer",
        "int",
        "--skip-message-on-error",
    )
    assert skipped.exit_code == 0
    assert skipped.err.endswith("Processed a total of 2 messages\n")
    assert "hint: " not in skipped.err


def test_a_line_that_cannot_be_parsed_ends_the_input_and_what_came_before_is_sent(
    topic: str, kcli: Kcli
) -> None:
    keyed = ("--reader-property", "parse.key=true", "-o", "json")
    sent = kcli("produce", topic, *keyed, input=b"k\tv\r\nbad\nk\tw\n")
    assert sent.exit_code == 1
    assert json.loads(sent.err)["error"] == "no key separator found on line 2: bad"
    assert (json.loads(sent.out)["delivered"], json.loads(sent.out)["bytes"]) == (1, len(b"k\tv\r\n"))
    assert consumed(kcli, topic) == ["v"]


def test_lines_in_transactions(topic: str, kcli: Kcli, tmp_path: Path) -> None:
    """The id and the timeout may be properties, as those of a Java client; options override them."""
    config = tmp_path / "client.properties"
    config.write_text(f"transactional.id={topic}\ntransaction.timeout.ms=12345\n")
    produce = ("produce", topic, "--command-config", str(config), "--transaction-records", "2")
    done = kcli(*produce, "--verbose", "-o", "json", input=b"1\n2\n3\n4\n5\n")
    assert (done.exit_code, json.loads(done.out)) == (
        0,
        {
            "topic": topic,
            "delivered": 5,
            "failed": 0,
            "bytes": 10,
            "committed": 3,
            "aborted": 0,
            "failures": [],
        },
    )
    told = [re.sub(r"id \d+, epoch \d+", "id ID, epoch N", line) for line in done.err.splitlines()]
    assert told == [
        f"transaction {number}: producer id ID, epoch N: committed, {records}"
        for number, records in ((1, "2 records"), (2, "2 records"), (3, "1 record"))
    ]
    described = kcli("transactions", "describe", topic, "-o", "json").out
    assert json.loads(described)["transactions"][0]["timeout_ms"] == 12345

    aborted = kcli(*produce, "--transactional-id", f"{topic}-2", "--abort", "-o", "table", input=b"6\n7\n8\n")
    assert aborted.exit_code == 0
    assert aborted.out.split()[:7] == [
        "Bytes",
        "Topic",
        "Delivered",
        "Failed",
        "read",
        "Committed",
        "Aborted",
    ]
    assert aborted.out.split()[-6:] == [topic, "0", "3", "6", "0", "2"]
    read = ("consume", topic, "--from-beginning", "--until-end", "--isolation-level")
    assert sorted(kcli(*read, "read_committed").out.split()) == ["1", "2", "3", "4", "5"]
    assert len(kcli(*read, "read_uncommitted").out.split()) == 8


def test_a_record_that_is_too_large_fails_alone(topic: str, kcli: Kcli) -> None:
    lines = b"small\n" + b"x" * 2_000_000 + b"\nsmall\n"
    sent = kcli("produce", topic, input=lines)
    assert sent.exit_code == 1
    assert sent.err.startswith("error: 1 of 3 records were not delivered: the record takes 2000097 bytes")
    assert consumed(kcli, topic) == ["small", "small"]


def test_a_record_above_the_limit_of_its_topic_says_what_raises_it(topic: str, kcli: Kcli) -> None:
    assert kcli("topics", "alter", topic, "--config", "max.message.bytes=100").exit_code == 0
    sent = kcli("produce", topic, input=b"x" * 200 + b"\n")
    assert sent.exit_code == 1
    assert sent.err.endswith(
        "hint: `kcli configs alter TOPIC --add max.message.bytes=N` raises the topic's limit\n"
    )


def test_partitions_offsets_and_counts(topic: str, kcli: Kcli) -> None:
    kcli("produce", topic, "--partition", "1", input=b"".join(b"%d\n" % number for number in range(20)))
    assert (
        kcli("consume", topic, "--partition", "1", "--offset", "17", "--max-messages", "2").out == "17\n18\n"
    )
    assert kcli("consume", topic, "--partition", "1", "--offset", "earliest", "--until-end").out.startswith(
        "0\n1\n"
    )
    assert kcli("consume", topic, "--partition", "0,2", "--from-beginning", "--until-end").out == ""
    silent = kcli("consume", topic, "--partition", "1", "--timeout-ms", "200")
    assert silent == Finished(0, "", "Processed a total of 0 messages\n")


def test_all_partitions_are_read_that_a_repeated_option_names(topic: str, kcli: Kcli) -> None:
    for partition in ("0", "1", "2"):
        kcli("produce", topic, "--partition", partition, "--partition", partition, input=partition.encode())
    chosen = ("--partition", "0", "--partition", "2", "--from-beginning", "--until-end")
    assert sorted(kcli("consume", topic, *chosen).out.split()) == ["0", "2"]


def test_times(topic: str, kcli: Kcli) -> None:
    kcli("produce", topic, input=b"early\n")
    [first] = consumed(kcli, topic, "-o", "json")
    kcli("produce", topic, input=b"late\n")
    between = str(json.loads(first)["timestamp"] + 1)
    assert kcli("consume", topic, "--from-time", between, "--until-end").out == "late\n"
    assert kcli("consume", topic, "--from-beginning", "--to-time", between).out == "early\n"
    assert kcli("consume", topic, "--from-time", "2000-01-01", "--to-time", "2001-01-01T00:00:00Z").out == ""


def test_several_topics_by_pattern(topic: str, kcli: Kcli) -> None:
    other = f"{topic}-2"
    kcli("topics", "create", other)
    kcli("produce", topic, input=b"a\n")
    kcli("produce", other, input=b"b\n")
    finished = kcli("consume", "--include", f"{topic}.*", "--from-beginning", "--until-end")
    assert sorted(finished.out.split()) == ["a", "b"]


def test_names_of_before_kip_1147_still_work_with_a_warning(topic: str, kcli: Kcli) -> None:
    sent = kcli("produce", topic, "--producer-property", "linger.ms=0", input=b"a\n")
    assert sent == Finished(0, "", "warning: `--producer-property` is an old name of `--command-property`\n")
    both = kcli("produce", topic, "--producer-property", "acks=1", "-X", "acks=1", input=b"a\n")
    assert both == Finished(
        2, "", "error: `--producer-property` and `--command-property` exclude each other\n"
    )


def test_the_noop_formatter_counts(topic: str, kcli: Kcli) -> None:
    kcli("produce", topic, input=b"a\nb\n")
    finished = kcli("consume", topic, "--from-beginning", "--until-end", "--formatter", "noop")
    assert finished == Finished(0, "", "Processed a total of 2 messages\n")


def test_ctrl_c_while_consuming(topic: str, kcli: Kcli) -> None:
    kcli("produce", topic, input=b"a\n")
    process = start("consume", topic, "--from-beginning")
    assert next_line(process) == b"a\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (130, b"", b"Processed a total of 1 messages\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_producing_delivers_what_was_read(
    number: signal.Signals, topic: str, kcli: Kcli
) -> None:
    process = start("produce", topic, "-X", "linger.ms=60000", stdin=subprocess.PIPE)
    assert process.stdin is not None
    os.write(process.stdin.fileno(), b"first\nsecond\nunfinished")
    pipe = process.stdin.fileno()
    eventually(lambda: not unread_bytes(pipe), "all is read")
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE_SECONDS) == 130
    assert process.communicate() == (b"", b"error: interrupted: 2 records were delivered\n")
    assert consumed(kcli, topic) == ["first", "second"]


@pytest.mark.usefixtures("hang_ups")
def test_what_was_typed_is_delivered_when_the_terminal_closes(topic: str, kcli: Kcli) -> None:
    ours, theirs = os.openpty()
    process = start_at(os.ttyname(theirs), "produce", topic, "-X", "linger.ms=60000")
    for typed in (b"first\n", b"second\n", b""):
        await_prompt(ours)
        os.write(ours, typed)
    os.close(theirs)
    os.close(ours)
    process.wait(timeout=PATIENCE_SECONDS)
    assert consumed(kcli, topic) == ["first", "second"]


def test_a_reader_that_goes_away_ends_consuming_quietly(topic: str, kcli: Kcli) -> None:
    kcli("produce", topic, input=b"".join(b"%08d\n" % number for number in range(50_000)))
    process = start("consume", topic, "--from-beginning")
    assert process.stdout is not None
    process.stdout.readline()
    stop_reading(process)


def test_a_reader_that_goes_away_ends_the_wait_for_more(topic: str, kcli: Kcli) -> None:
    kcli("produce", topic, input=b"a\nb\n")
    process = start("consume", topic, "--from-beginning")
    assert {next_line(process), next_line(process)} == {b"a\n", b"b\n"}
    stop_reading(process)
