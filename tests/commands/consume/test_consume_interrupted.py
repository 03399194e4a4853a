"""`consume` interrupted at a pipe: exactly the lines in the pipe count, and are committed."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.commands.pipes import start, wait_until_full
from tests.conftest import Finished
from tests.support.waiting import PATIENCE_SECONDS

Kcli = Callable[..., Finished]

LONG = 100_000
"""More bytes than a pipe holds."""


@pytest.fixture
def topic(new_topic: Callable[[int], str]) -> str:
    """A new topic of two partitions, on the broker that commands use by default."""
    return new_topic(2)


def send(kcli: Kcli, topic: str, lines: list[str]) -> None:
    """Produce lines into partition 0."""
    data = "".join(f"{line}\n" for line in lines).encode()
    assert kcli("produce", topic, "--partition", "0", input=data) == Finished(0, "", "")


def rest(kcli: Kcli, topic: str) -> list[str]:
    """Return the records that the next member of the group reads."""
    finished = kcli("consume", topic, "--group", topic, "--from-beginning", "--until-end")
    assert finished.exit_code == 0, finished.err
    return finished.out.splitlines()


def counted(number: int) -> bytes:
    """Return the final note about so many records."""
    return b"Processed a total of %d messages\n" % number


@pytest.mark.parametrize("in_group", [True, False], ids=["in a group", "on its own"])
@pytest.mark.parametrize("width", [99, 1_000, 4_095])
def test_a_stalled_reader_finds_whole_lines_and_as_many_as_were_counted(
    width: int, in_group: bool, topic: str, kcli: Kcli
) -> None:
    lines = [f"{number:0{width}d}" for number in range(2_000)]
    send(kcli, topic, lines)
    process = start("consume", topic, "--from-beginning", *(["--group", topic] if in_group else []))
    assert process.stdout is not None
    wait_until_full(process.stdout.fileno())
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_SECONDS) == 130
    out, err = process.communicate()
    count, torn_bytes = divmod(len(out), width + 1)
    assert (0 < count < 2_000, torn_bytes, err) == (True, 0, counted(count))
    assert out.decode().splitlines() == lines[:count]
    if in_group:
        assert rest(kcli, topic) == lines[count:]


def test_a_long_record_that_is_begun_is_finished_for_a_reader_that_reads(topic: str, kcli: Kcli) -> None:
    lines = [f"{number:0{LONG}d}" for number in range(20)]
    send(kcli, topic, lines)
    process = start("consume", topic, "--group", topic, "--from-beginning")
    assert process.stdout is not None
    wait_until_full(process.stdout.fileno())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    count, torn_bytes = divmod(len(out), LONG + 1)
    assert (process.returncode, torn_bytes, err) == (130, 0, counted(count))
    assert rest(kcli, topic) == lines[count:]


def test_a_long_record_that_nobody_reads_to_its_end_is_told_of_and_not_committed(
    topic: str, kcli: Kcli
) -> None:
    lines = ["short", *(f"{number:0{LONG}d}" for number in range(2))]
    send(kcli, topic, lines)
    process = start("consume", topic, "--group", topic, "--from-beginning")
    assert process.stdout is not None
    wait_until_full(process.stdout.fileno())
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_SECONDS) == 130
    out, err = process.communicate()
    assert 0 < len(out) < LONG
    assert err.decode().splitlines() == [
        "warning: the output ends within a record, which does not count: the reader did not take the rest",
        "Processed a total of 1 messages",
    ]
    assert rest(kcli, topic) == lines[1:]
