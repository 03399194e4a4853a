"""Produce of transactional batches: what is asked, what the answers become, and what may come between."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
from kcli.broker.handlers.produce.slow_batches import WRITTEN_ON_LOOP_BYTES
from kcli.broker.handlers.produce.transactional_batches import refusal
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.control_records import TransactionMarker
from kcli.protocol.topics import TopicPartition
from tests.broker.records import batch, fetch_request, fetched, produced, values
from tests.broker.single_node import Client, Node, connected, running_node
from tests.broker.transactions.scripted_coordinators import ScriptedCoordinators, use_coordinators

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PRODUCER = 4000
EVERY_VERSION = range(3, 14)


class Transactional:
    """A node with topic `t`, a client, and the coordinators that the node asks."""

    def __init__(self, node: Node, client: Client, coordinators: ScriptedCoordinators) -> None:
        self.node = node
        self.client = client
        self.coordinators = coordinators
        self.topic_id = node.image.topics["t"].topic_id

    def request(
        self,
        *records: bytes,
        version: int = 12,
        acks: int = -1,
        transactional_id: str | None = "tid",
    ) -> ProduceRequest:
        """Return a request with one batch for each partition from 0 on."""
        rows = [PartitionProduceData(index=index, records=data) for index, data in enumerate(records)]
        topic = TopicProduceData(name="t", partition_data=rows)
        if version >= 13:
            topic = TopicProduceData(topic_id=self.topic_id, partition_data=rows)
        return ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=[topic]
        )

    async def produce(self, *records: bytes, version: int = 12, **options: Any) -> list[int]:
        """Produce one batch for each partition from 0 on; return the error codes."""
        response = await self.client.ask(self.request(*records, version=version, **options), version)
        rows = response.responses[0].partition_responses
        for row in rows:
            assert (row.base_offset == -1) is (row.error_code != 0)
        return [row.error_code for row in rows]

    @property
    def ends(self) -> list[int]:
        return [self.node.replica_manager.partition("t", index).log.log_end_offset for index in range(2)]

    def mark(self, *, epoch: int = 0, version: int = 0, index: int = 0) -> None:
        marker = TransactionMarker(PRODUCER, epoch, 0, True, version)
        self.node.replica_manager.partition("t", index).append_marker(marker, now_ms=self.node.wall_ms())


def data(
    value: bytes = b"v", *, producer_id: int = PRODUCER, epoch: int = 0, sequence: int = 0, **options: Any
) -> bytes:
    return batch(
        value,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
        **options,
    )


@asynccontextmanager
async def transactional(
    directory: Path, *answers: Any, properties: dict[str, str] | None = None
) -> AsyncIterator[Transactional]:
    async with (
        running_node(directory, properties) as node,
        connected(node) as client,
        trio.open_nursery() as nursery,
    ):
        node.create_topic("t", partitions=2, max_message_bytes="10000000")
        coordinators = use_coordinators(node, ScriptedCoordinators(*answers), nursery)
        yield Transactional(node, client, coordinators)
        nursery.cancel_scope.cancel()


def told(answer: int, version: int) -> int:
    """Return what a producer gets for an answer: the table of KIP-890 and KIP-1050."""
    if answer in (13, 14, 15, 16) or (answer == 51 and version <= 11):
        return 19
    if answer == 90:
        return 47
    return 48 if answer == 120 and version <= 10 else answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, "the partition is not part of the transaction"),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the producer id does not belong to the transactional id"),
        (ErrorCode.PRODUCER_FENCED, "the producer's epoch is older than the one on the broker"),
        (ErrorCode.NOT_COORDINATOR, "the transaction cannot be verified now: NOT_COORDINATOR"),
    ],
)
def test_a_producer_is_told_why(answer: ErrorCode, message: str) -> None:
    assert {refusal(answer, version).message for version in EVERY_VERSION} == {message}


@pytest.mark.parametrize("version", EVERY_VERSION)
async def test_the_coordinator_is_asked_and_its_answer_told(
    version: int, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    codes = (90, 120, 13, 14, 15, 16, 51, 49, 48, 47, 42, 53, -1)
    async with transactional(tmp_path) as broker:
        for code in codes:
            broker.coordinators.answers = [ErrorCode.of(code)]
            assert await broker.produce(data(), version=version) == [told(code, version)], code
        for code in (14, 15, 16):
            broker.coordinators.answers = [KafkaError(ErrorCode.of(code))]
            assert await broker.produce(data(), version=version) == [19], code
        assert broker.ends == [0, 0]
        broker.coordinators.answers = [ErrorCode.NONE]
        assert await broker.produce(data(), version=version) == [0]
        question = broker.coordinators.asked[-1]
        assert (question.transactional_id, question.producer_id, question.producer_epoch) == (
            "tid",
            PRODUCER,
            0,
        )
        assert [(topic.name, topic.partitions) for topic in question.topics] == [("t", [0])]
        assert question.verify_only is (version < 12)
        assert set(broker.coordinators.client_versions) == {2}


@pytest.mark.parametrize("version", [9, 12])
async def test_an_open_transaction_is_not_asked_about(version: int, tmp_path: Path) -> None:
    async with transactional(tmp_path) as broker:
        assert await broker.produce(data(), version=version) == [0]
        assert await broker.produce(data(sequence=1), version=version) == [0]
        assert len(broker.coordinators.asked) == 1
        broker.mark()
        assert await broker.produce(data(sequence=2), version=9) == [0]
        assert len(broker.coordinators.asked) == 2


async def test_all_partitions_of_a_request_are_asked_about_at_once(tmp_path: Path) -> None:
    async with transactional(tmp_path) as broker:
        assert await broker.produce(data(), data()) == [0, 0]
        (question,) = broker.coordinators.asked
        assert [(topic.name, topic.partitions) for topic in question.topics] == [("t", [0, 1])]
        broker.mark(index=1)
        assert await broker.produce(data(sequence=1), data(sequence=1), version=11) == [0, 0]
        assert [(topic.name, topic.partitions) for topic in broker.coordinators.asked[-1].topics] == [
            ("t", [1])
        ]


async def test_a_refused_partition_does_not_fail_its_neighbour(tmp_path: Path) -> None:
    answer = {TopicPartition("t", 0): ErrorCode.TRANSACTION_ABORTABLE, TopicPartition("t", 1): ErrorCode.NONE}
    async with transactional(tmp_path, answer) as broker:
        assert await broker.produce(data(), data(), version=11) == [120, 0]
        assert broker.ends == [0, 1]


async def test_what_is_refused_anyway_is_not_asked_about(tmp_path: Path) -> None:
    async with transactional(tmp_path) as broker:
        assert await broker.produce(data(), data(), data()) == [0, 0, 3]
        (question,) = broker.coordinators.asked
        assert [(topic.name, topic.partitions) for topic in question.topics] == [("t", [0, 1])]
        assert await broker.produce(data()[:-1] + b"\x07", acks=7) == [21]
        assert len(broker.coordinators.asked) == 1


async def test_batches_outside_of_transactions_are_not_asked_about(tmp_path: Path) -> None:
    async with transactional(tmp_path) as broker:
        idempotent = batch(b"v", producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
        assert await broker.produce(idempotent, batch(b"v")) == [0, 0]
        without_producer = batch(b"v", is_transactional=True)
        assert await broker.produce(without_producer) == [0]
        assert broker.coordinators.asked == []


@pytest.mark.parametrize("other", [{"producer_id": 4001}, {"epoch": 1}])
@pytest.mark.parametrize("version", [3, 9, 12])
async def test_two_producers_in_one_request_fail_it_all(
    other: dict[str, int], version: int, tmp_path: Path
) -> None:
    async with transactional(tmp_path) as broker:
        assert await broker.produce(data(), data(**other), version=version) == [49, 49]
        assert broker.coordinators.asked == []
        assert broker.ends == [0, 0]


async def test_an_older_epoch_is_fenced_without_a_question(tmp_path: Path) -> None:
    async with transactional(tmp_path) as broker:
        assert await broker.produce(data(epoch=3)) == [0]
        assert await broker.produce(data(epoch=2, sequence=1), data(epoch=2)) == [47, 0]
        assert [topic.partitions for topic in broker.coordinators.asked[-1].topics] == [[1]]
        assert broker.ends == [1, 1]


@pytest.mark.parametrize(("version", "code"), [(9, 0), (11, 0), (12, 45), (13, 45)])
async def test_the_first_sequence_of_a_producer_without_state(
    version: int, code: int, tmp_path: Path
) -> None:
    async with transactional(tmp_path) as broker:
        assert await broker.produce(data(sequence=1), version=version) == [code]
        assert broker.ends == [0 if code else 1, 0]


async def test_a_later_batch_is_refused_while_an_earlier_one_is_to_come_again(tmp_path: Path) -> None:
    async with transactional(tmp_path, ErrorCode.NOT_COORDINATOR, ErrorCode.NONE) as broker:
        assert await broker.produce(data(sequence=3), version=11) == [19]
        assert await broker.produce(data(sequence=4), version=11) == [45]
        assert await broker.produce(data(sequence=3), version=11) == [0]
        assert await broker.produce(data(sequence=4), version=11) == [0]
        assert broker.ends == [2, 0]


@pytest.mark.parametrize(("version", "questions"), [(9, 0), (11, 0), (12, 1)])
async def test_verification_can_be_switched_off(version: int, questions: int, tmp_path: Path) -> None:
    properties = {"transaction.partition.verification.enable": "false"}
    async with transactional(tmp_path, properties=properties) as broker:
        broker.node.log_manager.set_transaction_verification(verifies=False)
        assert await broker.produce(data(), version=version) == [0]
        assert len(broker.coordinators.asked) == questions


@pytest.mark.parametrize(("version", "code"), [(10, 19), (11, 19), (12, 51), (13, 51)])
async def test_concurrent_transactions(
    version: int, code: int, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Old producers are told at once; for new ones the broker waits for the end of the former transaction."""
    async with transactional(tmp_path, ErrorCode.CONCURRENT_TRANSACTIONS) as broker:
        before = trio.current_time()
        assert await broker.produce(data(), version=version) == [code]
        waited_ms = round(1000 * (trio.current_time() - before))
        assert (waited_ms >= 100) is (version >= 12)
        assert broker.ends == [0, 0]


