"""A coordinator for tests of the runtime: its shard stores numbers by name and parks requests."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.replication_control import NewPartitions, NewTopic
from kcli.broker.coordinator.effects import Append, CoordinatorRecord, Effect, Now, Reply, Schedule, Token
from kcli.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse, CoordinatorSettings
from kcli.broker.metadata.metadata_image import Endpoint
from kcli.protocol.internal.coordinator_records import OffsetCommitKey, OffsetCommitValue, decode_record
from kcli.protocol.records.batch import iter_batches
from kcli.storage.log.log_read import Isolation
from tests.broker.single_node import LISTENER, Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable
    from pathlib import Path

    from kcli.broker.controller.replication_control import TopicDefaults
    from kcli.broker.metadata.metadata_image import MetadataDelta, MetadataImage
    from kcli.protocol.error_codes import KafkaError

TOPIC = "__notebook"
OTHER_NODE = 2


def record(name: str, number: int | None) -> CoordinatorRecord:
    """Return a record that sets or deletes the number of a name."""
    key = OffsetCommitKey(group=name, topic="t", partition=0)
    if number is None:
        return CoordinatorRecord(key, None)
    return CoordinatorRecord(key, OffsetCommitValue(offset=number, metadata="", commit_timestamp=0))


class Notebook:
    """Numbers by name, changed only by records; those of a transaction by its marker."""

    def __init__(self, index: int = 0, leader_epoch: int = 0) -> None:
        self.opened_as = (index, leader_epoch)
        self.numbers: dict[str, int] = {}
        self.written_at: dict[str, int] = {}
        """The offset of the record that last counted for a name."""
        self.open: dict[int, dict[str, tuple[int | None, int]]] = {}
        """What open transactions have written, with offsets, by producer id."""
        self.log: list[str] = []
        self.parked: list[Token] = []
        self.on_change: list[Effect] = []
        self.on_unload: list[Effect] = []

    # requests

    def put(self, token: Token, *records: CoordinatorRecord) -> list[Effect]:
        """Write records and answer when they are committed, or with the error."""

        def then(now: Now, error: KafkaError | None) -> list[Effect]:
            self.log.append(f"{records[0].key.group} {'committed' if error is None else error.code.name}")
            return [Reply(token, "stored" if error is None else error.code)]

        return [Append(records, then)]

    def park(self, token: Token) -> list[Effect]:
        """Answer when a timer fires or `release` is called."""
        self.parked.append(token)
        return []

    def release(self, answer: str) -> list[Effect]:
        """Answer all parked requests."""
        released, self.parked = self.parked, []
        return [Reply(token, answer) for token in released]

    # life

    def replay(self, key: Any, value: Any, offset: int = -1, producer_id: int = -1) -> None:
        if key.group == "unbearable":
            raise LookupError("cannot be")
        number = None if value is None else value.offset
        if producer_id >= 0:
            self.open.setdefault(producer_id, {})[key.group] = (number, offset)
        else:
            self._write(key.group, number, offset)

    def replay_end(self, producer_id: int, is_commit: bool) -> None:
        for name, (number, offset) in self.open.pop(producer_id, {}).items():
            if is_commit and offset > self.written_at.get(name, -1):
                self._write(name, number, offset)

    def _write(self, name: str, number: int | None, offset: int) -> None:
        self.written_at[name] = offset
        if number is None:
            self.numbers.pop(name, None)
        else:
            self.numbers[name] = number

    def loaded(self, now: Now) -> list[Effect]:
        self.log.append("loaded")
        return []

    def unloaded(self, now: Now) -> list[Effect]:
        self.log.append("unloaded")
        return [Schedule("late", 10), *self.release("gone"), Append((record("late", 1),)), *self.on_unload]

    def expire(self, now: Now, key: Hashable) -> list[Effect]:
        self.log.append(f"{key} at {now.ms}")
        return self.release("timer")

    def image_changed(self, now: Now, delta: MetadataDelta) -> list[Effect]:
        effects, self.on_change = self.on_change, []
        return effects

    def sweep(self, now: Now) -> list[Effect]:
        self.log.append(f"swept at {now.ms}")
        return []


class NotebookNode:
    """A node with a runtime of notebooks."""

    def __init__(self, directory: Path, settings: CoordinatorSettings, send: Callable[[Any], None]) -> None:
        self.node = Node(directory)
        self.runtime = CoordinatorRuntime(
            TOPIC,
            new_shard=Notebook,
            sweep=lambda shard, now: shard.sweep(now),
            decode=decode_record,
            settings=settings,
            replica_manager=self.node.replica_manager,
            wall_ms=self.node.wall_ms,
            send=send,
        )
        self.node.start(9092)
        self.node.controller.publisher.observe(self._follow)

    def _follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.runtime.apply(delta, image)

    def create(self, partitions: int = 1, **configs: str) -> None:
        self.node.create_topic(TOPIC, partitions, cleanup_policy="compact", **configs)

    def create_replicated(self, defaults: TopicDefaults) -> None:
        """Create the topic with one partition that has a replica on another node, too."""
        controller = self.node.controller
        epoch = controller.register_broker(
            BrokerRegistrationRequest(
                node_id=OTHER_NODE,
                incarnation=bytes(range(1, 17)),
                endpoints=[Endpoint(LISTENER, "127.0.0.1", 9093)],
                directories=[bytes(range(2, 18))],
            )
        )
        controller.unfence_broker(node_id=OTHER_NODE, epoch=epoch)
        (outcome,) = controller.create_topics(
            [NewTopic(TOPIC, assignments=[(0, (self.node.node_id, OTHER_NODE))])], defaults=defaults
        )
        assert not isinstance(outcome, Exception), outcome

    @property
    def partition(self) -> Any:
        """The first partition."""
        return self.node.replica_manager.partitions[TOPIC, 0]

    def delete(self) -> None:
        self.node.controller.delete_topics([self.node.image.topics[TOPIC].topic_id])

    def add_partition(self, count: int) -> None:
        """Give the topic so many partitions."""
        (outcome,) = self.node.controller.create_partitions([NewPartitions(TOPIC, count)])
        assert outcome == 1

    def put(self, *records: CoordinatorRecord, index: int = 0) -> Any:
        return self.runtime.ask(index, lambda shard, now, token: shard.put(token, *records))

    def park(self) -> Any:
        return self.runtime.ask(0, lambda shard, now, token: shard.park(token))

    def do(self, *effects: Effect) -> None:
        """Have the shard return this effect."""
        self.runtime.ask(0, lambda shard, now, token: list(effects))


@asynccontextmanager
async def notebook_node(
    directory: Path,
    settings: CoordinatorSettings | None = None,
    *,
    loads: bool = True,
    send: Callable[[Any], None] = print,
) -> AsyncIterator[NotebookNode]:
    """Run a node; with `loads` false only empty logs are loaded."""
    node = NotebookNode(directory, settings or CoordinatorSettings(sweep_interval_ms=10**9), send)
    async with trio.open_nursery() as nursery:
        await nursery.start(node.node.timer.run)
        if loads:
            await nursery.start(node.runtime.run)
        yield node
        nursery.cancel_scope.cancel()
    node.node.log_manager.close(now_ms=node.node.now_ms)


def shard(node: NotebookNode, index: int = 0) -> Any:
    """Return the shard of one partition of the topic."""
    return node.runtime.shard(index)


def batches(node: NotebookNode) -> list[Any]:
    """Return the batches in the log of the first partition."""
    log = node.partition.log
    read = log.read(0, 1 << 20, isolation=Isolation.LOG_END)
    return [] if read.file_slice is None else list(iter_batches(read.file_slice.read()))


async def answer_of(node: NotebookNode, answer: CoordinatorResponse) -> Any:
    """Wait for an answer."""
    with trio.fail_after(1000):
        return await node.runtime.wait(answer)
