"""The tables of transaction states and of errors, walked with a producer that talks to fake brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from kcli.client.admin.types import CommittedOffset
from kcli.client.groups.classic_membership import GroupMetadata
from kcli.client.producer.producer import Producer
from kcli.client.producer.transaction_states import (
    CALLS,
    EVENTS,
    Call,
    Event,
    Reaction,
    Refusal,
    TransactionState,
    reaction,
)
from kcli.errors import UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import NoAnswer
from tests.client.fake_transactions import TransactionalBrokers, transactional, transactional_cluster
from tests.client.producer.sending import produced

IN_TRANSACTION = TransactionState.IN_TRANSACTION


def test_the_tables_are_whole() -> None:
    assert CALLS.keys() == {(state, call) for state in TransactionState for call in Call}
    reached = {TransactionState.UNINITIALIZED, *EVENTS.values()}
    reached |= {state for state in CALLS.values() if isinstance(state, TransactionState)}
    assert reached == {*TransactionState}
    assert {event for _, event in EVENTS} == {*Event}


async def ends_late(brokers: TransactionalBrokers) -> None:
    """Have the next EndTxn be answered after ten seconds."""

    async def late(node_id: int, request: Any, version: int) -> Any:
        await trio.sleep(10)
        return None

    brokers.script(EndTxnRequest, late)


@asynccontextmanager
async def in_state(
    state: TransactionState, level: int
) -> AsyncIterator[tuple[TransactionalBrokers, Producer]]:
    """A producer that was brought into a state."""
    async with (
        transactional_cluster(level) as (brokers, client),
        transactional(client) as producer,
        trio.open_nursery() as nursery,
    ):
        if state is not TransactionState.UNINITIALIZED:
            await producer.init_transactions()
        if state not in (TransactionState.UNINITIALIZED, TransactionState.READY):
            await producer.begin_transaction()
            await producer.send("orders", b"value", partition=0)
            await producer.flush()
        match state:
            case TransactionState.COMMITTING:
                await ends_late(brokers)
                nursery.start_soon(producer.commit_transaction)
            case TransactionState.ABORTING:
                await ends_late(brokers)
                nursery.start_soon(producer.abort_transaction)
            case TransactionState.ABORTABLE | TransactionState.FATAL:
                brokers.script(ProduceRequest, produced(87 if state is TransactionState.ABORTABLE else 53))
                delivery = await producer.send("orders", b"bad", partition=0)
                with pytest.raises(KafkaError):
                    await delivery.wait()
        await trio.sleep(1)
        assert producer.transactions.state is state
        yield brokers, producer


async def make(call: Call, producer: Producer) -> None:
    match call:
        case Call.INIT:
            await producer.init_transactions()
        case Call.BEGIN:
            await producer.begin_transaction()
        case Call.SEND:
            await producer.send("orders", b"more", partition=1)
        case Call.COMMIT:
            await producer.commit_transaction()
        case Call.ABORT:
            await producer.abort_transaction()


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(("state", "call"), CALLS, ids=lambda each: each.name.lower())
async def test_each_call_in_each_state(
    state: TransactionState, call: Call, level: int, autojump_clock: MockClock
) -> None:
    expected = CALLS[state, call]
    async with in_state(state, level) as (_, producer):
        start = trio.current_time()
        if expected is Refusal.MISUSE:
            with pytest.raises(UsageError, match=call.value):
                await make(call, producer)
            assert producer.transactions.state is state
        elif expected is Refusal.RAISES:
            with pytest.raises(KafkaError) as raised:
                await make(call, producer)
            assert raised.value is producer.transactions.cause
            assert producer.transactions.state is state
        elif expected is Refusal.JOINS:
            await make(call, producer)
            assert trio.current_time() - start > 5
            assert producer.transactions.state is TransactionState.READY
        elif expected is Refusal.WAITS and call is Call.SEND:
            # Nothing was begun when the wait was over.
            with pytest.raises(UsageError):
                await make(call, producer)
            assert trio.current_time() - start > 5
        elif expected is Refusal.WAITS:
            await make(call, producer)
            assert trio.current_time() - start > 5
            assert producer.transactions.state is IN_TRANSACTION
        else:
            await make(call, producer)
            ended = {TransactionState.COMMITTING, TransactionState.ABORTING, TransactionState.UNINITIALIZED}
            after = TransactionState.READY if expected in ended else expected
            assert producer.transactions.state is after


CODES = [
    ErrorCode.of(code) for code in (14, 15, 16, 7, 51, 13, 47, 90, 48, 49, 53, 22, 25, 29, 30, 59, 82, 120)
]


def answer(request_class: type[Any], code: int) -> Any:
    """Return a response with an error."""
    if request_class is InitProducerIdRequest:
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    if request_class is EndTxnRequest:
        return EndTxnResponse(error_code=code)
    if request_class is AddOffsetsToTxnRequest:
        return AddOffsetsToTxnResponse(error_code=code)
    if request_class is AddPartitionsToTxnRequest:
        rows = [
            AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=55),
            AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=code),
        ]
        topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=rows)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    offsets = [TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)]
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="in", partitions=offsets)])


async def one_transaction(producer: Producer) -> None:
    async with producer.transaction():
        await producer.send("orders", b"0", partition=0)
        await producer.send("orders", b"1", partition=1)
        await producer.flush()
        await producer.send_offsets(
            {TopicPartition("in", 0): CommittedOffset(7)}, GroupMetadata("g", -1, "", None)
        )


ITEMS = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
@pytest.mark.parametrize(
    ("request_class", "level"),
    [
        *((each, 0) for each in (*ITEMS, InitProducerIdRequest, EndTxnRequest)),
        *((each, 2) for each in (TxnOffsetCommitRequest, InitProducerIdRequest, EndTxnRequest)),
    ],
)
async def test_what_each_error_of_a_coordinator_leads_to(
    request_class: type[Any], level: int, code: ErrorCode, autojump_clock: MockClock
) -> None:
    expected = reaction(code, of_items=request_class in ITEMS)
    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        brokers.script(request_class, answer(request_class, code))
        if request_class is not InitProducerIdRequest:
            await producer.init_transactions()
        if expected in (Reaction.AGAIN, Reaction.LOOK_UP):
            if request_class is InitProducerIdRequest:
                await producer.init_transactions()
            await one_transaction(producer)
            assert (sorted(brokers.committed), brokers.offsets) == ([b"0", b"1"], {("in", 0): 7})
            assert len(brokers.received(request_class)) == 2
            return
        with pytest.raises(KafkaError) as raised:
            await (
                producer.init_transactions()
                if request_class is InitProducerIdRequest
                else one_transaction(producer)
            )
        assert raised.value.code is (ErrorCode.PRODUCER_FENCED if expected is Reaction.FENCED else code)
        assert (brokers.committed, brokers.offsets) == ([], {})
        # Nothing is left to abort where no producer id came.
        is_abortable = expected is Reaction.ABORTABLE and request_class is not InitProducerIdRequest
        state = TransactionState.READY if is_abortable else TransactionState.FATAL
        assert producer.transactions.state is state
        if is_abortable:
            await one_transaction(producer)
            assert sorted(brokers.committed) == [b"0", b"1"]


async def test_an_abort_that_is_answered_with_abortable_ends_the_producer(autojump_clock: MockClock) -> None:
    async with in_state(IN_TRANSACTION, 2) as (brokers, producer):
        brokers.script(EndTxnRequest, answer(EndTxnRequest, 120))
        with pytest.raises(KafkaError):
            await producer.abort_transaction()
        assert producer.transactions.state is TransactionState.FATAL


@pytest.mark.parametrize(
    ("request_class", "code", "pauses"),
    [
        (AddPartitionsToTxnRequest, 51, [20, 20]),
        (AddPartitionsToTxnRequest, 14, [100, 100]),
        (EndTxnRequest, 51, [100, 100]),
        (InitProducerIdRequest, 51, [100, 100]),
    ],
)
async def test_how_long_a_request_waits_before_it_is_sent_again(
    request_class: type[Any], code: int, pauses: list[int], autojump_clock: MockClock
) -> None:
    async with transactional_cluster(0) as (brokers, client), transactional(client) as producer:
        times: list[float] = []

        def refuse(node_id: int, request: Any, version: int) -> Any:
            times.append(trio.current_time())
            return answer(request_class, code) if len(times) < 3 else None

        brokers.script(request_class, refuse, refuse, refuse)
        await producer.init_transactions()
        await one_transaction(producer)
        assert [(b - a) * 1000 for a, b in pairwise(times)] == pytest.approx(pauses, abs=2)


async def test_a_coordinator_that_moved_is_looked_up_again(autojump_clock: MockClock) -> None:
    async with transactional_cluster(nodes=2) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"value", partition=0)
        brokers.coordinators["me"] = 2
        brokers.script(EndTxnRequest, answer(EndTxnRequest, 16))
        await producer.commit_transaction()
        asked = [entry.node_id for entry in brokers.requests if isinstance(entry.request, EndTxnRequest)]
        assert (asked, brokers.committed) == ([1, 2], [b"value"])


async def test_a_silent_coordinator_is_asked_again(autojump_clock: MockClock) -> None:
    async with transactional_cluster() as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"value", partition=0)
        brokers.script(EndTxnRequest, NoAnswer)
        await producer.commit_transaction()
        assert brokers.ends == ["commit"]
