"""A transactional producer: what it asks of brokers, and what comes of it, at both levels of the feature."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from kcli.client.admin.types import CommittedOffset
from kcli.client.groups.classic_membership import GroupMetadata
from kcli.client.groups.coordinator_link import CoordinatorLink
from kcli.client.network.bootstrap import NotKafka
from kcli.client.network.connection import Connection
from kcli.client.producer.producer import Producer
from kcli.client.producer.transaction_states import ENDED_HINT, TransactionState, markers_hint
from kcli.client.producer.transactions import TransactionAborted
from kcli.errors import UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import Disconnect, NoAnswer
from tests.client.fake_transactions import transactional, transactional_cluster
from tests.client.producer.sending import produced

LEVELS = pytest.mark.parametrize("level", [0, 1, 2])
OUTSIDER = GroupMetadata("g", -1, "", None)


class Boom(Exception):
    """What goes wrong in a block of the user."""


@LEVELS
async def test_a_transaction_is_committed_as_a_whole(level: int, autojump_clock: MockClock) -> None:
    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        for number in range(3):
            async with producer.transaction():
                for partition in range(3):
                    await producer.send("orders", b"%d-%d" % (number, partition), partition=partition)
                assert len(brokers.committed) == number * 3
    assert sorted(brokers.committed) == [b"%d-%d" % (n, p) for n in range(3) for p in range(3)]
    assert brokers.ends == ["commit"] * 3
    assert brokers.aborted == []


async def test_with_level_2_the_brokers_add_partitions_and_each_transaction_has_its_epoch(
    autojump_clock: MockClock,
) -> None:
    async with transactional_cluster(2) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        for _ in range(2):
            async with producer.transaction():
                await producer.send("orders", b"value", partition=0)
                await producer.send_offsets({TopicPartition("in", 0): CommittedOffset(7)}, OUTSIDER)
    assert brokers.calls == [
        "FindCoordinator 6",
        "InitProducerId 5",
        *["TxnOffsetCommit 5", "Produce 13", "EndTxn 5"] * 2,
    ]
    batches = [RecordBatch(bytearray(data)) for data in brokers.topics["orders"][0].batches]
    assert [(batch.producer_epoch, batch.base_sequence) for batch in batches] == [(0, 0), (1, 0)]
    assert brokers.offsets == {("in", 0): 7}


@pytest.mark.parametrize("level", [0, 1])
async def test_below_level_2_the_producer_adds_partitions_and_keeps_its_epoch(
    level: int, autojump_clock: MockClock
) -> None:
    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        for _ in range(2):
            async with producer.transaction():
                for partition in range(3):
                    await producer.send("orders", b"value", partition=partition)
                await producer.flush()
                await producer.send_offsets({TopicPartition("in", 0): CommittedOffset(7)}, OUTSIDER)
    assert brokers.calls == [
        "FindCoordinator 6",
        "InitProducerId 5",
        *["AddPartitionsToTxn 3", "Produce 11", "AddOffsetsToTxn 4", "TxnOffsetCommit 4", "EndTxn 4"] * 2,
    ]
    first = brokers.received(AddPartitionsToTxnRequest)[0]
    assert [sorted(topic.partitions) for topic in first.v3_and_below_topics] == [[0, 1, 2]]
    batches = [RecordBatch(bytearray(data)) for data in brokers.topics["orders"][0].batches]
    assert [(batch.producer_epoch, batch.base_sequence) for batch in batches] == [(0, 0), (0, 1)]
    assert brokers.offsets == {("in", 0): 7}


@LEVELS
async def test_an_error_in_the_block_aborts_and_drops_what_was_not_sent(
    level: int, autojump_clock: MockClock
) -> None:
    dropped = []

    async def send_and_fail(producer: Producer) -> None:
        async with producer.transaction():
            sent = await producer.send("orders", b"sent", partition=0)
            await sent.wait()
            dropped.append(await producer.send("orders", b"dropped", partition=1))
            raise Boom

    async with (
        transactional_cluster(level) as (brokers, client),
        transactional(client, linger_ms=1000) as producer,
    ):
        await producer.init_transactions()
        with pytest.raises(Boom):
            await send_and_fail(producer)
        assert isinstance(dropped[0].error, TransactionAborted)
        async with producer.transaction():
            await producer.send("orders", b"next", partition=0)
    assert (brokers.aborted, brokers.committed) == ([b"sent"], [b"next"])
    assert brokers.topics["orders"][1].batches == []


@LEVELS
async def test_a_cancelled_block_aborts(level: int, autojump_clock: MockClock) -> None:
    async with transactional_cluster(level) as (brokers, client):
        with trio.move_on_after(5):
            async with transactional(client) as producer:
                await producer.init_transactions()
                async with producer.transaction():
                    await producer.send("orders", b"value", partition=0)
                    await producer.flush()
                    await trio.sleep_forever()
        assert (brokers.ends, brokers.aborted) == (["abort"], [b"value"])


@LEVELS
@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_transaction_without_anything_asks_for_no_end(
    level: int, is_commit: bool, autojump_clock: MockClock
) -> None:
    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (producer.commit_transaction() if is_commit else producer.abort_transaction())
        assert producer.transactions.state is TransactionState.READY
    assert brokers.received(EndTxnRequest) == []


@LEVELS
async def test_an_open_transaction_is_aborted_when_the_producer_closes(
    level: int, autojump_clock: MockClock
) -> None:
    async with transactional_cluster(level) as (brokers, client):
        async with transactional(client) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("orders", b"value", partition=0)
            await producer.flush()
        assert (brokers.ends, brokers.committed) == (["abort"], [])


@LEVELS
async def test_a_second_producer_fences_the_first(level: int, autojump_clock: MockClock) -> None:
    async with transactional_cluster(level) as (brokers, client):
        async with transactional(client) as first, transactional(client) as second:
            await first.init_transactions()
            await first.begin_transaction()
            await first.send("orders", b"old", partition=0)
            await first.flush()
            await second.init_transactions()
            assert brokers.ends == ["abort"]
            with pytest.raises(KafkaError) as raised:
                await first.commit_transaction()
            assert raised.value.code is ErrorCode.PRODUCER_FENCED
            for call in (first.begin_transaction, first.commit_transaction, first.abort_transaction):
                with pytest.raises(KafkaError) as again:
                    await call()
                assert again.value is raised.value
            with pytest.raises(KafkaError):
                first.send_nowait("orders", b"more")
            async with second.transaction():
                await second.send("orders", b"new", partition=0)
        assert (brokers.committed, brokers.aborted) == ([b"new"], [b"old"])


@LEVELS
@pytest.mark.parametrize("code", [10, 29, 45, 47, 59, 87, 120])
async def test_a_batch_that_fails_leaves_the_abort_and_then_the_producer_goes_on(
    level: int, code: int, autojump_clock: MockClock
) -> None:
    """After a gap the next transaction has another epoch: of InitProducerId, with level 2 of EndTxn."""
    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("orders", b"good", partition=0)
        brokers.script(ProduceRequest, produced(code))
        with pytest.raises(KafkaError) as raised:
            async with producer.transaction():
                await producer.send("orders", b"bad", partition=0)
        assert raised.value.code == code
        assert brokers.received(InitProducerIdRequest)[1:] == [] or level < 2
        async with producer.transaction():
            await producer.send("orders", b"next", partition=0)
    assert brokers.committed == [b"good", b"next"]
    if level < 2:
        bump = brokers.received(InitProducerIdRequest)[-1]
        assert (bump.producer_id, bump.producer_epoch) == (1000, 0)
        last = RecordBatch(bytearray(brokers.topics["orders"][0].batches[-1]))
        assert (last.producer_epoch, last.base_sequence) == (1, 0)


@pytest.mark.parametrize("code", [31, 49, 53, 90])
async def test_some_errors_of_a_batch_end_the_producer(code: int, autojump_clock: MockClock) -> None:
    async with transactional_cluster() as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        brokers.script(ProduceRequest, produced(code))
        with pytest.raises(KafkaError) as raised:
            async with producer.transaction():
                await producer.send("orders", b"bad", partition=0)
        assert raised.value.code == code
        assert producer.transactions.state is TransactionState.FATAL
    assert brokers.received(EndTxnRequest) == []


async def test_a_batch_waits_while_the_transaction_before_is_ending(autojump_clock: MockClock) -> None:
    async with transactional_cluster() as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        brokers.script(ProduceRequest, produced(51), produced(51))
        async with producer.transaction():
            await producer.send("orders", b"value", partition=0)
        assert (brokers.committed, len(brokers.received(ProduceRequest))) == ([b"value"], 3)


@pytest.mark.parametrize("refused", ["size", "partition"])
async def test_a_record_that_is_not_queued_leaves_the_abort(refused: str, autojump_clock: MockClock) -> None:
    async with transactional_cluster() as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"value", partition=0)
        value, partition = (bytes(2_000_000), 0) if refused == "size" else (b"value", 9)
        with pytest.raises(KafkaError) as raised:
            await producer.send("orders", value, partition=partition)
        for call in (producer.commit_transaction, producer.begin_transaction):
            with pytest.raises(KafkaError) as again:
                await call()
            assert again.value is raised.value
        await producer.abort_transaction()
        assert producer.transactions.state is TransactionState.READY
    assert brokers.committed == []


@LEVELS
async def test_a_commit_is_withdrawn_if_its_caller_gives_up_before_it_is_sent(
    level: int, autojump_clock: MockClock
) -> None:
    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        brokers.script(ProduceRequest, NoAnswer)
        await producer.send("orders", b"value", partition=0)
        with trio.move_on_after(5):
            await producer.commit_transaction()
        assert producer.transactions.state is TransactionState.IN_TRANSACTION
        await producer.abort_transaction()
    assert brokers.ends == ["abort"]


@LEVELS
async def test_a_commit_that_is_sent_is_joined(level: int, autojump_clock: MockClock) -> None:
    """Whoever cancels it does not know the outcome: it goes on, and every later call waits for it."""
    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"value", partition=0)
        brokers.script(EndTxnRequest, Disconnect, EndTxnResponse(error_code=14))
        with trio.move_on_after(0.03):
            await producer.commit_transaction()
        assert producer.transactions.state is TransactionState.COMMITTING
        with pytest.raises(trio.WouldBlock):
            producer.send_nowait("orders", b"too early", partition=0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.commit_transaction)
            nursery.start_soon(producer.abort_transaction)
            nursery.start_soon(producer.begin_transaction)
        assert producer.transactions.state is TransactionState.IN_TRANSACTION
        assert (brokers.ends, brokers.committed) == (["commit"], [b"value"])


@LEVELS
async def test_a_commit_that_failed_already_may_be_cancelled(level: int, autojump_clock: MockClock) -> None:
    """One batch is refused while the commit still waits for another one: nothing is left to withdraw."""
    async with (
        transactional_cluster(level, nodes=2) as (brokers, client),
        transactional(client) as producer,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        brokers.script(ProduceRequest, produced(29), NoAnswer)
        await producer.send("orders", b"refused", partition=0)
        await producer.send("orders", b"unanswered", partition=1)
        with trio.move_on_after(5) as scope:
            await producer.commit_transaction()
        assert scope.cancelled_caught
        assert producer.transactions.state is TransactionState.ABORTABLE
        await producer.abort_transaction()
        assert producer.transactions.state is TransactionState.READY
    assert brokers.committed == []


@LEVELS
async def test_an_abort_overtakes_a_commit_that_cannot_succeed(level: int, autojump_clock: MockClock) -> None:
    """A batch is refused while the commit waits for another one, and another task aborts."""
    raised = []

    async def commit(producer: Producer) -> None:
        with pytest.raises(KafkaError) as error:
            await producer.commit_transaction()
        raised.append(error.value)

    async def late(node_id: int, request: object, version: int) -> None:
        await trio.sleep(5)

    async with (
        transactional_cluster(level, nodes=2) as (brokers, client),
        transactional(client) as producer,
        trio.open_nursery() as nursery,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        brokers.script(ProduceRequest, produced(29), late)
        await producer.send("orders", b"refused", partition=0)
        await producer.send("orders", b"late", partition=1)
        nursery.start_soon(commit, producer)
        await trio.sleep(1)
        assert producer.transactions.state is TransactionState.ABORTABLE
        cause = producer.transactions.cause
        await producer.abort_transaction()
    assert raised == [cause]
    assert (brokers.ends, brokers.committed) == (["abort"], [])


@LEVELS
async def test_a_record_refused_during_the_commit_does_not_change_its_outcome(
    level: int, autojump_clock: MockClock
) -> None:
    """The coordinator decides already when another task's record, still without metadata, is refused."""

    async def send_late(producer: Producer) -> None:
        with pytest.raises(KafkaError):
            await producer.send("missing", b"value")

    async with (
        transactional_cluster(level) as (brokers, client),
        transactional(client, max_block_ms=3000) as producer,
        trio.open_nursery() as nursery,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"value", partition=0)
        nursery.start_soon(send_late, producer)
        await trio.sleep(2.5)
        brokers.script(EndTxnRequest, *[EndTxnResponse(error_code=51)] * 10)
        await producer.commit_transaction()
        assert producer.transactions.state is TransactionState.READY
        async with producer.transaction():
            await producer.send("orders", b"next", partition=0)
    assert brokers.committed == [b"value", b"next"]


