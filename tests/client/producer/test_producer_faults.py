"""Under any request faults, an idempotent producer's records are in the log once and in order."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import trio

from kcli.client.config import ProducerConfig
from kcli.client.producer.producer import Producer
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.records.batch import RecordBatch
from tests.client.fake_brokers import Disconnect, FakeBrokers, NoAnswer, fake_cluster

RECORDS = 400


class Trouble:
    """Answers Produce requests at random: normally, late, with an error or not at all, after acting or
    not.
    """

    def __init__(self, brokers: FakeBrokers, seed: int, *, share: float) -> None:
        self.brokers = brokers
        self.random = random.Random(seed)
        self.share = share
        self.is_over = False
        self.happened: Counter[str] = Counter()
        brokers.script(ProduceRequest, self)

    async def __call__(self, node_id: int, request: ProduceRequest, version: int) -> Any:
        self.brokers.script(ProduceRequest, self)
        await trio.sleep(self.random.uniform(0, 0.03))
        if self.is_over or self.random.random() > self.share:
            return None
        kind = self.random.choice(
            ["lost", "answer lost", "error", "timed out", "silence", "moved", "refused"]
        )
        self.happened[kind] += 1
        match kind:
            case "lost":
                raise Disconnect
            case "answer lost":
                self.brokers._ProduceRequest(node_id, request, version)
                raise Disconnect
            case "silence":
                raise NoAnswer
            case "moved":
                self._move_leaders()
                return None
            case "timed out":
                answer = self.brokers._ProduceRequest(node_id, request, version)
                return self._with_code(answer, 7)
            case "refused":
                return self._refused(request)
        answer = FakeBrokers._ProduceRequest(self.brokers, -1, request, version)
        return self._with_code(answer, self.random.choice([6, 19, 3, 56]))

    def _move_leaders(self) -> None:
        for partition in self.brokers.topics["orders"]:
            if self.random.random() < 0.5:
                partition.leader = self.random.choice(list(self.brokers.nodes))
                partition.leader_epoch += 1

    def _with_code(self, answer: Any, code: int) -> Any:
        for topic in answer.responses:
            for row in topic.partition_responses:
                # A broker that answers 45 or 46 checked the numbers first.
                if row.error_code in (0, 6):
                    row.error_code = code
        return answer

    def _is_known(self, row: Any) -> bool:
        batch = RecordBatch(row.records)
        epoch, expected = self.brokers.topics["orders"][row.index].producers.get(batch.producer_id, (-1, 0))
        return bool(batch.producer_epoch == epoch and batch.base_sequence < expected)

    def _refused(self, request: ProduceRequest) -> Any:
        if any(self._is_known(row) for topic in request.topic_data for row in topic.partition_data):
            return None  # a broker that has a batch never refuses it afterwards
        answer = FakeBrokers._ProduceRequest(self.brokers, -1, request, 13)
        return self._with_code(answer, 87)


@pytest.mark.parametrize("in_flight", [1, 5])
@pytest.mark.parametrize("seed", range(12))
async def test_records_are_there_once_and_in_order(
    seed: int, in_flight: int, autojump_clock: trio.testing.MockClock
) -> None:
    config = ProducerConfig(
        max_in_flight_requests_per_connection=in_flight,
        batch_size=300,
        linger_ms=1,
        request_timeout_ms=2_000,
        delivery_timeout_ms=600_000,
    )
    async with (
        fake_cluster(nodes=2, topics={"orders": 3}) as (brokers, client),
        Producer(client, config) as producer,
    ):
        trouble = Trouble(brokers, seed, share=0.3)
        deliveries = []
        for number in range(RECORDS):
            deliveries.append(await producer.send("orders", b"%d" % number, partition=number % 3))
            if number % 5 == 0:
                await trio.sleep(0.01)
        await producer.flush()
        assert trouble.happened
        for index, partition in enumerate(brokers.topics["orders"]):
            mine = range(index, RECORDS, 3)
            errors = {number: deliveries[number].error for number in mine}
            refused = {error.code for error in errors.values() if error is not None}
            assert refused <= {ErrorCode.INVALID_RECORD}
            delivered = [number for number in mine if errors[number] is None]
            assert [int(value or b"") for value in partition.values()] == delivered
            for offset, number in enumerate(delivered):
                assert deliveries[number].result().offset in (offset, -1)
        assert producer.budget.available == producer.budget.total


@pytest.mark.parametrize("seed", range(8))
async def test_expired_deliveries_neither_duplicate_nor_reorder_the_others(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    config = ProducerConfig(batch_size=300, linger_ms=1, request_timeout_ms=1_000, delivery_timeout_ms=1_500)
    async with (
        fake_cluster(nodes=2, topics={"orders": 3}) as (brokers, client),
        Producer(client, config) as producer,
    ):
        trouble = Trouble(brokers, seed, share=0.5)
        deliveries = []
        for number in range(RECORDS):
            deliveries.append(await producer.send("orders", b"%d" % number, partition=number % 3))
            await trio.sleep(0.01)
        trouble.is_over = True
        await producer.flush()
        for index, partition in enumerate(brokers.topics["orders"]):
            written = [int(value or b"") for value in partition.values()]
            assert written == sorted(set(written))
            delivered = {number for number in range(index, RECORDS, 3) if deliveries[number].error is None}
            assert delivered <= set(written)
        last = await producer.send("orders", b"%d" % RECORDS, partition=0)
        assert (await last.wait()).offset == brokers.topics["orders"][0].end_offset - 1
