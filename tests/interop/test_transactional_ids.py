"""Transactional ids whose producers, or who themselves, are forgotten, and whose epochs are used up.

Scenarios of Kafka's `TransactionsTest` and `TransactionsExpirationTest`, with clients of both protocols.
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
from tests.support.transaction_records import append_state
from tests.support.waiting import eventually, first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kcli.protocol.internal.coordinator_records import TransactionLogValue

pytestmark = pytest.mark.interop

LOADING, TRANSACTIONAL_ID_NOT_FOUND = 14, 105
LAST_EPOCH = 32766
"""With the end of its transaction a producer gets another id."""
FORGETFUL = {
    "producer.id.expiration.ms": "200",
    "producer.id.expiration.check.interval.ms": "50",
    "transactional.id.expiration.ms": "4000",
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
    """A client with a topic and a transactional id of its own, which have its name."""

    def __init__(self, client: TransactionClient, bootstrap: str) -> None:
        self.client = client
        self.bootstrap = bootstrap
        self.name = client.name.lower().replace(" ", "-")
        self.raw = RawClient(bootstrap)
        self.transactions = RawTransactions(self.raw, self.name)
        self.producers = 0

    def open(self, name: str = "") -> str:
        """Make a producer of an id, by default the own one; return its name."""
        self.producers += 1
        producer = f"{self.name}-{self.producers}"
        self.client.do(
            "open", producer=producer, bootstrap=self.bootstrap, id=name or self.name, timeout=60_000
        )
        return producer

    def close(self, producer: str) -> None:
        self.client.do("close", producer=producer)

    def begin(self, producer: str, tag: str) -> None:
        """Begin a transaction with one record."""
        self.client.do("begin", producer=producer)
        self.client.do("send", producer=producer, topic=self.name, partitions=1, count=1, tag=tag)

    def transact(self, producer: str, tag: str, end: str = "commit") -> None:
        self.begin(producer, tag)
        self.client.do(end, producer=producer)

    def committed(self, last_offset: int) -> list[str]:
        """Return the values up to an offset that a reader of committed records sees."""
        (found,) = self.client.read(self.bootstrap, "read_committed", [(self.name, 0, last_offset)])
        return [value.removesuffix("-0-0") for _, _, value in found]


# --- forgotten


def known_producers(session: Session) -> int:
    """Return how many producers the partition knows."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=session.name, partition_indexes=[0])])
    (topic,) = session.raw.ask(request, 0).topics
    return len(topic.partitions[0].active_producers)


def be_forgotten(session: Session) -> str:
    """Go on when the partition has forgotten the producer, but not when the coordinator has the id.

    Return what the client says then.
    """
    with session.raw:
        create_topic(session.bootstrap, session.name, 1)
        producer = session.open()
        session.transact(producer, "lost", "abort")
        eventually(lambda: not known_producers(session), "a partition that has forgotten its producer")
        session.transact(producer, "kept")
        first(
            lambda: session.transactions.describe().error_code,
            lambda code: code == TRANSACTIONAL_ID_NOT_FOUND,
            "a coordinator that has forgotten the transactional id",
        )
        try:
            session.transact(producer, "refused")
        except Refused as refused:
            said = str(refused)
        else:
            raise AssertionError(f"{session.name} went on")
        session.close(producer)
        last = session.open()
        session.transact(last, "again")
        session.close(last)
        assert session.committed(4) == ["kept", "again"]
    return said


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TransactionClient]]:
    """Their programs, started side by side."""
    directory = tmp_path_factory.mktemp("transactional-ids")
    with ThreadPoolExecutor(len(WORDS)) as pool:
        started = list(pool.map(lambda name: TransactionClient(name, directory / f"{name}.log"), WORDS))
    yield started
    for client in started:
        client.kill()


def all_do(scenario: Callable[[Session], str], clients: list[TransactionClient], bootstrap: str) -> list[str]:
    """Have every client go through a scenario at a time."""
    with ThreadPoolExecutor(len(clients)) as pool:
        return list(pool.map(lambda client: scenario(Session(client, bootstrap)), clients))


def test_what_is_forgotten_stops_no_client_for_good(clients: list[TransactionClient], tmp_path: Path) -> None:
    broker = KcliBroker(tmp_path, settings=FORGETFUL)
    broker.start()
    said = all_do(be_forgotten, clients, broker.bootstrap)
    for words, expected in zip(said, WORDS.values(), strict=True):
        assert expected in words
    assert broker.stop() == 0


# --- epochs


def begin_ids(session: Session) -> str:
    """Make the ids, and the topic."""
    with session.raw:
        create_topic(session.bootstrap, session.name, 1)
        for name in (session.name, f"fenced-{session.name}"):
            raw = RawTransactions(session.raw, name)
            raw.find()
            begun = first(raw.init, lambda found: found.code != LOADING, "a producer id")
            assert (begun.code, begun.epoch) == (0, 0)
    return session.name


def use_up_epochs(session: Session) -> str:
    """Commit across the last epoch, and leave an open transaction to the next session there."""
    with session.raw:
        before = session.transactions.describe()
        for number in range(3):
            producer = session.open()
            session.transact(producer, f"{number}-a")
            session.transact(producer, f"{number}-b")
            session.close(producer)
        after = session.transactions.describe()
        assert before.producer_epoch == LAST_EPOCH - 2
        assert after.producer_id != before.producer_id
        assert after.producer_epoch < 10
        producer = session.open(f"fenced-{session.name}")
        session.begin(producer, "fenced")
        fenced = RawTransactions(session.raw, f"fenced-{session.name}")
        before = fenced.describe()
        assert before.producer_epoch == LAST_EPOCH
        successor = session.open(f"fenced-{session.name}")
        after = fenced.describe()
        assert after.producer_id != before.producer_id
        # The abort ended with epoch 0.
        assert after.producer_epoch == 1
        session.transact(successor, "successor")
        assert session.client.refusal("commit", producer=producer)
        session.close(producer)
        session.close(successor)
        wanted = [f"{number}-{letter}" for number in range(3) for letter in "ab"]
        assert session.committed(14) == [*wanted, "successor"]
    return session.name


def test_epochs_that_are_used_up_stop_no_client(clients: list[TransactionClient], tmp_path: Path) -> None:
    broker = KcliBroker(tmp_path, settings={"transaction.state.log.num.partitions": "1"})
    broker.start()
    names = all_do(begin_ids, clients, broker.bootstrap)
    assert broker.stop() == 0
    for name in names:
        append_state(broker.node_directory, name, in_epoch(LAST_EPOCH - 2))
        append_state(broker.node_directory, f"fenced-{name}", in_epoch(LAST_EPOCH - 1))
    broker.start()
    assert all_do(use_up_epochs, clients, broker.bootstrap) == names
    assert broker.stop() == 0


def in_epoch(epoch: int) -> Callable[[TransactionLogValue], None]:
    def change(value: TransactionLogValue) -> None:
        value.producer_epoch = epoch

    return change
