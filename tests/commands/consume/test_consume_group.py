"""`consume` as a member of a group: it commits exactly what it has printed, shares, and leaves."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.pipes import next_line, start, stop_reading
from tests.conftest import Finished
from tests.support.kcli_broker import KcliBroker
from tests.support.waiting import PATIENCE_SECONDS

Kcli = Callable[..., Finished]


@pytest.fixture
def topic(new_topic: Callable[[int], str]) -> str:
    """A new topic of two partitions, on the broker that commands use by default."""
    return new_topic(2)


def send(kcli: Kcli, topic: str, *lines: str) -> None:
    """Produce lines into partition 0."""
    data = "".join(f"{line}\n" for line in lines).encode()
    assert kcli("produce", topic, "--partition", "0", input=data) == Finished(0, "", "")


def rest(kcli: Kcli, topic: str, *arguments: str) -> list[str]:
    """Return the records that the next member of the group reads."""
    finished = kcli("consume", topic, "--group", topic, "--from-beginning", "--until-end", *arguments)
    assert finished.exit_code == 0, finished.err
    return finished.out.splitlines()


def test_a_group_goes_on_behind_what_was_printed(topic: str, kcli: Kcli) -> None:
    send(kcli, topic, *map(str, range(20)))
    arguments = ("consume", topic, "--group", topic, "--from-beginning")
    first = kcli(*arguments, "--max-messages", "7")
    assert first == Finished(0, "".join(f"{n}\n" for n in range(7)), "Processed a total of 7 messages\n")
    assert kcli(*arguments, "--max-messages", "1").out == "7\n"
    assert rest(kcli, topic) == [str(n) for n in range(8, 20)]
    assert rest(kcli, topic) == []


def test_a_member_of_the_consumer_protocol_does_as_a_classic_one(topic: str, kcli: Kcli) -> None:
    modern = ("-X", "group.protocol=consumer")
    send(kcli, topic, *map(str, range(20)))
    arguments = ("consume", topic, "--group", topic, "--from-beginning", *modern)
    first = kcli(*arguments, "--max-messages", "7")
    assert first == Finished(0, "".join(f"{n}\n" for n in range(7)), "Processed a total of 7 messages\n")
    assert rest(kcli, topic, *modern) == [str(n) for n in range(7, 20)]
    process = start(*arguments)
    assert process.stdout is not None
    send(kcli, topic, "a", "b")
    assert [process.stdout.readline() for _ in range(2)] == [b"a\n", b"b\n"]
    described = kcli("consumer-groups", "describe", topic, "--state", "-o", "json")
    assert json.loads(described.out)["groups"][0]["state"] == "Stable"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (130, b"", b"Processed a total of 2 messages\n")
    # A classic member continues there.
    send(kcli, topic, "c")
    assert rest(kcli, topic) == ["c"]


def test_the_beginning_counts_only_without_a_committed_offset(topic: str, kcli: Kcli) -> None:
    send(kcli, topic, "before")
    ended = kcli("consume", topic, "--group", topic, "--until-end")
    assert ended == Finished(0, "", "Processed a total of 0 messages\n")
    send(kcli, topic, "after")
    assert rest(kcli, topic) == ["after"]


def test_a_group_may_be_named_by_its_property_and_may_not_commit(topic: str, kcli: Kcli) -> None:
    send(kcli, topic, "a")
    arguments = ("consume", topic, "-X", f"group.id={topic}", "--from-beginning", "--until-end")
    for _ in range(2):
        assert kcli(*arguments, "-X", "enable.auto.commit=false").out == "a\n"
    assert kcli(*arguments).out == "a\n"
    assert kcli(*arguments).out == ""
    # Named partitions are read without a group.
    assert kcli(*arguments, "--partition", "0").out == "a\n"


def test_a_record_that_cannot_be_printed_is_read_again(topic: str, kcli: Kcli) -> None:
    send(kcli, topic, "1234", "5678", "bad", "9012")
    arguments = ("consume", topic, "--group", topic, "--from-beginning", "--value-deserializer", "int")
    failed = kcli(*arguments, "--until-end")
    assert failed.exit_code == 1
    assert failed.out == "825373492\n892745528\n"
    assert f"record {topic}-0@2: not a value of type int" in failed.err
    skipped = kcli(*arguments, "--until-end", "--skip-message-on-error")
    assert (skipped.exit_code, skipped.out) == (0, "959459634\n")
    assert rest(kcli, topic) == []


def test_records_behind_the_end_are_left_for_the_next(topic: str, kcli: Kcli) -> None:
    send(kcli, topic, "old")
    listed = kcli("consume", topic, "--from-beginning", "--until-end", "-o", "json")
    stamp = json.loads(listed.out)["timestamp"]
    assert rest(kcli, topic, "--to-time", str(stamp)) == []
    assert rest(kcli, topic, "--to-time", str(stamp + 1)) == ["old"]


def test_members_share_the_partitions(topic: str, kcli: Kcli) -> None:
    often = ("-X", "heartbeat.interval.ms=50")
    members = [
        # From the beginning: what is produced once they are assigned may come before they know the end.
        start("consume", topic, "--group", topic, "--from-beginning", "--verbose", *often)
        for _ in range(2)
    ]
    try:
        for member in members:
            assert member.stderr is not None
            for line in iter(member.stderr.readline, b""):
                if line in (f"assigned: {topic}-0\n".encode(), f"assigned: {topic}-1\n".encode()):
                    break
            else:
                pytest.fail("the partitions are not shared")
        for partition in (0, 1):
            kcli("produce", topic, "--partition", str(partition), input=b"x\n")
        for member in members:
            assert next_line(member) == b"x\n"
    finally:
        for member in members:
            member.send_signal(signal.SIGINT)
        results = [member.communicate(timeout=PATIENCE_SECONDS) for member in members]
    assert [member.returncode for member in members] == [130, 130]
    for out, err in results:
        assert out == b""
        assert b"Processed a total of 1 messages\n" in err
    assert rest(kcli, topic) == []


@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_commits_what_was_printed(number: signal.Signals, topic: str, kcli: Kcli) -> None:
    send(kcli, topic, "a", "b")
    process = start("consume", topic, "--group", topic, "--from-beginning")
    assert [next_line(process) for _ in range(2)] == [b"a\n", b"b\n"]
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (130, b"", b"Processed a total of 2 messages\n")
    described = kcli("consumer-groups", "describe", topic, "--state", "-o", "json")
    assert "Empty" in described.out
    send(kcli, topic, "c")
    assert rest(kcli, topic) == ["c"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_interrupt_ends_soon_without_a_coordinator(protocol: str, tmp_path: Path, kcli: Kcli) -> None:
    broker = KcliBroker(tmp_path)
    broker.start()
    try:
        kcli("topics", "create", "t", "-b", broker.bootstrap)
        kcli("produce", "t", "-b", broker.bootstrap, input=b"a\n")
        # No automatic commit may come before the broker is gone.
        seldom = ("-X", "auto.commit.interval.ms=3600000")
        group = ("--group", "g", "-X", f"group.protocol={protocol}", *seldom, "-b", broker.bootstrap)
        process = start("consume", "t", *group, "--from-beginning")
        assert next_line(process) == b"a\n"
    finally:
        broker.kill()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines() == [
        "warning: the coordinator did not answer in time: what was read last may be read again",
        "Processed a total of 1 messages",
    ]


def test_a_reader_that_goes_away_leaves_the_rest_to_others(topic: str, kcli: Kcli) -> None:
    lines = [f"{number:099d}" for number in range(20_000)]
    send(kcli, topic, *lines)
    process = start("consume", topic, "--group", topic, "--from-beginning")
    assert process.stdout is not None
    process.stdout.readline()
    stop_reading(process)
    left = rest(kcli, topic)
    assert 0 < len(left) < 20_000
    assert left == lines[-len(left) :]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_reader_that_goes_away_ends_the_wait_for_more_as_an_interrupt_does(
    protocol: str, topic: str, kcli: Kcli
) -> None:
    send(kcli, topic, "a", "b")
    # No automatic commit may come before the reader goes.
    seldom = ("-X", "auto.commit.interval.ms=3600000", "-X", f"group.protocol={protocol}")
    process = start("consume", topic, "--group", topic, "--from-beginning", *seldom)
    assert [next_line(process) for _ in range(2)] == [b"a\n", b"b\n"]
    stop_reading(process)
    described = kcli("consumer-groups", "describe", topic, "--state", "-o", "json")
    assert json.loads(described.out)["groups"][0]["state"] == "Empty"
    send(kcli, topic, "c")
    assert rest(kcli, topic) == ["c"]


def test_a_pattern_picks_up_new_topics(topic: str, kcli: Kcli) -> None:
    age = ("-X", "metadata.max.age.ms=200")
    process = start("consume", "--include", f"{topic}.*", "--group", topic, "--from-beginning", *age)
    for name in (topic, f"{topic}-later"):
        assert kcli("topics", "create", name, "--if-not-exists").exit_code == 0
        assert kcli("produce", name, input=name.encode() + b"\n").exit_code == 0
        assert next_line(process) == name.encode() + b"\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("choice", ["topic", "pattern"])
def test_without_a_group_new_partitions_are_picked_up_too(choice: str, topic: str, kcli: Kcli) -> None:
    chosen = [topic] if choice == "topic" else ["--include", f"{topic}.*"]
    process = start("consume", *chosen, "-X", "metadata.max.age.ms=200", "--from-beginning")
    send(kcli, topic, "one")
    assert next_line(process) == b"one\n"
    assert kcli("topics", "alter", topic, "--partitions", "3").exit_code == 0
    assert kcli("produce", topic, "--partition", "2", input=b"two\n").exit_code == 0
    assert next_line(process) == b"two\n"
    if choice == "pattern":
        kcli("topics", "create", f"{topic}-later")
        kcli("produce", f"{topic}-later", input=b"three\n")
        assert next_line(process) == b"three\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_SECONDS)
