"""TransactionVerifier: what it asks other nodes, what goes together, and when it asks again."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
from kcli.broker.replication.leader_endpoint import PeerUnreachable
from kcli.broker.transactions.transaction_verifier import TransactionVerifier, Verification
from kcli.broker.waiting.purgatory import Purgatory
from kcli.broker.waiting.timer import Timer
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC, TopicPartition
from tests.broker.transactions.scripted_coordinators import ScriptedCoordinators

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HERE, THERE, ELSEWHERE = 1, 2, 3
PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))


class Peers:
    """Other nodes. Each call waits until the test answers it with codes by transactional id, or an error."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, AddPartitionsToTxnRequest]] = []
        self.codes: list[dict[str, ErrorCode] | ErrorCode | None] = []
        self._answers: list[trio.Event] = []

    def link_to(self, node_id: int) -> Any:
        peers = self

        class Link:
            async def add_partitions_to_txn(
                self, request: AddPartitionsToTxnRequest
            ) -> AddPartitionsToTxnResponse:
                return await peers._call(node_id, request)

        return Link()

    async def _call(self, node_id: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        number = len(self.calls)
        self.calls.append((node_id, request))
        self._answers.append(trio.Event())
        self.codes.append(None)
        await self._answers[number].wait()
        codes = self.codes[number]
        if codes is None:
            raise PeerUnreachable("gone")
        if isinstance(codes, ErrorCode):
            return AddPartitionsToTxnResponse(error_code=codes)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=codes[each.transactional_id],
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in request.transactions
                if each.transactional_id in codes
            ]
        )

    async def answer(self, number: int, codes: dict[str, ErrorCode] | ErrorCode | None) -> None:
        """Answer a call; None: the node is unreachable."""
        self.codes[number] = codes
        self._answers[number].set()
        await trio.testing.wait_all_tasks_blocked()

    def ids(self, number: int) -> list[str]:
        return [each.transactional_id for each in self.calls[number][1].transactions]


class Cluster:
    """What the verifier needs of its node; `leaders` has the leader of the only coordinator partition."""

    def __init__(self, *answers: Any) -> None:
        self.node_id = HERE
        self.timer = Timer()
        self.purgatory = Purgatory(self.timer)
        self.leader: tuple[int, int] | None = (THERE, 0)
        self.peers = Peers()
        self.coordinators = ScriptedCoordinators(*answers)
        self.verifier: TransactionVerifier

    def current_leader(self, topic: str, index: int) -> tuple[int, int] | None:
        assert (topic, index) == (TRANSACTION_STATE_TOPIC, 0)
        return self.leader

    def verify(
        self,
        transactional_id: str = "a",
        *,
        epoch: int = 0,
        adds: bool = False,
        partitions: tuple[TopicPartition, ...] = PARTITIONS,
    ) -> Verification:
        return self.verifier.verify(transactional_id, 7, epoch, partitions, adds=adds)


@asynccontextmanager
async def cluster_of(*answers: Any) -> AsyncIterator[Cluster]:
    cluster = Cluster(*answers)
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.timer.run)
        cluster.verifier = TransactionVerifier(
            cluster,  # type: ignore[arg-type]
            cluster.coordinators,
            link_to=cluster.peers.link_to,
            start_soon=nursery.start_soon,
            backoff_ms=lambda: (20, 100),
        )
        yield cluster
        nursery.cancel_scope.cancel()


def all_have(verification: Verification, code: ErrorCode) -> bool:
    return verification.ended and verification.errors == dict.fromkeys(verification.partitions, code)


async def test_the_question_names_the_transaction_and_its_partitions() -> None:
    async with cluster_of() as cluster:
        cluster.verify("a", epoch=3, adds=True)
        cluster.verify("b")
        await trio.testing.wait_all_tasks_blocked()
        ((node_id, request),) = cluster.peers.calls
        assert node_id == THERE
        first, second = request.transactions
        assert (first.transactional_id, first.producer_id, first.producer_epoch) == ("a", 7, 3)
        assert (first.verify_only, second.verify_only) == (False, True)
        assert [(topic.name, topic.partitions) for topic in first.topics] == [("t", [0, 1]), ("u", [0])]