@LEVELS
async def test_a_record_that_waits_for_memory_does_not_slip_into_the_next_transaction(
    level: int, autojump_clock: MockClock
) -> None:
    """When the memory is there, its transaction is over: it waits for the end, and belongs to none."""
    refused = trio.Event()

    async def send_late(producer: Producer) -> None:
        with pytest.raises(UsageError):
            await producer.send("orders", bytes(900), partition=1)
        refused.set()

    async def late(node_id: int, request: object, version: int) -> None:
        await trio.sleep(1)

    async with (
        transactional_cluster(level) as (brokers, client),
        transactional(client, buffer_memory=1000, batch_size=1000, linger_ms=1000) as producer,
        trio.open_nursery() as nursery,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", bytes(800), partition=0)
        brokers.script(ProduceRequest, late)
        nursery.start_soon(send_late, producer)
        await trio.sleep(0.5)
        await producer.commit_transaction()
        await refused.wait()
        assert producer.budget.available == 1000
        assert brokers.committed == [bytes(800)]


async def test_a_coordinator_whose_port_another_program_has_is_looked_up_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with transactional_cluster() as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"value", partition=0)
        await producer.flush()
        connection, refusals = CoordinatorLink.connection, [NotKafka("no Kafka")] * 2

        async def without_kafka(link: CoordinatorLink) -> Connection:
            if refusals:
                raise refusals.pop()
            return await connection(link)

        monkeypatch.setattr(CoordinatorLink, "connection", without_kafka)
        await producer.commit_transaction()
    assert (refusals, brokers.ends, brokers.committed) == ([], ["commit"], [b"value"])


