"""Groups of every kind in one broker, and both tools that look at them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.producing import create_topic, delete_topic, produce
from tests.support.records import TestRecord
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.conftest import Finished
    from tests.support.apache_kafka import ApacheKafka, KafkaTools
    from tests.support.kcli_broker import KcliBroker

ORDERS, CLICKS, LONG = "tool.orders", "tool.clicks", "tool.a-topic-with-a-name-that-is-longer"
CLASSIC, MODERN, MANY, EMPTY, OTHER = (
    "tool-classic",
    "tool-modern",
    "tool-many",
    "tool-empty",
    "tool-émpty-two",
)
COMMITTED = {(ORDERS, 0): 10, (ORDERS, 2): 33, (CLICKS, 0): 5}

MINUTE_MS = 60_000
START_MS = int(time.time() * 1000) - 301 * MINUTE_MS
"""The time of the first order; another one follows each minute."""


def consumer(bootstrap: str, group: str, client: str, **config: object) -> Consumer:
    """A consumer that commits only when it is told to."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
    )


def commit(bootstrap: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Commit offsets in the name of a group without members."""
    committing = consumer(bootstrap, group, "commits")
    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    committing.commit(offsets=wanted, asynchronous=False)
    committing.close()


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """The offsets of a group in every partition of the topics."""
    reading = consumer(bootstrap, group, "reads")
    partitions = [*((ORDERS, n) for n in range(3)), (CLICKS, 0), (CLICKS, 1)]
    found = reading.committed([TopicPartition(*partition) for partition in partitions], 30)
    reading.close()
    return {(entry.topic, entry.partition): entry.offset for entry in found if entry.offset >= 0}


@dataclass
class Members:
    """Consumers that poll in threads, commit what they read once, and then commit no more."""

    running: list[threading.Thread] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    assignments: dict[str, int] = field(default_factory=dict)

    def start(self, name: str, member: Consumer, topics: Sequence[str]) -> None:
        """Let a consumer subscribe and poll until the end."""
        member.subscribe(list(topics))

        def run() -> None:
            try:
                while not self.stopped.is_set():
                    if member.consume(100, 0.2):
                        # A rebalance in between refuses the commit, and brings the records again.
                        with suppress(KafkaException):
                            member.commit(asynchronous=False)
                    self.assignments[name] = len(member.assignment())
            finally:
                member.close()

        self.running.append(threading.Thread(target=run, daemon=True))
        self.running[-1].start()

    def close(self) -> None:
        """Let all leave."""
        self.stopped.set()
        for thread in self.running:
            thread.join(30)


@dataclass(frozen=True)
class Both:
    """Both tools against one broker."""

    broker: KcliBroker | ApacheKafka
    kcli: Callable[..., Finished]
    tools: KafkaTools

    def ours(self, verb: str, *arguments: str) -> Finished:
        return self.kcli("consumer-groups", verb, *arguments, "-b", self.broker.bootstrap)

    def from_files(self, verb: str, *arguments: str) -> Finished:
        return self.kcli("consumer-groups", verb, *arguments, "--log-dir", str(self.broker.data))

    def theirs(self, verb: str, *arguments: str) -> tuple[str, str]:
        result = self.tools(
            "kafka-consumer-groups", "--bootstrap-server", self.broker.bootstrap, f"--{verb}", *arguments
        )
        assert result.code == 0, result
        return result.output, result.errors

    def same(self, verb: str, *arguments: str) -> str:
        """Run both; stdout is the same, and so is what is said of states on stderr."""
        out, err = self.theirs(verb, *arguments)
        ours = self.ours(verb, *arguments)
        is_same = (ours.exit_code, ours.out, ours.err.rstrip()) == (0, out, err.rstrip())
        assert is_same, f"theirs:\n{out}\n{err}\nours: {ours.exit_code}\n{ours.out}\n{ours.err}"
        return out


def record(partition: int, timestamp: int) -> TestRecord:
    return TestRecord(partition, 0, timestamp, None, b"value", ())


def wait_until_settled(tools: KafkaTools, bootstrap: str, members: Members) -> None:
    """Wait until every partition has an owner and everything that was read is committed."""

    def are_settled() -> bool:
        counts = {name: members.assignments.get(name, 0) for name in "abcdefg"}
        if not (
            counts["a"] + counts["b"] == counts["c"] + counts["d"] == 5
            and min(counts[name] for name in "abcd") > 0
            and counts["e"] + counts["f"] + counts["g"] == 1
            and is_caught_up(bootstrap, CLASSIC)
            and is_caught_up(bootstrap, MODERN)
        ):
            return False
        result = tools(
            "kafka-consumer-groups", "--bootstrap-server", bootstrap, "--list", "--state", "Stable"
        )
        return all(group in result.output for group in (CLASSIC, MODERN, MANY))

    eventually(are_settled, "the groups have settled", seen=lambda: members.assignments)


def is_caught_up(bootstrap: str, group: str) -> bool:
    return committed(bootstrap, group) == {**{(ORDERS, n): 100 for n in range(3)}, (CLICKS, 0): 40}


@contextmanager
def settled_groups(bootstrap: str, tools: KafkaTools) -> Iterator[None]:
    """Let topics and groups be there meanwhile."""
    for topic, partitions in ((ORDERS, 3), (CLICKS, 2), (LONG, 1)):
        create_topic(bootstrap, topic, partitions)
    produce(bootstrap, ORDERS, [record(n % 3, START_MS + n * MINUTE_MS) for n in range(300)])
    produce(bootstrap, CLICKS, [record(0, START_MS + 300 * MINUTE_MS) for _ in range(40)])
    commit(bootstrap, EMPTY, COMMITTED)
    commit(bootstrap, OTHER, {(ORDERS, 1): 7})
    members = Members()
    both = [ORDERS, CLICKS]
    members.start("a", consumer(bootstrap, CLASSIC, "one", group_instance_id="tool-static"), both)
    members.start("b", consumer(bootstrap, CLASSIC, "two"), both)
    members.start("c", consumer(bootstrap, MODERN, "three", group_protocol="consumer"), both)
    for name in ("e", "f", "g"):
        members.start(name, consumer(bootstrap, MANY, f"client-{name}"), [LONG])
    try:
        # librdkafka may let partitions pass that are taken from it before it has said that it has them.
        eventually(
            lambda: members.assignments.get("c") == 5 and is_caught_up(bootstrap, MODERN), "one has all"
        )
        members.start("d", consumer(bootstrap, MODERN, "four", group_protocol="consumer"), both)
        wait_until_settled(tools, bootstrap, members)
        yield
    finally:
        members.close()
        for topic in (ORDERS, CLICKS, LONG):
            delete_topic(bootstrap, topic)