async def test_each_question_gets_its_own_answer() -> None:
    async with cluster_of() as cluster:
        first, second = cluster.verify("a"), cluster.verify("b")
        await trio.testing.wait_all_tasks_blocked()
        await cluster.peers.answer(0, {"b": ErrorCode.NONE, "a": ErrorCode.TRANSACTION_ABORTABLE})
        assert all_have(first, ErrorCode.TRANSACTION_ABORTABLE)
        assert all_have(second, ErrorCode.NONE)


async def test_one_call_at_a_time_and_what_queues_meanwhile_goes_together() -> None:
    async with cluster_of() as cluster:
        cluster.verify("a")
        await trio.testing.wait_all_tasks_blocked()
        later = [cluster.verify(name) for name in "bcd"]
        await trio.testing.wait_all_tasks_blocked()
        assert len(cluster.peers.calls) == 1
        cluster.leader = (ELSEWHERE, 0)
        cluster.verify("e")
        await trio.testing.wait_all_tasks_blocked()
        assert [node_id for node_id, _ in cluster.peers.calls] == [THERE, ELSEWHERE]
        await cluster.peers.answer(0, {"a": ErrorCode.NONE})
        assert cluster.peers.ids(2) == ["b", "c", "d"]
        await cluster.peers.answer(2, dict.fromkeys("bcd", ErrorCode.NONE))
        assert all(all_have(each, ErrorCode.NONE) for each in later)
        cluster.leader = (THERE, 0)
        cluster.verify("f")
        await trio.testing.wait_all_tasks_blocked()
        assert cluster.peers.ids(3) == ["f"]


