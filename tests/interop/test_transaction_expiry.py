"""What a broker forgets: partitions forget idle producers, and coordinators idle transactional ids.

The scenarios of Kafka's `TransactionsExpirationTest`, with clients of both protocols.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic
from tests.support.raw_client import RawClient
from tests.support.raw_transactions import RawTransactions
from tests.support.transaction_clients import Refused, TransactionClient
from tests.support.waiting import eventually, first

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.interop

TRANSACTIONAL_ID_NOT_FOUND = 105
SETTINGS = {
    "producer.id.expiration.ms": "200",
    "producer.id.expiration.check.interval.ms": "50",
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
}
WORDS = {
    "Java 4.3.1": "InvalidPidMappingException: ",
    "Java 2.8": "InvalidPidMappingException: ",
    "confluent-kafka": "code=_PURGE_QUEUE,",
    "kcli": "KafkaError: the producer id does not belong to the transactional id",
}
"""What the client of a forgotten transactional id says."""


class Session:
    """A client with a topic and a transactional id of its own."""

    def __init__(self, client: TransactionClient, bootstrap: str) -> None:
        self.client = client
        self.bootstrap = bootstrap
        self.name = client.name.lower().replace(" ", "-")
        self.raw = RawClient(bootstrap)
        self.sessions = 0

    def open(self) -> str:
        self.sessions += 1
        producer = f"{self.name}-{self.sessions}"
        self.client.do("open", producer=producer, bootstrap=self.bootstrap, id=self.name, timeout=60_000)
        return producer

    def transact(self, producer: str, tag: str, end: str) -> None:
        self.client.do("begin", producer=producer)
        self.client.do("send", producer=producer, topic=self.name, partitions=1, count=2, tag=tag)
        self.client.do(end, producer=producer)

    def known(self) -> list[tuple[int, int]]:
        """Return id and epoch of the producers that the partition knows."""
        request = DescribeProducersRequest(topics=[TopicRequest(name=self.name, partition_indexes=[0])])
        (topic,) = self.raw.ask(request, 0).topics
        (partition,) = topic.partitions
        return [(each.producer_id, each.producer_epoch) for each in partition.active_producers]

    def run(self) -> str:
        """Go through the scenario on a connection of its own."""
        with self.raw:
            return self._run()

    def _run(self) -> str:
        """Go on after the partition has forgotten the producer, and not after the coordinator has."""
        create_topic(self.bootstrap, self.name, 1)
        producer = self.open()
        self.transact(producer, "lost", "abort")
        eventually(lambda: not self.known(), "a partition that has forgotten its producer")
        self.transact(producer, "kept", "commit")
        transactions = RawTransactions(self.raw, self.name)
        first(
            lambda: transactions.describe().error_code,
            lambda code: code == TRANSACTIONAL_ID_NOT_FOUND,
            "a coordinator that has forgotten the transactional id",
        )
        try:
            self.transact(producer, "refused", "commit")
        except Refused as refused:
            said = str(refused)
        else:
            raise AssertionError(f"{self.name} went on")
        self.client.do("close", producer=producer)
        last = self.open()
        self.transact(last, "again", "commit")
        self.client.do("close", producer=last)
        return said


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[list[TransactionClient]]:
    """Their programs, started side by side."""
    with ThreadPoolExecutor(len(WORDS)) as pool:
        started = list(pool.map(lambda name: TransactionClient(name, tmp_path / f"{name}.log"), WORDS))
    yield started
    for client in started:
        client.kill()


def test_what_is_forgotten_stops_no_client_for_good(clients: list[TransactionClient], tmp_path: Path) -> None:
    broker = KcliBroker(tmp_path, settings=SETTINGS)
    broker.start()
    sessions = [Session(client, broker.bootstrap) for client in clients]
    with ThreadPoolExecutor(len(clients)) as pool:
        said = list(pool.map(Session.run, sessions))
    assert [
        words for words, expected in zip(said, WORDS.values(), strict=True) if expected not in words
    ] == []
    wanted = [(each.name, 0, 7) for each in sessions]
    for found in clients[0].read(broker.bootstrap, "read_committed", wanted):
        assert [(offset, value) for offset, _, value in found] == [
            (3, "kept-0-0"),
            (4, "kept-0-1"),
            (6, "again-0-0"),
            (7, "again-0-1"),
        ]
    assert broker.stop() == 0
