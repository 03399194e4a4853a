"""Transactional batches by raw frames, right and wrong ones: kcli and Apache Kafka give the same codes.

What is refused leaves no record, and no transaction open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pytest

from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from tests.support.raw_client import RawClient
from tests.support.raw_transactions import RawTransactions
from tests.support.records import FIRST_TIMESTAMP
from tests.support.waiting import eventually, first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.conftest import AnyBroker

pytestmark = pytest.mark.interop

SEQUENCE, FENCED, INVALID_STATE, UNKNOWN_PRODUCER, DENIED, NOT_ADDED = 45, 47, 48, 49, 53, 120
LOADING, NO_SUCH_ID = 14, 105


class Batch(NamedTuple):
    """One record for a partition; transactional unless it says otherwise."""

    producer_id: int
    epoch: int
    sequence: int
    index: int = 0
    is_transactional: bool = True

    def data(self) -> bytes:
        builder = RecordBatchBuilder(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=self.is_transactional,
        )
        builder.append(FIRST_TIMESTAMP, b"key", b"value")
        return bytes(builder.build())


class Session:
    """A transactional id in epoch 0, and a topic with two partitions."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.topic = f"produce-{uuid4().hex[:8]}"
        wanted = CreatableTopic(
            name=self.topic, num_partitions=2, replication_factor=1, assignments=[], configs=[]
        )
        (created,) = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 5).topics
        assert created.error_code == 0
        self.transactions = RawTransactions(client, f"raw-{uuid4()}")
        self.transactions.find()
        first(
            lambda: self.transactions.describe().error_code, lambda code: code == NO_SUCH_ID, "a coordinator"
        )
        begun = first(self.transactions.init, lambda found: found.code != LOADING, "a producer id")
        assert (begun.code, begun.epoch) == (0, 0)
        self.producer_id = begun.producer_id
        eventually(lambda: self.ends() == [(0, 0), (0, 0)], "leaders that know that they lead")

    def batch(self, sequence: int, **fields: Any) -> Batch:
        return Batch(**{"producer_id": self.producer_id, "epoch": 0, "sequence": sequence, **fields})

    def produce(self, version: int, *batches: Batch, transactional_id: str | None = "") -> list[int]:
        """Return the error codes; the transactional id is the own one by default."""
        own = self.transactions.id if transactional_id == "" else transactional_id
        rows = [PartitionProduceData(index=each.index, records=each.data()) for each in batches]
        request = ProduceRequest(
            transactional_id=own,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=rows)],
        )
        response = self.client.ask(request, version)
        found = {row.index: row.error_code for row in response.responses[0].partition_responses}
        return [found[each.index] for each in batches]

    def add(self, *indexes: int) -> None:
        partitions = [(self.topic, index) for index in indexes]
        codes = first(
            lambda: self.transactions.add((self.producer_id, 0), *partitions),
            lambda found: 51 not in found,
            "the end of the former transaction",
        )
        assert codes == [0] * len(indexes)

    def ends(self) -> list[tuple[int, int]]:
        """Return the high watermark and the last stable offset of each partition, -1 for an error."""
        found = []
        for isolation in (0, 1):
            rows = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(2)]
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[ListOffsetsTopic(name=self.topic, partitions=rows)],
            )
            (topic,) = self.client.ask(request, 5).topics
            rows_found = sorted(topic.partitions, key=lambda row: row.partition_index)
            found.append([-1 if row.error_code else row.offset for row in rows_found])
        return list(zip(*found, strict=True))

    def settle(self, *ends: tuple[int, int]) -> None:
        """Wait until the markers are written."""
        eventually(lambda: self.ends() == list(ends), f"the ends {ends}", seen=self.ends)


@pytest.fixture
def session(broker: AnyBroker) -> Iterator[Session]:
    with RawClient(broker.bootstrap) as client:
        yield Session(client)


def test_a_partition_that_was_never_added(session: Session) -> None:
    session.add(1)
    for version, code in ((3, INVALID_STATE), (9, INVALID_STATE), (10, INVALID_STATE), (11, NOT_ADDED)):
        assert session.produce(version, session.batch(0)) == [code]
    assert session.ends() == [(0, 0), (0, 0)]
    assert session.produce(9, session.batch(0, index=1)) == [0]
    assert session.produce(12, session.batch(0)) == [0]
    assert session.ends() == [(1, 0), (1, 0)]