@pytest.mark.parametrize(
    ("former", "latter", "first_code", "second_code"),
    [
        (3, 3, ErrorCode.NETWORK_EXCEPTION, None),
        (3, 4, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (3, 2, None, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_a_second_question_of_an_id_while_the_first_is_queued(
    former: int, latter: int, first_code: ErrorCode | None, second_code: ErrorCode | None
) -> None:
    async with cluster_of() as cluster:
        cluster.verify("busy")
        await trio.testing.wait_all_tasks_blocked()
        first, second = cluster.verify(epoch=former), cluster.verify(epoch=latter)
        for verification, code in ((first, first_code), (second, second_code)):
            assert all_have(verification, code) if code is not None else not verification.ended
        await cluster.peers.answer(0, {"busy": ErrorCode.NONE})
        assert [each.producer_epoch for each in cluster.peers.calls[1][1].transactions] == [
            former if first_code is None else latter
        ]


async def test_a_question_under_way_is_not_replaced() -> None:
    async with cluster_of() as cluster:
        first = cluster.verify(epoch=3)
        await trio.testing.wait_all_tasks_blocked()
        second = cluster.verify(epoch=4)
        assert not first.ended
        await cluster.peers.answer(0, {"a": ErrorCode.NONE})
        assert all_have(first, ErrorCode.NONE)
        await cluster.peers.answer(1, {"a": ErrorCode.PRODUCER_FENCED})
        assert all_have(second, ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, ErrorCode.NETWORK_EXCEPTION),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ({}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_call_that_fails_fails_every_question(answer: Any, code: ErrorCode) -> None:
    async with cluster_of() as cluster:
        questions = [cluster.verify(name, adds=True) for name in "ab"]
        await trio.testing.wait_all_tasks_blocked()
        await cluster.peers.answer(0, answer)
        assert all(all_have(each, code) for each in questions)


@pytest.mark.parametrize("leader", [None, (-1, 5)])
async def test_without_a_coordinator_the_answer_is_there_at_once(leader: tuple[int, int] | None) -> None:
    async with cluster_of() as cluster:
        cluster.leader = leader
        assert all_have(cluster.verify(), ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_another_node_is_asked_again_until_the_former_transaction_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of() as cluster:
        question = cluster.verify(adds=True)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(3):
            await cluster.peers.answer(number, {"a": ErrorCode.CONCURRENT_TRANSACTIONS})
            assert not question.ended
            await trio.sleep(0.021)
            assert len(cluster.peers.calls) == number + 2
        await cluster.peers.answer(3, {"a": ErrorCode.NONE})
        assert all_have(question, ErrorCode.NONE)


async def test_another_node_is_asked_no_longer_than_allowed(autojump_clock: trio.testing.MockClock) -> None:
    async with cluster_of() as cluster:
        question = cluster.verify(adds=True)
        await trio.testing.wait_all_tasks_blocked()
        number = 0
        while not question.ended:
            await cluster.peers.answer(number, {"a": ErrorCode.CONCURRENT_TRANSACTIONS})
            await trio.sleep(0.021)
            number += 1
        assert number == 6
        assert all_have(question, ErrorCode.CONCURRENT_TRANSACTIONS)


async def test_the_coordinator_may_move_while_the_former_transaction_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(ErrorCode.NONE) as cluster:
        question = cluster.verify(adds=True)
        await trio.testing.wait_all_tasks_blocked()
        cluster.leader = (HERE, 1)
        await cluster.peers.answer(0, {"a": ErrorCode.CONCURRENT_TRANSACTIONS})
        await trio.sleep(0.021)
        assert all_have(question, ErrorCode.NONE)
        assert len(cluster.coordinators.asked) == 1


@pytest.mark.parametrize("is_here", [True, False])
async def test_who_only_verifies_is_told_of_concurrent_transactions_at_once(is_here: bool) -> None:
    async with cluster_of(ErrorCode.CONCURRENT_TRANSACTIONS) as cluster:
        if is_here:
            cluster.leader = (HERE, 0)
        question = cluster.verify()
        if not is_here:
            await trio.testing.wait_all_tasks_blocked()
            await cluster.peers.answer(0, {"a": ErrorCode.CONCURRENT_TRANSACTIONS})
        assert all_have(question, ErrorCode.CONCURRENT_TRANSACTIONS)


async def test_a_coordinator_of_the_own_node_is_asked_directly() -> None:
    async with cluster_of({PARTITIONS[0]: ErrorCode.NONE, PARTITIONS[1]: ErrorCode(3)}) as cluster:
        cluster.leader = (HERE, 0)
        question = cluster.verify()
        assert question.ended
        assert question.errors == {PARTITIONS[0]: 0, PARTITIONS[1]: 3}
        assert cluster.peers.calls == []


async def test_a_coordinator_of_the_own_node_may_refuse() -> None:
    async with cluster_of(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)) as cluster:
        cluster.leader = (HERE, 0)
        assert all_have(cluster.verify(adds=True), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def test_an_answer_after_the_time_for_concurrent_transactions_still_counts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    response = CoordinatorResponse(None)
    async with cluster_of(response) as cluster:
        cluster.leader = (HERE, 0)
        question = cluster.verify(adds=True)
        await trio.sleep(0.2)
        assert not question.ended
        cluster.coordinators.give(response, ErrorCode.NONE)
        assert all_have(question, ErrorCode.NONE)


async def test_a_touch_while_the_coordinator_writes_asks_no_second_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    response = CoordinatorResponse(None)
    async with cluster_of(ErrorCode.CONCURRENT_TRANSACTIONS, response, ErrorCode.NONE) as cluster:
        cluster.leader = (HERE, 0)
        question = cluster.verify(adds=True)
        for _ in range(3):
            cluster.purgatory.touch(("txn", "a"))
            await trio.testing.wait_all_tasks_blocked()
        assert len(cluster.coordinators.asked) == 2
        cluster.coordinators.give(response, ErrorCode.NONE)
        assert all_have(question, ErrorCode.NONE)
        assert (cluster.purgatory.watched_keys, cluster.timer.count) == (0, 0)


async def test_a_question_that_nobody_waits_for_any_more_is_dropped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    response = CoordinatorResponse(None)
    async with cluster_of(response, ErrorCode.CONCURRENT_TRANSACTIONS) as cluster:
        cluster.leader = (HERE, 0)
        writing, waiting = cluster.verify(adds=True), cluster.verify("b", adds=True)
        cluster.leader = (THERE, 0)
        queued = cluster.verify("c", adds=True)
        for question in (writing, waiting, queued):
            cluster.purgatory.drop(question)
        cluster.coordinators.give(response, ErrorCode.NONE)
        cluster.purgatory.touch(("txn", "b"))
        await trio.testing.wait_all_tasks_blocked()
        assert cluster.peers.calls == []
        assert (cluster.purgatory.watched_keys, cluster.timer.count) == (0, 0)