async def test_the_end_of_the_former_transaction_lets_the_next_begin(tmp_path: Path) -> None:
    answers = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
    async with transactional(tmp_path, *answers) as broker:
        broker.node.verifier._backoff_ms = lambda: (20, 60_000)
        await broker.client.send(broker.request(data()), 12)
        while len(broker.coordinators.asked) < 3:
            await trio.lowlevel.checkpoint()
            broker.node.purgatory.touch(("txn", "tid"))
        _, response = await broker.client.receive(0, 12)
        assert produced(response).error_code == 0


async def test_the_end_of_another_transaction_is_no_news(tmp_path: Path) -> None:
    async with transactional(tmp_path, ErrorCode.CONCURRENT_TRANSACTIONS) as broker:
        broker.node.verifier._backoff_ms = lambda: (20, 60_000)
        await broker.client.send(broker.request(data()), 12)
        while not broker.coordinators.asked:
            await trio.lowlevel.checkpoint()
        broker.node.purgatory.touch(("txn", "other"))
        await trio.testing.wait_all_tasks_blocked()
        assert len(broker.coordinators.asked) == 1


async def test_a_marker_between_question_and_answer_refuses_the_batch(tmp_path: Path) -> None:
    response = CoordinatorResponse(None)
    async with transactional(tmp_path, response) as broker:
        await broker.client.send(broker.request(data(), version=11), 11)
        while not broker.coordinators.asked:
            await trio.lowlevel.checkpoint()
        broker.mark()
        broker.coordinators.give(response, ErrorCode.NONE)
        _, answer = await broker.client.receive(0, 11)
        assert produced(answer).error_code == ErrorCode.INVALID_TXN_STATE
        assert broker.ends == [1, 0]
        partition = broker.node.replica_manager.partition("t", 0)
        assert partition.log.last_stable_offset == 1