def test_producers_that_the_coordinator_does_not_know(session: Session) -> None:
    session.add(0)
    for version in (9, 11, 12):
        assert session.produce(version, session.batch(0), transactional_id="unknown") == [UNKNOWN_PRODUCER]
        other = session.batch(0, producer_id=session.producer_id + 1_000_000)
        assert session.produce(version, other) == [UNKNOWN_PRODUCER]
        assert session.produce(version, session.batch(0, epoch=1)) == [FENCED]
        assert session.produce(version, session.batch(0), transactional_id=None) == [DENIED]
    assert session.ends() == [(0, 0), (0, 0)]


def test_batches_of_two_producers(session: Session) -> None:
    session.add(0, 1)
    other = session.batch(0, index=1, producer_id=session.producer_id + 1_000_000)
    newer = session.batch(0, index=1, epoch=1)
    for version in (9, 12):
        assert session.produce(version, session.batch(0), other) == [UNKNOWN_PRODUCER] * 2
        assert session.produce(version, session.batch(0), newer) == [UNKNOWN_PRODUCER] * 2
    assert session.ends() == [(0, 0), (0, 0)]


def test_the_first_sequence(session: Session) -> None:
    session.add(0)
    assert session.produce(12, session.batch(3, index=1)) == [SEQUENCE]
    assert session.produce(12, session.batch(0, index=1)) == [0]
    assert session.produce(11, session.batch(3)) == [0]
    assert session.produce(11, session.batch(5)) == [SEQUENCE]
    assert session.produce(11, session.batch(3)) == [0]  # a repetition
    assert session.ends() == [(1, 0), (1, 0)]


def test_a_batch_that_overtakes_a_refused_one(session: Session) -> None:
    assert session.produce(9, session.batch(4)) == [INVALID_STATE]
    session.add(0)
    assert session.produce(9, session.batch(5)) == [SEQUENCE]
    assert session.produce(9, session.batch(4)) == [0]
    assert session.produce(9, session.batch(5)) == [0]
    assert session.ends()[0] == (2, 0)


def test_data_outside_of_the_open_transaction(session: Session) -> None:
    session.add(0)
    assert session.produce(9, session.batch(0)) == [0]
    assert session.produce(9, session.batch(1, is_transactional=False)) == [INVALID_STATE]
    assert session.produce(9, session.batch(1)) == [0]
    assert session.ends()[0] == (2, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_a_batch_that_comes_after_the_end(session: Session, commit: bool) -> None:
    session.add(0)
    assert session.produce(9, session.batch(0)) == [0]
    assert session.transactions.end((session.producer_id, 0), commit=commit, version=4).code == 0
    session.settle((2, 2), (0, 0))
    assert session.produce(9, session.batch(1)) == [INVALID_STATE]
    assert session.produce(11, session.batch(1)) == [NOT_ADDED]
    assert session.ends() == [(2, 2), (0, 0)]
    session.add(0)
    assert session.produce(9, session.batch(1)) == [0]
    assert session.ends() == [(3, 2), (0, 0)]


@pytest.mark.parametrize("commit", [True, False])
def test_a_batch_that_comes_after_the_end_of_the_second_protocol(session: Session, commit: bool) -> None:
    """The end has raised the epoch, also on the partition."""
    assert session.produce(12, session.batch(0)) == [0]
    ended = session.transactions.end((session.producer_id, 0), commit=commit, version=5)
    assert ended == (0, session.producer_id, 1)
    session.settle((2, 2), (0, 0))
    for version in (9, 11, 12):
        assert session.produce(version, session.batch(1)) == [FENCED]
    assert session.ends() == [(2, 2), (0, 0)]
    codes = first(
        lambda: session.produce(12, session.batch(0, epoch=1)), lambda found: found != [51], "an end"
    )
    assert codes == [0]
    assert session.ends() == [(3, 2), (0, 0)]
