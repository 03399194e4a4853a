"""Transactional ids whose producers, or who themselves, are forgotten, and whose epochs are used up.

Scenarios of Kafka's `TransactionsTest` and `TransactionsExpirationTest`, with clients of both protocols.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.support.producing import create_topic
from tests.support.raw_client import RawClient
from tests.support.raw_transactions import RawTransactions
from tests.support.transaction_clients import Refused, TransactionClient
from tests.support.transaction_records import append_state
from tests.support.waiting import eventually, first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.protocol.internal.coordinator_records import TransactionLogValue
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

LOADING, TRANSACTIONAL_ID_NOT_FOUND = 14, 105
LAST_EPOCH = 32766
"""With the end of its transaction a producer gets another id."""
FORGETS_PRODUCERS = {"producer.id.expiration.ms": "200", "producer.id.expiration.check.interval.ms": "50"}
FORGETS_IDS = {
    "transactional.id.expiration.ms": "1",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
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
        self.producer = ""
        """The newest producer."""
        self.producers = 0

    def open(self, name: str = "") -> str:
        """Make a producer of an id, by default the own one; return its name."""
        self.producers += 1
        self.producer = f"{self.name}-{self.producers}"
        options = {"bootstrap": self.bootstrap, "id": name or self.name, "timeout": 60_000}
        self.client.do("open", producer=self.producer, **options)
        return self.producer

    def close(self, producer: str = "") -> None:
        self.client.do("close", producer=producer or self.producer)

    def begin(self, tag: str) -> None:
        """Begin a transaction with one record."""
        self.client.do("begin", producer=self.producer)
        self.client.do("send", producer=self.producer, topic=self.name, partitions=1, count=1, tag=tag)

    def transact(self, tag: str, end: str = "commit") -> None:
        self.begin(tag)
        self.client.do(end, producer=self.producer)

    def committed(self, last_offset: int) -> list[str]:
        """Return the values up to an offset that a reader of committed records sees."""
        (found,) = self.client.read(self.bootstrap, "read_committed", [(self.name, 0, last_offset)])
        return [value.removesuffix("-0-0") for _, _, value in found]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TransactionClient]]:
    """Their programs, started side by side."""
    directory = tmp_path_factory.mktemp("transactional-ids")
    with ThreadPoolExecutor(len(WORDS)) as pool:
        started = list(pool.map(lambda name: TransactionClient(name, directory / f"{name}.log"), WORDS))
    yield started
    for client in started:
        client.kill()


class Sessions:
    """A broker, and a session of every client."""

    def __init__(self, clients: list[TransactionClient], broker: KcliBroker) -> None:
        self.broker = broker.start()
        self.all = [Session(client, self.broker.bootstrap) for client in clients]

    def do(self, scenario: Callable[[Session, RawClient], str | None]) -> list[str | None]:
        """Have every client go through a scenario at a time, each with a raw connection."""

        def go(session: Session) -> str | None:
            with RawClient(session.bootstrap) as client:
                return scenario(session, client)

        with ThreadPoolExecutor(len(self.all)) as pool:
            return list(pool.map(go, self.all))

    def stop(self) -> None:
        assert self.broker.stop() == 0

    def restart(self, settings: dict[str, str]) -> None:
        self.stop()
        self.broker.configure(settings)
        self.broker.start()


# --- forgotten


def lose_the_producer(session: Session, client: RawClient) -> None:
    """Go on when the partition has forgotten the producer."""

    def known() -> int:
        request = DescribeProducersRequest(topics=[TopicRequest(name=session.name, partition_indexes=[0])])
        return len(client.ask(request, 0).topics[0].partitions[0].active_producers)

    create_topic(session.bootstrap, session.name, 1)
    session.open()
    session.transact("lost", "abort")
    eventually(lambda: known() == 0, "a partition that has forgotten its producer")
    session.transact("kept")


def lose_the_id(session: Session, client: RawClient) -> None:
    """Wait until the coordinator has forgotten the transactional id."""
    raw = RawTransactions(client, session.name)
    first(lambda: raw.describe().error_code, lambda code: code == TRANSACTIONAL_ID_NOT_FOUND, "no such id")


def begin_anew(session: Session, _: RawClient) -> str:
    """Return what the client of a forgotten id says, and go on with another one."""
    try:
        session.transact("refused")
    except Refused as refused:
        said = str(refused)
    else:
        raise AssertionError(f"{session.name} went on")
    session.close()
    session.open()
    session.transact("again")
    session.close()
    assert session.committed(4) == ["kept", "again"]
    return said


def test_what_is_forgotten_stops_no_client_for_good(
    clients: list[TransactionClient], new_kcli_broker: Callable[..., KcliBroker]
) -> None:
    sessions = Sessions(clients, new_kcli_broker(FORGETS_PRODUCERS))
    sessions.do(lose_the_producer)
    sessions.restart(FORGETS_IDS)
    sessions.do(lose_the_id)
    sessions.restart({})
    for said, expected in zip(sessions.do(begin_anew), WORDS.values(), strict=True):
        assert said is not None
        assert expected in said
    sessions.stop()


# --- epochs


def begin_ids(session: Session, client: RawClient) -> None:
    """Make the ids, and the topic."""
    create_topic(session.bootstrap, session.name, 1)
    for name in (session.name, f"fenced-{session.name}"):
        raw = RawTransactions(client, name)
        raw.find()
        begun = first(raw.init, lambda found: found.code != LOADING, "a producer id")
        assert (begun.code, begun.epoch) == (0, 0)


def use_up_epochs(session: Session, client: RawClient) -> None:
    """Commit across the last epoch, and leave an open transaction to the next session there."""
    own = RawTransactions(client, session.name)
    before = own.describe()
    for number in range(3):
        session.open()
        session.transact(f"{number}-a")
        session.transact(f"{number}-b")
        session.close()
    after = own.describe()
    assert before.producer_epoch == LAST_EPOCH - 2
    assert after.producer_id != before.producer_id
    assert after.producer_epoch < 10
    fenced = RawTransactions(client, f"fenced-{session.name}")
    former = session.open(fenced.id)
    session.begin("fenced")
    before = fenced.describe()
    assert before.producer_epoch == LAST_EPOCH
    session.open(fenced.id)
    after = fenced.describe()
    assert after.producer_id != before.producer_id
    assert after.producer_epoch == 1, "the abort has ended with epoch 0"
    session.transact("successor")
    assert session.client.refusal("commit", producer=former)
    session.close(former)
    session.close()
    wanted = [f"{number}-{letter}" for number in range(3) for letter in "ab"]
    assert session.committed(14) == [*wanted, "successor"]


def test_epochs_that_are_used_up_stop_no_client(
    clients: list[TransactionClient], new_kcli_broker: Callable[..., KcliBroker]
) -> None:
    sessions = Sessions(clients, new_kcli_broker({"transaction.state.log.num.partitions": "1"}))
    sessions.do(begin_ids)
    sessions.stop()
    for session in sessions.all:
        append_state(sessions.broker.node_directory, session.name, in_epoch(LAST_EPOCH - 2))
        append_state(sessions.broker.node_directory, f"fenced-{session.name}", in_epoch(LAST_EPOCH - 1))
    sessions.broker.start()
    sessions.do(use_up_epochs)
    sessions.stop()


def in_epoch(epoch: int) -> Callable[[TransactionLogValue], None]:
    def change(value: TransactionLogValue) -> None:
        value.producer_epoch = epoch

    return change
