"""Sending lines: counts, notes, and the records that an interrupt leaves undelivered."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
import trio

from kcli.client.config import ProducerConfig
from kcli.commands.produce.line_reader import LineReader, ReaderFormat
from kcli.commands.produce.line_sender import Produced, Target, send_inputs
from kcli.errors import Interrupted
from kcli.protocol.messages.produce import ProduceRequest
from tests.client.fake_brokers import fake_cluster
from tests.client.producer.sending import TOPICS, produced

TOO_FEW = produced(19, error_message="too few\nreplicas")
REFUSED = produced(87, error_message="bad record")


class Lines:
    """An input with one chunk, and an end or a wait for more."""

    is_terminal = False
    size = None

    def __init__(self, chunk: bytes, *, ends: bool) -> None:
        self.chunks = [chunk, b""] if ends else [chunk]

    async def read(self) -> bytes:
        """Return the next chunk."""
        if not self.chunks:
            await trio.sleep_forever()
        return self.chunks.pop(0)

    def close(self) -> None:
        """Do nothing."""


def interrupt(answer: Any = None) -> Callable[[int, Any, int], Any]:
    """Return an answer at which the user presses Ctrl-C."""

    def press(node_id: int, request: Any, version: int) -> Any:
        signal.raise_signal(signal.SIGINT)
        return answer

    return press


async def send(chunk: bytes, *answers: Any, ends: bool = False, sync: bool = False) -> Produced:
    """Send lines to a broker that gives these answers first."""
    inputs: Any = [Lines(chunk, ends=ends)]
    config = ProducerConfig(linger_ms=0, delivery_timeout_ms=10_000, request_timeout_ms=5_000)
    async with fake_cluster(topics=TOPICS) as (brokers, client):
        brokers.script(ProduceRequest, *answers)
        return await send_inputs(
            client,
            config,
            inputs=inputs,
            reader=LineReader(ReaderFormat()),
            target=Target("orders", sync=sync),
        )


@pytest.mark.parametrize("sync", [False, True])
async def test_what_keeps_records_waiting_is_one_line(
    sync: bool, autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    result = await send(b"one\n", *[TOO_FEW] * 100, ends=True, sync=sync)
    assert result[:4] == ("orders", 0, 1, 4)
    waiting = "NOT_ENOUGH_REPLICAS: too few replicas"
    assert capsys.readouterr().err == f"warning: orders-0: still trying: {waiting}\n"
    [failure] = result.failures
    told = " ".join(failure.message.split())
    assert told == f"1 of 1 records were not delivered: not delivered within 10000 ms: {waiting}"


@pytest.mark.parametrize("sync", [False, True])
async def test_an_interrupt_tells_in_one_line_what_was_delivered_and_what_was_not(
    sync: bool, autojump_clock: trio.testing.MockClock
) -> None:
    # With --sync the second line is not sent.
    result = await send(b"one\r\ntwo\nthr", interrupt(TOO_FEW), *[TOO_FEW] * 100, sync=sync)
    failed, size, were = (1, 5, "was") if sync else (2, 9, "were")
    assert result[:4] == ("orders", 0, failed, size)
    [failure] = result.failures
    assert isinstance(failure, Interrupted)
    assert failure.message == f"interrupted: 0 records were delivered, {failed} {were} not"


@pytest.mark.parametrize(
    ("lines", "told"), [(b"one\n", "1 record was delivered"), (b"one\ntwo\n", "2 records were delivered")]
)
async def test_an_interrupt_with_nothing_left_tells_what_was_delivered(
    lines: bytes, told: str, autojump_clock: trio.testing.MockClock
) -> None:
    result = await send(lines, interrupt())
    assert result[:4] == ("orders", lines.count(b"\n"), 0, len(lines))
    assert [failure.message for failure in result.failures] == [f"interrupted: {told}"]


@pytest.mark.parametrize(
    ("message", "has_hint"),
    [
        ("a record of a compacted topic needs a key", True),
        ("Compacted topic cannot accept message without key in topic partition orders-0.", True),
        ("the record batch is cut short", False),
    ],
)
async def test_only_a_record_without_the_key_that_it_needs_is_told_how_to_get_one(
    message: str, has_hint: bool, autojump_clock: trio.testing.MockClock
) -> None:
    [failure] = (await send(b"one\n", produced(87, error_message=message), ends=True)).failures
    assert ("parse.key=true" in (failure.hint or "")) is has_hint


async def test_what_was_refused_before_an_interrupt_is_told_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    result = await send(b"one\n", interrupt(REFUSED))
    assert [failure.message for failure in result.failures] == [
        "interrupted: 0 records were delivered, 1 was not",
        "1 of 1 records were not delivered: bad record",
    ]