async def test_what_follows_on_the_connection_waits(tmp_path: Path) -> None:
    response = CoordinatorResponse(None)
    async with transactional(tmp_path, response) as broker:
        await broker.client.send(broker.request(data(b"1")), 12)
        await broker.client.send(broker.request(data(b"2", sequence=1)), 12)
        await broker.client.send(broker.request(batch(b"3"), transactional_id=None), 12)
        while not broker.coordinators.asked:
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        assert broker.ends == [0, 0]
        broker.coordinators.give(response, ErrorCode.NONE)
        for _ in range(3):
            _, answer = await broker.client.receive(0, 12)
            assert produced(answer).error_code == 0
        row = fetched(await broker.client.ask(fetch_request("t"), 12))
        assert values(row) == [(0, b"1"), (1, b"2"), (2, b"3")]
        assert len(broker.coordinators.asked) == 1


async def test_a_leader_that_has_lost_the_partition_meanwhile_appends_nothing(tmp_path: Path) -> None:
    response = CoordinatorResponse(None)
    async with transactional(tmp_path, response) as broker:
        await broker.client.send(broker.request(data()), 12)
        while not broker.coordinators.asked:
            await trio.lowlevel.checkpoint()
        partition = broker.node.replica_manager.partition("t", 0)
        partition.resign()
        assert len(partition.log.guards) == 0
        broker.coordinators.give(response, ErrorCode.NONE)
        _, answer = await broker.client.receive(0, 12)
        assert produced(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert broker.ends == [0, 0]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("is_answered_later", [False, True])
async def test_a_batch_for_the_threads_keeps_its_guard(
    codec: Codec, is_answered_later: bool, tmp_path: Path
) -> None:
    response = CoordinatorResponse(None)
    answers = [response, ErrorCode.NONE] if is_answered_later else [ErrorCode.NONE]
    value = b"".join(number.to_bytes(4, "big") for number in range(WRITTEN_ON_LOOP_BYTES // 3))
    async with transactional(tmp_path, *answers) as broker:
        await broker.client.send(broker.request(data(value, codec=codec), data()), 12)
        while not broker.coordinators.asked:
            await trio.lowlevel.checkpoint()
        if is_answered_later:
            broker.coordinators.give(response, ErrorCode.NONE)
        _, answer = await broker.client.receive(0, 12)
        assert [row.error_code for row in answer.responses[0].partition_responses] == [0, 0]
        assert broker.ends == [1, 1]
        broker.coordinators.answers = [ErrorCode.TRANSACTION_ABORTABLE]
        broker.mark()
        assert await broker.produce(data(value, sequence=1, codec=codec), version=11) == [120]
        assert broker.ends == [2, 1]


async def test_without_acks_a_refused_batch_closes_the_connection(tmp_path: Path) -> None:
    async with transactional(tmp_path, ErrorCode.TRANSACTION_ABORTABLE) as broker:
        await broker.client.send(broker.request(data(), acks=0), 12)
        assert await broker.client.is_closed()
        assert broker.ends == [0, 0]


async def test_a_repeated_batch_gets_its_former_offset(tmp_path: Path) -> None:
    async with transactional(tmp_path) as broker:
        assert await broker.produce(data()) == [0]
        again = produced(await broker.client.ask(broker.request(data()), 12))
        assert (again.error_code, again.base_offset) == (0, 0)
        assert broker.ends == [1, 0]