async def test_calls_wait_at_most_max_block_ms_and_name_the_last_error(autojump_clock: MockClock) -> None:
    refused = InitProducerIdResponse(error_code=51, producer_epoch=-1)
    async with (
        transactional_cluster() as (brokers, client),
        transactional(client, max_block_ms=3000) as producer,
    ):
        brokers.script(InitProducerIdRequest, *[refused] * 35)
        with pytest.raises(KafkaError, match=r"waited 3000 ms for a producer id.*CONCURRENT") as raised:
            await producer.init_transactions()
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert raised.value.hint == markers_hint("me")
        assert producer.transactions.state is TransactionState.UNINITIALIZED
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"value", partition=0)
        brokers.script(EndTxnRequest, *[EndTxnResponse(error_code=51)] * 40)
        with pytest.raises(KafkaError, match="waited 3000 ms for the commit"):
            await producer.commit_transaction()
        await producer.commit_transaction()
        assert brokers.committed == [b"value"]


async def test_a_commit_that_waits_for_a_leader_names_the_partition(autojump_clock: MockClock) -> None:
    async with (
        transactional_cluster() as (brokers, client),
        transactional(client, max_block_ms=3000) as producer,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("orders", b"value", partition=0)).wait()
        brokers.topics["orders"][0].leader = -1
        brokers.script(ProduceRequest, produced(6))
        await producer.send("orders", b"value", partition=0)
        no_leader = "orders-0: LEADER_NOT_AVAILABLE: the partition has no leader at the moment"
        with pytest.raises(
            KafkaError, match=f"waited 3000 ms for the commit of the transaction: {no_leader}"
        ):
            await producer.commit_transaction()


