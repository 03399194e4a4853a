"""A transaction that its producer leaves open, and that somebody else ends."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from kcli.client.admin.types import CommittedOffset
from kcli.client.client import Client
from kcli.client.config import ProducerConfig
from kcli.client.producer.open_transaction import OpenTransaction, end_transaction
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.topics import TopicPartition
from tests.client.fake_transactions import transactional, transactional_cluster
from tests.client.producer.sending import produced

LEVELS = pytest.mark.parametrize("level", [0, 1, 2])


async def left_open(client: Client, value: bytes) -> OpenTransaction:
    """Send a value in a transaction, and return what ends it when its producer is gone."""
    async with transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", value, partition=0)
        left = await producer.hand_over()
        with pytest.raises(KafkaError, match="has handed its transaction over"):
            await producer.send("orders", b"too late")
    assert left is not None
    return left


@LEVELS
@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_transaction_that_was_handed_over_is_ended_by_somebody_else(
    level: int, is_commit: bool, autojump_clock: MockClock
) -> None:
    offsets = {TopicPartition("in", 0): CommittedOffset(7)}
    async with transactional_cluster(level) as (brokers, client):
        left = await left_open(client, b"value")
        assert (brokers.ends, brokers.committed) == ([], [])
        for _ in range(2):
            # An answer may be lost: the second time it has ended like that already.
            await end_transaction(client, left, is_commit=is_commit, group_id="g", offsets=offsets)
            offsets = {}
        assert brokers.committed == ([b"value"] if is_commit else [])
        assert brokers.aborted == ([] if is_commit else [b"value"])
        offset_requests = [call.split()[0] for call in brokers.calls if "Offset" in call]
        assert offset_requests == (
            ["TxnOffsetCommit"] if level == 2 else ["AddOffsetsToTxn", "TxnOffsetCommit"]
        )


@LEVELS
async def test_what_was_handed_over_is_lost_to_the_next_producer(
    level: int, autojump_clock: MockClock
) -> None:
    async with transactional_cluster(level) as (brokers, client):
        left = await left_open(client, b"first")
        again = await left_open(client, b"second")
        with pytest.raises(KafkaError) as caught:
            await end_transaction(client, left, is_commit=True)
        assert caught.value.code is ErrorCode.PRODUCER_FENCED
        await end_transaction(client, again, is_commit=True)
        assert (brokers.committed, brokers.aborted) == ([b"second"], [b"first"])


async def test_nothing_is_handed_over_without_a_record(autojump_clock: MockClock) -> None:
    async with transactional_cluster(2) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        assert await producer.hand_over() is None
    assert brokers.ends == []


@LEVELS
async def test_a_transaction_with_a_lost_record_is_not_handed_over(
    level: int, autojump_clock: MockClock
) -> None:
    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        brokers.script(ProduceRequest, produced(ErrorCode.INVALID_RECORD))
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"lost", partition=0)
        with pytest.raises(KafkaError) as caught:
            await producer.hand_over()
        assert caught.value.code is ErrorCode.INVALID_RECORD
    assert brokers.committed == []


async def test_the_end_of_what_was_handed_over_is_waited_for_at_most_max_block_ms(
    autojump_clock: MockClock,
) -> None:
    async with transactional_cluster(2) as (brokers, client):
        left = await left_open(client, b"value")
        brokers.script(EndTxnRequest, *[EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)] * 40)
        with pytest.raises(
            KafkaError, match=r"waited 500 ms for the end of a transaction of me: .*"
        ) as caught:
            await end_transaction(client, left, is_commit=True, config=ProducerConfig(max_block_ms=500))
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
