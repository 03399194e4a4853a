"""Transactions of clients that know how each of them ended, and what a broker must show in the end."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.producing import DEADLINE_SECONDS, read_partition
from tests.support.transaction_clients import Refused
from tests.support.transaction_program import key_of, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.transaction_clients import Row, TransactionClient

PARTITIONS = 3
COUNT = 3
"""Records that a transaction gives each partition of a topic."""
ABORTED_SHARE = 0.25
TIMEOUT_MS = 20_000
SOURCE = "source"
WITHOUT_OFFSETS = (
    # It sends only what its session has consumed.
    "franz-go",
    # librdkafka 2.16 waits without end, whatever its timeout, for a group's coordinator that was not among
    # the brokers for a moment.
    "confluent-kafka",
)


class Outcome(Enum):
    """What a client knows of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Or never asked to be committed."""
    UNKNOWN = "unknown"
    """Asked to be committed, and refused: it is there as a whole, or not at all."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Those of one client: a plain one, and a compacted one in which each transaction replaces the last."""

    plain: str
    compacted: str


class TransactionLoad:
    """One client's transactions, from a thread of its own.

    Each sends to every partition of both topics and commits its number as the offset of a group, where the
    client can.
    """

    def __init__(self, client: TransactionClient, bootstrap: str, *, seed: int) -> None:
        name = client.name.lower().replace(" ", "-")
        self.name = client.name
        self.topics = Topics(f"plain-{name}", f"compacted-{name}")
        self.group = None if client.name in WITHOUT_OFFSETS else f"group-{name}"
        self.outcomes: list[Outcome] = []
        self.said: list[str] = []
        """Whatever was refused, and why."""
        self._id = f"load-{name}"
        self._client = client
        self._bootstrap = bootstrap
        self._random = random.Random(f"{seed} {name}")
        self._has_producer = self._is_open = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin; the topics are there."""
        self._thread.start()

    @property
    def committed(self) -> int:
        """How many transactions were committed so far."""
        return self.outcomes.count(Outcome.COMMITTED)

    def stop(self) -> None:
        """End the last transaction."""
        self._stopping.set()
        self._thread.join(DEADLINE_SECONDS * 3)
        assert not self._thread.is_alive(), f"{self.name} is stuck: {self.said[-3:]}"

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.outcomes.append(self._transaction(len(self.outcomes)))

    def _transaction(self, number: int) -> Outcome:
        if not self._prepare(number):
            # A client that cannot even abort makes another producer, before which the broker aborts.
            self._is_open = self._is_open and self._performs("abort")
            return Outcome.ABORTED
        wanted = Outcome.ABORTED if self._random.random() < ABORTED_SHARE else Outcome.COMMITTED
        self._is_open = self._performs("abort" if wanted is Outcome.ABORTED else "commit")
        return wanted if self._is_open or wanted is Outcome.ABORTED else Outcome.UNKNOWN

    def _prepare(self, number: int) -> bool:
        if not self._is_open:
            if self._has_producer:
                self._performs("close")
            self._has_producer = True
            opening = {"bootstrap": self._bootstrap, "id": self._id, "timeout": TIMEOUT_MS}
            self._is_open = self._performs("open", **opening)
        if not self._is_open:
            return False
        sending = {"partitions": PARTITIONS, "count": COUNT, "tag": number}
        if not self._performs("begin"):
            self._is_open = False
            return False
        return (
            self._performs("send", topic=self.topics.plain, **sending)
            and self._performs("send", topic=self.topics.compacted, **sending)
            and (
                self.group is None
                or self._performs("offsets", group=self.group, topic=SOURCE, position=number + 1)
            )
        )

    def _performs(self, command: str, **options: object) -> bool:
        try:
            self._client.do(command, producer="load", **options)
        except Refused as refused:
            self.said.append(str(refused))
            return False
        return True


class Reader:
    """A consumer of committed records that reads on while the brokers come and go."""

    def __init__(self, bootstrap: str, topics: Sequence[str], partitions: int = PARTITIONS) -> None:
        self.read: dict[tuple[str, int], list[Row]] = {
            (topic, partition): [] for topic in topics for partition in range(partitions)
        }
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.interval.ms": 2000,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(*place, 0) for place in self.read])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, 0.1):
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                if message.error() is None and topic is not None and partition is not None:
                    row = (offset or 0, _text(message.key()), _text(message.value()))
                    self.read[topic, partition].append(row)

    def stop(self) -> None:
        """Read no more."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()
            self._consumer.close()


def is_stable(bootstrap: str, topic: str) -> bool:
    """Whether a topic has no open transaction: its last stable offsets are its ends."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    stable, ends = (
        [future.result().offset for future in admin.list_offsets(wanted, isolation_level=level).values()]
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    )
    return stable == ends


def visible(bootstrap: str, topic: str, partition: int) -> list[Row]:
    """The committed records of a partition, whose last record is plain."""
    return [
        (record.offset, _text(record.key), _text(record.value))
        for record in read_partition(bootstrap, topic, partition)
    ]


def _text(data: bytes | str | None) -> str:
    return data.decode() if isinstance(data, bytes) else data or ""


def check(load: TransactionLoad, bootstrap: str) -> int:
    """Compare what is there with what the client knows; how many transactions are visible."""
    plain = [visible(bootstrap, load.topics.plain, partition)[:-1] for partition in range(PARTITIONS)]
    numbers = [[int(value.split("-")[0]) for _, _, value in rows] for rows in plain]
    committed = sorted(set(numbers[0]))
    for partition, rows in enumerate(plain):
        expected = [
            (key_of(each), value_of(str(number), partition, each))
            for number in committed
            for each in range(COUNT)
        ]
        assert [row[1:] for row in rows] == expected, (
            f"{load.name}, {load.topics.plain}-{partition}: half visible"
        )
    known = dict(enumerate(load.outcomes))
    lost = [number for number, each in known.items() if each is Outcome.COMMITTED and number not in committed]
    risen = [number for number in committed if known[number] is Outcome.ABORTED]
    assert not lost, f"{load.name}: committed and lost: {lost}"
    assert not risen, f"{load.name}: aborted and visible: {risen}"
    _check_compacted(load, bootstrap, committed)
    if load.group is not None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": load.group})
        (found,) = consumer.committed([TopicPartition(SOURCE, 0)], DEADLINE_SECONDS)
        consumer.close()
        assert found.offset == committed[-1] + 1, (
            f"{load.name}: the offset is not that of the last transaction"
        )
    return len(committed)


def _check_compacted(load: TransactionLoad, bootstrap: str, committed: list[int]) -> None:
    for partition in range(PARTITIONS):
        rows = visible(bootstrap, load.topics.compacted, partition)[:-1]
        assert [offset for offset, _, _ in rows] == sorted({offset for offset, _, _ in rows})
        numbers = [int(value.split("-")[0]) for _, _, value in rows]
        assert set(numbers) <= set(committed), (
            f"{load.name}, {load.topics.compacted}-{partition}: aborted data"
        )
        assert numbers == sorted(numbers), f"{load.name}, {load.topics.compacted}-{partition}: out of order"
        last = {key: value for _, key, value in rows}
        expected = {key_of(each): value_of(str(committed[-1]), partition, each) for each in range(COUNT)}
        assert last == expected, f"{load.name}, {load.topics.compacted}-{partition}: not the last values"