async def test_the_level_is_looked_at_between_transactions(autojump_clock: MockClock) -> None:
    """After an upgrade the next transaction has an epoch of its own, which level 2 takes for granted."""
    async with transactional_cluster(0) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"first", partition=0)
        await producer.flush()
        brokers.features, brokers.features_epoch = {"transaction.version": 2}, 2
        brokers.disconnect(1)
        await producer.send("orders", b"second", partition=0)
        await producer.flush()
        await producer.commit_transaction()
        assert [call for call in brokers.calls if call.startswith(("EndTxn", "InitProducerId"))] == [
            *("InitProducerId 5", "EndTxn 4", "InitProducerId 5"),
        ]
        async with producer.transaction():
            await producer.send("orders", b"third", partition=0)
        assert brokers.calls[-2:] == ["Produce 13", "EndTxn 5"]
    assert brokers.committed == [b"first", b"second", b"third"]


async def test_a_commit_stands_although_no_next_epoch_is_had(autojump_clock: MockClock) -> None:
    """The level rises while another producer takes over: the next call learns of that."""
    async with transactional_cluster(0) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        brokers.features, brokers.features_epoch = {"transaction.version": 2}, 2
        brokers.disconnect(1)
        await producer.send("orders", b"value", partition=0)
        brokers.script(InitProducerIdRequest, InitProducerIdResponse(error_code=90, producer_epoch=-1))
        await producer.commit_transaction()
        assert producer.transactions.was_committed
        for call in (producer.begin_transaction, producer.commit_transaction):
            with pytest.raises(KafkaError) as raised:
                await call()
            assert raised.value.code is ErrorCode.PRODUCER_FENCED
    assert brokers.committed == [b"value"]


