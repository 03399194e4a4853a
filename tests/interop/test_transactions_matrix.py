"""Every client's transactions, and what every client reads of them, record by record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.producing import create_topic, produce
from tests.support.records import TestRecord
from tests.support.transaction_clients import PROGRAMS, Kcat, TransactionClient
from tests.support.transaction_load import PARTITIONS, is_stable
from tests.support.transaction_program import key_of, value_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.apache_kafka import ApacheKafka
    from tests.support.kcli_broker import KcliBroker
    from tests.support.transaction_clients import Row

pytestmark = pytest.mark.interop

COUNT = 4
"""Records that one `send` gives each partition."""
SOURCE = "transactions-source"
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
LONG_MS, SHORT_MS = 60_000, 1_000
OUTER = "outer"
"""The transaction that is aborted after another one that began later."""
MISLED = "KafkaJS"
"""It takes the aborted transactions of a response to be in the order of their first offsets. They are in
that of their markers, as from Apache Kafka, so that it shows the records of `OUTER`."""


class Words(NamedTuple):
    """How a client begins to say that it cannot commit."""

    fenced: str
    """Its transactional id has another producer."""
    timed_out: str
    """The broker has aborted the transaction."""


NOTHING = Words("", "")
FENCED_BY_LIBRDKAFKA = "KafkaException: KafkaError{FATAL,code=_FENCED,"
WORDS = {
    # To EndTxn 5 the epoch that was raised by the abort looks like an answer that was lost.
    "Java 4.3.1": Words("ProducerFencedException: ", "InvalidTxnStateException: "),
    "franz-go": Words("PRODUCER_FENCED: ", "INVALID_TXN_STATE: "),
    "Java 3.9": Words("ProducerFencedException: ", "ProducerFencedException: "),
    "Java 2.8": Words("ProducerFencedException: ", "ProducerFencedException: "),
    "confluent-kafka": Words(FENCED_BY_LIBRDKAFKA, FENCED_BY_LIBRDKAFKA),
    "kafka-python": Words("ProducerFencedError: ", "ProducerFencedError: "),
    "aiokafka": Words("ProducerFenced: ", "ProducerFenced: "),
    # It sends EndTxn 2 and does not know PRODUCER_FENCED by name.
    "sarama": Words(
        "Unknown error, how did this happen? Error code = 90",
        "Unknown error, how did this happen? Error code = 90",
    ),
    # It sends EndTxn 1, which has no other code.
    "KafkaJS": Words("INVALID_PRODUCER_EPOCH: ", "INVALID_PRODUCER_EPOCH: "),
    "kcli": Words(
        "TransactionFailed: another producer has taken over the transactional id",
        "TransactionFailed: the transaction's state does not allow this",
    ),
}


@dataclass(slots=True)
class Sent:
    """The records of one transaction: offset, key and tag, in each partition the same."""

    first: int
    tag: str
    is_committed: bool = False


@dataclass(slots=True)
class Story:
    """What one client did in a topic of its own."""

    topic: str
    transactions: list[Sent] = field(default_factory=list)
    end: int = 0
    """The next offset in each partition."""
    said: Words = NOTHING

    def sent(self, tag: str) -> Sent:
        """A transaction's records were sent."""
        self.transactions.append(Sent(self.end, tag))
        self.end += COUNT
        return self.transactions[-1]

    def ended(self, sent: Sent, *, is_committed: bool) -> None:
        """A marker was written."""
        sent.is_committed = is_committed
        self.end += 1

    def visible(self, partition: int, isolation: str) -> list[Row]:
        """What is to be read of a partition."""
        return [
            (sent.first + number, key_of(number), value_of(sent.tag, partition, number))
            for sent in self.transactions
            if sent.is_committed or isolation == "read_uncommitted"
            for number in range(COUNT)
        ] + [(self.end, "end", "end")]


