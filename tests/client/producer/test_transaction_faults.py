"""Under any request faults, what is committed is what the producer was told, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from kcli.client.admin.types import CommittedOffset
from kcli.client.groups.classic_membership import GroupMetadata
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import Disconnect
from tests.client.fake_transactions import TransactionalBrokers, transactional, transactional_cluster
from tests.client.producer.sending import produced

TRANSACTIONS = 40
FAULTY = (
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest,
    TxnOffsetCommitRequest,
)  # fmt: skip


class Trouble:
    """Answers requests about transactions at random: normally, late, not at all, or with an error."""

    def __init__(self, brokers: TransactionalBrokers, seed: int) -> None:
        self.brokers = brokers
        self.random = random.Random(seed)
        self.happened: Counter[str] = Counter()
        for request_class in FAULTY:
            brokers.script(request_class, self)

    async def __call__(self, node_id: int, request: Any, version: int) -> Any:
        self.brokers.script(type(request), self)
        await trio.sleep(self.random.uniform(0, 0.03))
        if self.random.random() > 0.25:
            return None
        kind = self.random.choice(["lost", "answer lost", "busy", "refused"])
        self.happened[kind] += 1
        match kind:
            case "lost":
                raise Disconnect
            case "answer lost":
                getattr(self.brokers, f"_{type(request).__name__}")(node_id, request, version)
                raise Disconnect
            case "busy":
                return self.busy(request)
        # A record of the transaction is refused for good: only the abort is left.
        return produced(87) if isinstance(request, ProduceRequest) else None

    def busy(self, request: Any) -> Any:
        match request:
            case EndTxnRequest():
                return EndTxnResponse(error_code=51)
            case InitProducerIdRequest():
                return InitProducerIdResponse(error_code=51, producer_epoch=-1)
            case ProduceRequest():
                return produced(self.random.choice([51, 19]))
        return None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("level", [0, 2])
async def test_what_is_committed_is_what_the_producer_was_told(
    level: int, seed: int, autojump_clock: MockClock
) -> None:
    told: list[bytes] = []
    offset = -1
    outsider = GroupMetadata("g", -1, "", None)
    async with (
        transactional_cluster(level) as (brokers, client),
        transactional(client, linger_ms=2, retry_backoff_ms=5) as producer,
    ):
        chance = random.Random(seed)
        await producer.init_transactions()
        trouble = Trouble(brokers, seed)
        for number in range(TRANSACTIONS):
            values = [b"%d-%d" % (number, index) for index in range(chance.randrange(8))]
            try:
                async with producer.transaction():
                    for value in values:
                        await producer.send("orders", value, partition=0)
                        await trio.sleep(chance.choice([0, 0, 0.01]))
                    if chance.random() < 0.3:
                        await producer.send_offsets(
                            {TopicPartition("in", 0): CommittedOffset(number)}, outsider
                        )
                        sent = number
                    else:
                        sent = offset
                    if chance.random() < 0.2:
                        raise ValueError  # the user's own
            except (KafkaError, ValueError):
                continue
            told += values
            offset = sent
        assert producer.transactions.cause is None
    assert brokers.committed == told
    assert brokers.offsets.get(("in", 0), -1) == offset
    assert len(told) > TRANSACTIONS // 2
    assert set(trouble.happened) == {"lost", "answer lost", "busy", "refused"}