@pytest.mark.parametrize("level", [0, 1])
async def test_an_abort_does_not_wait_for_a_partition_that_cannot_be_added(
    level: int, autojump_clock: MockClock
) -> None:
    """Its topic is deleted, so that every answer may pass, and none does."""

    async def unknown(node_id: int, request: AddPartitionsToTxnRequest, version: int) -> object:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=3)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        brokers.script(AddPartitionsToTxnRequest, *[unknown] * 20)
        await producer.send("orders", b"value", partition=0)
        await trio.sleep(1)
        await producer.abort_transaction()
        assert producer.transactions.state is TransactionState.READY
        assert 5 < len(brokers.received(AddPartitionsToTxnRequest)) < 20
    assert brokers.ends == []


@LEVELS
async def test_offsets_of_a_member_are_sent_with_its_generation(
    level: int, autojump_clock: MockClock
) -> None:
    async with transactional_cluster(level) as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        member = GroupMetadata("g", 4, "member-1", "static")
        async with producer.transaction():
            await producer.send_offsets({TopicPartition("in", 2): CommittedOffset(9, 3, "note")}, member)
    sent = brokers.received(TxnOffsetCommitRequest)[0]
    assert (sent.group_id, sent.generation_id, sent.member_id, sent.group_instance_id) == member
    row = sent.topics[0].partitions[0]
    assert (row.partition_index, row.committed_offset, row.committed_leader_epoch) == (2, 9, 3)
    assert row.committed_metadata == "note"
    assert brokers.ends == ["commit"]


async def test_an_old_broker_cannot_take_the_offsets_of_a_member(autojump_clock: MockClock) -> None:
    async with transactional_cluster(0) as (brokers, client):
        brokers.max_versions[28] = 2
        async with transactional(client) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            with pytest.raises(KafkaError, match="TxnOffsetCommit"):
                await producer.send_offsets(
                    {TopicPartition("in", 0): CommittedOffset(1)}, GroupMetadata("g", 1, "m", None)
                )
            assert producer.transactions.state is TransactionState.FATAL


async def test_a_producer_without_a_transactional_id_has_no_transactions(autojump_clock: MockClock) -> None:
    async with transactional_cluster() as (_, client), Producer(client) as producer:
        with pytest.raises(UsageError, match=r"transactional\.id"):
            await producer.init_transactions()


@pytest.mark.parametrize("code", [47, 48, 90])
async def test_why_a_transaction_may_have_been_ended_is_told(code: int, autojump_clock: MockClock) -> None:
    """By its timeout, or by somebody else: coordinators tell it with these codes."""
    async with transactional_cluster() as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("orders", b"value", partition=0)
        brokers.script(EndTxnRequest, EndTxnResponse(error_code=code))
        with pytest.raises(KafkaError) as raised:
            await producer.commit_transaction()
    assert raised.value.hint == ENDED_HINT


@pytest.mark.parametrize(("code", "hint"), [(47, ENDED_HINT), (87, None)])
async def test_a_leader_that_knows_a_newer_epoch_may_know_an_ended_transaction(
    code: int, hint: str | None, autojump_clock: MockClock
) -> None:
    async with transactional_cluster() as (brokers, client), transactional(client) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        brokers.script(ProduceRequest, produced(code))
        sent = await producer.send("orders", b"value", partition=0)
        with pytest.raises(KafkaError) as raised:
            await sent.wait()
        assert (raised.value.code, raised.value.hint) == (ErrorCode(code), hint)
        await producer.abort_transaction()