class Scenario:
    """One client sends to three partitions and sends offsets, commits, aborts, is fenced and times out."""

    def __init__(self, client: TransactionClient, bootstrap: str) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._name = client.name.lower().replace(" ", "-")
        self._group = f"transactions-{self._name}"
        self._story = Story(f"transactions-{self._name}")

    def run(self) -> Story:
        """The story of the topic."""
        create_topic(self._bootstrap, self._story.topic, PARTITIONS)
        self._commit_and_abort()
        self._overlap()
        fenced = self._be_fenced()
        timed_out = self._time_out()
        for partition in range(PARTITIONS):
            last = TestRecord(partition, -1, -1, b"end", b"end")
            produce(self._bootstrap, self._story.topic, [last])
        self._story.said = Words(fenced, timed_out)
        return self._story

    def _open(self, producer: str, number: int, timeout_ms: int, **more: str) -> None:
        transactional_id = f"{self._name}-{number}"
        self._client.do(
            "open",
            producer=producer,
            bootstrap=self._bootstrap,
            id=transactional_id,
            timeout=timeout_ms,
            **more,
        )

    def _begin(self, producer: str, tag: str) -> Sent:
        self._client.do("begin", producer=producer)
        topic = self._story.topic
        self._client.do("send", producer=producer, topic=topic, partitions=PARTITIONS, count=COUNT, tag=tag)
        return self._story.sent(tag)

    def _end(self, producer: str, sent: Sent, *, is_committed: bool) -> None:
        self._client.do("commit" if is_committed else "abort", producer=producer)
        self._story.ended(sent, is_committed=is_committed)
        if producer != "inner":
            self._wait_for_markers()

    def _wait_for_markers(self) -> None:
        """Coordinators answer before they are written, so that another producer's records may come first."""
        eventually(lambda: is_stable(self._bootstrap, self._story.topic), "no transaction is open")

    def _commit_and_abort(self) -> None:
        self._open("group", 1, LONG_MS, group=self._group, source=SOURCE)
        for tag, position, is_committed in (("first", 2, True), ("second", 4, False), ("third", 5, True)):
            sent = self._begin("group", tag)
            self._client.do("offsets", producer="group", group=self._group, topic=SOURCE, position=position)
            self._end("group", sent, is_committed=is_committed)
            expected = 2 if position < 5 else 5
            assert committed(self._bootstrap, self._group) == expected, (self._name, tag)
        self._client.do("close", producer="group")

    def _overlap(self) -> None:
        self._open("outer", 1, LONG_MS)
        self._open("inner", 2, LONG_MS)
        outer = self._begin("outer", OUTER)
        for tag, is_committed in (("inner-kept", True), ("inner-lost", False)):
            self._end("inner", self._begin("inner", tag), is_committed=is_committed)
        self._end("outer", outer, is_committed=False)
        self._client.do("close", producer="inner")

    def _be_fenced(self) -> str:
        sent = self._begin("outer", "fenced")
        self._open("successor", 1, LONG_MS)
        self._story.ended(sent, is_committed=False)
        said = self._client.refusal("commit", producer="outer")
        self._end("successor", self._begin("successor", "successor"), is_committed=True)
        self._client.do("close", producer="outer")
        self._client.do("close", producer="successor")
        return said

    def _time_out(self) -> str:
        self._open("slow", 3, SHORT_MS)
        sent = self._begin("slow", "slow")
        self._wait_for_markers()
        self._story.ended(sent, is_committed=False)
        said = self._client.refusal("commit", producer="slow")
        self._open("recovered", 3, LONG_MS)
        self._end("recovered", self._begin("recovered", "recovered"), is_committed=True)
        self._client.do("close", producer="slow")
        self._client.do("close", producer="recovered")
        return said


def committed(bootstrap: str, group: str) -> int:
    """A group's offset in the source; librdkafka waits as long as it is in a transaction."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(SOURCE, 0)], 30)
    consumer.close()
    return int(found.offset)


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TransactionClient]]:
    """The program of every client, started side by side."""
    directory = tmp_path_factory.mktemp("transactions")
    with ThreadPoolExecutor(len(PROGRAMS)) as pool:
        started = list(pool.map(lambda name: TransactionClient(name, directory / f"{name}.log"), PROGRAMS))
    yield started
    for client in started:
        client.kill()


def test_every_client_reads_the_transactions_of_every_other(
    group_broker: ApacheKafka | KcliBroker, clients: list[TransactionClient], show: Callable[[str], None]
) -> None:
    bootstrap = group_broker.bootstrap
    create_topic(bootstrap, SOURCE)
    produce(bootstrap, SOURCE, [TestRecord(0, -1, -1, b"key", b"value")] * 5)
    with ThreadPoolExecutor(len(clients)) as pool:
        stories = list(pool.map(lambda client: Scenario(client, bootstrap).run(), clients))
    problems = []
    for client, story in zip(clients, stories, strict=True):
        problems += [
            f"{client.name}: {said} instead of {expected}"
            for said, expected in zip(story.said, WORDS[client.name], strict=True)
            if not said.startswith(expected)
        ]
    readers = [*clients, Kcat()]
    verdicts = [compare(reader, bootstrap, stories) for reader in readers]
    show(table(readers, clients, stories, verdicts))
    assert problems + [each for verdict in verdicts for each in verdict.values()] == []


def compare(reader: TransactionClient | Kcat, bootstrap: str, stories: Sequence[Story]) -> dict[str, str]:
    """The first difference between what happened in each topic and what a client reads of it."""
    wanted = [(story.topic, partition, story.end) for story in stories for partition in range(PARTITIONS)]
    differences: dict[str, str] = {}
    for isolation in ISOLATION_LEVELS:
        found = iter(reader.read(bootstrap, isolation, wanted))
        for story in stories:
            for partition in range(PARTITIONS):
                rows, expected = next(found), story.visible(partition, isolation)
                if reader.name == MISLED and isolation == "read_committed":
                    rows = [row for row in rows if not row[2].startswith(f"{OUTER}-")]
                if rows != expected:
                    text = f"{reader.name}, {isolation}, {story.topic}-{partition}: {rows}\nnot {expected}"
                    differences.setdefault(story.topic, text)
    return differences


def table(
    readers: Sequence[TransactionClient | Kcat],
    writers: Sequence[TransactionClient],
    stories: Sequence[Story],
    verdicts: Sequence[dict[str, str]],
) -> str:
    """The matrix in Markdown: a row for each reader, a column for each writer."""
    lines = [
        "| reads transactions ↓ of → | " + " | ".join(writer.name for writer in writers) + " |",
        "|---" * (len(writers) + 1) + "|",
    ]
    for reader, verdict in zip(readers, verdicts, strict=True):
        well = "yes¹" if reader.name == MISLED else "yes"
        cells = ["**no**" if story.topic in verdict else well for story in stories]
        lines.append(f"| {reader.name} | " + " | ".join(cells) + " |")
    why = "shows an aborted transaction if another one began and was aborted meanwhile"
    lines += ["", f"¹ {MISLED} {why}, as it does with Apache Kafka."]
    return "\n".join(lines)
