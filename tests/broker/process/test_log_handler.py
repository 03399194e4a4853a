"""The broker's log: nothing that clients send forges, garbles or fills it."""

from __future__ import annotations

import io
import logging
import re
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.process.log_handler import LINES_PER_SECOND, MOST_CHARACTERS, LogHandler
from kcli.escapes import is_safe

if TYPE_CHECKING:
    from collections.abc import Iterator

FLOODING = "kcli.broker.network.connection"
CLOSED = "closed the connection from %s: %s"


class Log:
    """A handler on a text of its own and a logger that nobody else has."""

    def __init__(self, name: str = FLOODING) -> None:
        self.now = 0.0
        self.text = io.StringIO()
        self.handler = LogHandler(self.text, clock=lambda: self.now)
        self.logger = logging.Logger(name)
        self.logger.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        """The lines without their times."""
        return [line[24:] for line in self.text.getvalue().splitlines()]


@pytest.fixture
def log() -> Iterator[Log]:
    return Log()


@given(st.text(), st.text(st.characters(max_codepoint=0x200), min_size=1))
def test_a_message_is_one_line_without_control_characters(address: str, reason: str) -> None:
    log = Log()
    log.logger.warning(CLOSED, address, reason)
    (line,) = log.text.getvalue().removesuffix("\n").split("\n")
    assert is_safe(line)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING closed the connection from ", line)


def test_what_is_escaped_can_be_read(log: Log) -> None:
    log.logger.warning(CLOSED, "::1", "client `\0\x1b[2J\u202eé\r\n2026-01-01 00:00:00,000 ERROR a`")
    shown = r"client `\x00\x1b[2J\u202eé\r\n2026-01-01 00:00:00,000 ERROR a`"
    assert log.lines == [f"WARNING closed the connection from ::1: {shown}"]


def test_a_traceback_keeps_its_lines_but_begins_none_like_the_log(log: Log) -> None:
    try:
        raise ValueError("a name\0\n2026-01-01 00:00:00,000 ERROR forged")
    except ValueError:
        log.logger.exception("failed")
    first, *others = log.text.getvalue().splitlines()
    assert first.endswith("ERROR failed")
    assert others[0] == "Traceback (most recent call last):"
    assert others[-2:] == [r"  ValueError: a name\x00", "  2026-01-01 00:00:00,000 ERROR forged"]
    assert all(line.startswith("  ") for line in others[1:])


def test_the_end_of_a_very_long_message_is_left_out(log: Log) -> None:
    log.logger.warning("%s", "x" * (MOST_CHARACTERS + 32_000))
    assert log.lines == ["WARNING " + "x" * MOST_CHARACTERS + "… (32,000 more characters)"]


def test_of_a_flood_ten_lines_a_second_are_written_and_the_others_counted(log: Log) -> None:
    for number in range(30_000):
        log.now = number / 10_000
        log.logger.warning(CLOSED, "::1", number)
    log.now = 4.0
    log.handler.tell_rest()
    for second in range(3):
        begin = second * (LINES_PER_SECOND + 1)
        first = second * 10_000
        assert log.lines[begin : begin + LINES_PER_SECOND] == [
            f"WARNING {CLOSED % ('::1', first + number)}" for number in range(LINES_PER_SECOND)
        ]
        seconds = 2 if second == 2 else 1
        assert log.lines[begin + LINES_PER_SECOND] == (
            f"WARNING … and 9,990 more like it in the last {seconds} s: {CLOSED % ('::1', first + 9_999)}"
        )
    assert len(log.lines) == 3 * (LINES_PER_SECOND + 1)


def test_each_kind_has_its_own_ten_lines_and_few_lines_are_not_counted(log: Log) -> None:
    for number in range(LINES_PER_SECOND):
        log.logger.warning(CLOSED, "::1", number)
        log.logger.error("%s from %s failed", number, "::1")
    log.now = 5.0
    log.handler.tell_rest()
    assert len(log.lines) == 2 * LINES_PER_SECOND


@pytest.mark.parametrize(
    ("name", "level"), [(FLOODING, logging.DEBUG), ("kcli.broker.replication.partition", logging.INFO)]
)
def test_what_the_broker_itself_has_to_say_is_never_left_out(name: str, level: int) -> None:
    log = Log(name)
    for number in range(100):
        log.logger.log(level, "line %d", number)
    assert len(log.lines) == 100


async def test_the_count_comes_though_nothing_more_is_logged(autojump_clock: trio.testing.MockClock) -> None:
    log = Log()
    log.handler._clock = trio.current_time
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.handler.tell_counts)
        for number in range(1244):
            log.logger.warning(CLOSED, "::1", number)
        await trio.sleep(2.5)
        assert len(log.lines) == LINES_PER_SECOND + 1
        assert log.lines[-1].startswith("WARNING … and 1,234 more like it in the last 1 s: closed the ")
        nursery.cancel_scope.cancel()
