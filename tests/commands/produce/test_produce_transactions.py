"""Sending lines in transactions: where they begin and end, what an error and Ctrl-C leave, what is told."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio

from kcli.client.config import ProducerConfig
from kcli.client.producer.transaction_states import ENDED_HINT
from kcli.commands.produce.json_reader import JsonReader
from kcli.commands.produce.line_reader import LineReader, ReaderFormat
from kcli.commands.produce.line_sender import Target, send_in_transactions
from kcli.commands.produce.transactions import Ends, LineTransactions, ProducedInTransactions
from kcli.errors import Interrupted, KcliError, UsageError
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.produce import ProduceRequest
from tests.client.fake_brokers import NoAnswer
from tests.client.fake_transactions import TransactionalBrokers, transactional, transactional_cluster
from tests.client.producer.sending import produced
from tests.commands.produce.test_line_sender import Lines, interrupt

TEN = b"".join(b"%d\n" % number for number in range(10))
VALUES = [b"%d" % number for number in range(10)]


async def send(
    chunk: bytes,
    script: dict[type[Any], Sequence[Any]] | None = None,
    *,
    ends: Ends = Ends(),  # noqa: B008  # a value
    reader: LineReader | JsonReader | None = None,
    is_whole: bool = True,
    **settings: Any,
) -> tuple[ProducedInTransactions, TransactionalBrokers]:
    """Send lines to a broker that gives these answers first."""
    inputs: Any = [Lines(chunk, ends=is_whole)]
    config = ProducerConfig(transactional_id="me", linger_ms=0, max_block_ms=20_000, **settings)
    async with transactional_cluster() as (brokers, client):
        for request_class, answers in (script or {}).items():
            brokers.script(request_class, *answers)
        result = await send_in_transactions(
            client,
            config,
            inputs=inputs,
            reader=reader or LineReader(ReaderFormat()),
            target=Target("orders", 0),
            ends=ends,
        )
        return result, brokers


Clock = trio.testing.MockClock


async def test_all_lines_are_one_transaction(autojump_clock: Clock) -> None:
    result, brokers = await send(TEN)
    assert result == ProducedInTransactions("orders", 10, 0, len(TEN), 1, 0, [])
    assert (brokers.committed, brokers.ends) == (VALUES, ["commit"])


@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize(("size", "count"), [(1, 10), (3, 4), (5, 2), (10, 1), (11, 1)])
async def test_a_transaction_ends_after_so_many_records(
    size: int, count: int, is_keyed: bool, autojump_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = LineReader(ReaderFormat.from_properties({"parse.key": "true"} if is_keyed else {}))
    chunk = b"".join(b"k\t%s\n" % value for value in VALUES) if is_keyed else TEN
    result, brokers = await send(chunk, ends=Ends(size, tells=True), reader=reader)
    assert (result.delivered, result.committed, result.aborted) == (10, count, 0)
    assert (brokers.committed, len(brokers.ends)) == (VALUES, count)
    told = capsys.readouterr().err.splitlines()
    last = 10 - size * (count - 1)
    assert len(told) == count
    assert told[-1] == (
        f"transaction {count}: producer id 1000, epoch {count - 1}: committed, "
        f"{last} record{'s' if last > 1 else ''}"
    )


async def test_every_transaction_is_aborted_that_is_to_be(
    autojump_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    result, brokers = await send(TEN, ends=Ends(4, aborts=True, tells=True))
    assert result == ProducedInTransactions("orders", 0, 10, len(TEN), 0, 3, [])
    assert (brokers.aborted, brokers.committed) == (VALUES, [])
    assert "transaction 3: producer id 1000, epoch 2: aborted, 2 records" in capsys.readouterr().err


async def test_an_empty_input_is_no_transaction(autojump_clock: Clock) -> None:
    result, brokers = await send(b"")
    assert (result.committed, result.aborted, brokers.ends) == (0, 0, [])


async def test_a_line_that_is_no_record_aborts(autojump_clock: Clock) -> None:
    lines = b'{"value":"0"}\n{"value":"1"}\n{"value":"2"}\nnonsense\n'
    reader = JsonReader(bytes, bytes, keeps_partitions=True)
    result, brokers = await send(lines, ends=Ends(2), reader=reader)
    # The third record was not sent yet: the coordinator knows of no second transaction.
    assert (brokers.committed, brokers.aborted, brokers.ends) == ([b"0", b"1"], [], ["commit"])
    assert (result.delivered, result.failed) == (2, 1)
    [error] = result.failures
    assert isinstance(error, UsageError)
    assert error.message.endswith("; the transaction was aborted; 1 transaction was committed before")


async def test_a_record_that_is_refused_aborts(autojump_clock: Clock) -> None:
    result, brokers = await send(TEN, {ProduceRequest: [produced(87, error_message="bad record")]})
    assert (brokers.committed, result.delivered, result.failed) == ([], 0, 10)
    assert [each.message for each in result.failures] == ["bad record; the transaction was aborted"]


async def test_a_record_that_is_not_queued_aborts(autojump_clock: Clock) -> None:
    result, brokers = await send(b"small\n" + bytes(2_000_000) + b"\nmore\n")
    assert (brokers.committed, result.delivered, result.failed) == ([], 0, 1)
    [error] = result.failures
    assert error.message.endswith("the limit is 1048576; the transaction was aborted")
    assert error.hint == "raise `max.request.size`, and `buffer.memory` if that is smaller"


@pytest.mark.parametrize("fencing", ["while sending", "at the end"])
async def test_a_producer_that_came_later_is_told_of(fencing: str, autojump_clock: Clock) -> None:
    def take_over(node_id: int, request: Any, version: int) -> None:
        known[0]._InitProducerIdRequest(
            1, InitProducerIdRequest(transactional_id="me", transaction_timeout_ms=1), 5
        )

    known: list[TransactionalBrokers] = []
    async with transactional_cluster() as (brokers, client):
        known.append(brokers)
        brokers.script(ProduceRequest if fencing == "while sending" else EndTxnRequest, take_over)
        inputs: Any = [Lines(TEN, ends=True)]
        result = await send_in_transactions(
            client,
            ProducerConfig(transactional_id="me"),
            inputs=inputs,
            reader=LineReader(ReaderFormat()),
            target=Target("orders", 0),
            ends=Ends(),
        )
    [error] = result.failures
    assert error.message == (
        "another producer has taken over the transactional id; the transaction was aborted"
    )
    assert error.hint == ENDED_HINT
    assert brokers.committed == []


async def test_ctrl_c_aborts(autojump_clock: Clock) -> None:
    result, brokers = await send(TEN, {ProduceRequest: [interrupt()]}, is_whole=False)
    assert (brokers.committed, brokers.ends) == ([], ["abort"])
    [error] = result.failures
    assert isinstance(error, Interrupted)
    assert error.message == "interrupted; the transaction was aborted"


async def test_ctrl_c_at_a_commit_tells_what_became_of_it(autojump_clock: Clock) -> None:
    result, brokers = await send(TEN, {EndTxnRequest: [interrupt(EndTxnResponse(error_code=14))]})
    assert (brokers.committed, brokers.ends) == (VALUES, ["commit"])
    [error] = result.failures
    assert error.message == "interrupted; the transaction was committed"


async def test_ctrl_c_as_a_commit_ends_tells_that_it_ended(autojump_clock: Clock) -> None:
    """The answer is there, but the cancellation comes before `finish` has seen it."""
    async with transactional_cluster() as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        transactions = LineTransactions(producer, Ends())
        await transactions.room()
        await producer.send("orders", b"value", partition=0)
        transactions.sent(1)
        await producer.commit_transaction()
        error = await transactions.give_up(Interrupted("interrupted"))
    assert error.message == "interrupted; the transaction was committed"
    assert transactions.result("orders", 5, error)[1:6] == (1, 0, 5, 1, 0)
    assert brokers.ends == ["commit"]


async def silent(node_id: int, request: Any, version: int) -> Any:
    signal.raise_signal(signal.SIGINT)
    raise NoAnswer


@pytest.mark.parametrize(
    ("request_class", "answers", "outcome"),
    [
        (
            EndTxnRequest,
            [silent],
            "whether the transaction was committed is unknown: no answer in time",
        ),
        (
            ProduceRequest,
            [silent],
            "the broker aborts the transaction when its timeout is over: no answer in time",
        ),
    ],
)
async def test_after_ctrl_c_the_command_waits_five_seconds_for_a_silent_broker(
    request_class: type[Any], answers: list[Callable[..., Any]], outcome: str, autojump_clock: Clock
) -> None:
    start = trio.current_time()
    result, _ = await send(TEN, {request_class: answers})
    assert [error.message for error in result.failures] == [f"interrupted; {outcome}"]
    assert trio.current_time() - start < 6
    assert (result.delivered, result.failed) == (0, 10)


async def test_a_topic_that_nobody_makes_begins_no_transaction(autojump_clock: Clock) -> None:
    async with transactional_cluster() as (brokers, client):
        inputs: Any = [Lines(TEN, ends=True)]
        result = await send_in_transactions(
            client,
            ProducerConfig(transactional_id="me", max_block_ms=5_000),
            inputs=inputs,
            reader=LineReader(ReaderFormat()),
            target=Target("nothing"),
            ends=Ends(),
        )
    assert isinstance(result.failures[0], KcliError)
    assert brokers.ends == []
