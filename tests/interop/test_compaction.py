"""Compaction by kcli: what Apache Kafka's tools and clients see of it, kills in the middle, other brokers.

`KCLI_COMPACTION_UPDATES`, `_COMMITS`, `_TRANSACTIONS`, `_KILLS` and `_NODE_KILLS` set how many updates of a
thousand keys, committed offsets, transactions, and rounds of `kill -9` of the process and of a node there
are; the defaults are small.
"""

from __future__ import annotations

import json
import os
import random
import threading
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.apache_kafka import JVM_OPTIONS, ApacheKafka
from tests.support.class_archive import ClassArchive
from tests.support.kcli_broker import KcliBroker
from tests.support.kcli_cluster import NODES, KcliCluster, wait_until_in_sync
from tests.support.producing import PATIENT_PRODUCER, create_topic
from tests.support.raw_client import RawClient
from tests.support.raw_transactions import RawTransactions
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

UPDATES = int(os.environ.get("KCLI_COMPACTION_UPDATES", "50000"))
COMMITS = int(os.environ.get("KCLI_COMPACTION_COMMITS", "40000"))
TRANSACTIONS = int(os.environ.get("KCLI_COMPACTION_TRANSACTIONS", "1000"))
KILLS = int(os.environ.get("KCLI_COMPACTION_KILLS", "6"))
NODE_KILLS = int(os.environ.get("KCLI_COMPACTION_NODE_KILLS", "4"))
SEED = int(os.environ.get("KCLI_KILL_SEED", "1"))
KEYS = 1000
CLEANER_LOG = "org.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log.Cleaner"
PAUSE_SECONDS = 0.02
"""Between two hundred updates: the cleaner keeps up."""
EAGER = {"log.cleaner.backoff.ms": "20", "log.cleaner.min.cleanable.ratio": "0.01"}
MENDED_BY_A_START = {"orphan_index", "index_missing", "snapshot_damaged"}
"""A kill between two renames, or in the middle of a small file."""
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "300000"}

Latest = dict[bytes, tuple[int, bytes | None]]
"""The last record of each key: its offset and value."""
Read = list[tuple[int, bytes, bytes | None]]
"""(offset, key, value) of records in their order."""


class Updates:
    """Writes keys again and again; `acknowledged` has what was acknowledged last of each."""

    def __init__(self, bootstrap: str, topic: str, keys: int = KEYS) -> None:
        self.topic = topic
        self.keys = keys
        self.acknowledged: Latest = {}
        self.sent = 0
        self._producer = Producer(
            {**PATIENT_PRODUCER, "bootstrap.servers": bootstrap, "acks": "all", "batch.size": 16_384}
        )
        self._stopping = threading.Event()

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None
        key, offset, value = message.key(), message.offset(), message.value()
        assert isinstance(key, bytes)
        assert offset is not None
        assert not isinstance(value, str)
        self.acknowledged[key] = offset, value

    def send(self, count: int) -> None:
        """Send so many updates, one in fifty a tombstone."""
        for _ in range(count):
            number, self.sent = self.sent, self.sent + 1
            value = None if number % 50 == 7 else b"%d-" % number + b"x" * 80
            while len(self._producer) > 5000:
                self._producer.poll(0.01)
            self._producer.produce(
                self.topic,
                value,
                b"key-%d" % (number * 7 % self.keys),
                partition=0,
                on_delivery=self._delivered,
            )

    def flush(self) -> Latest:
        assert self._producer.flush(120) == 0
        return self.acknowledged

    def keep_sending(self) -> threading.Thread:
        """Send from a thread of its own until `stop`."""

        def send() -> None:
            while not self._stopping.wait(PAUSE_SECONDS):
                self.send(200)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        self._stopping.set()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    """A broker that looks for something to compact all the time."""
    broker = KcliBroker(
        tmp_path_factory.mktemp("compaction"),
        settings={**EAGER, "log.segment.bytes": "1048576", "offsets.topic.num.partitions": "1"},
    )
    broker.start()
    yield broker
    assert broker.stop() == 0


def files_of(node: Path, topic: str, suffix: str) -> list[Path]:
    return sorted((node / f"{topic}-0").glob(f"*{suffix}"))


def clean_until(node: Path, topic: str) -> int:
    """Return the offset up to which a topic is compacted, as its checkpoint says, 0 without one."""
    path = node / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), 0)


def is_compacted(node: Path, topic: str) -> bool:
    """Whether nothing of the closed segments is dirty."""
    return clean_until(node, topic) == int(files_of(node, topic, ".log")[-1].stem)


def read_all(tools: KafkaTools, bootstrap: str, topic: str, count: int) -> Read:
    """Read the first `count` records with Apache Kafka's console consumer."""
    shown = tools(
        "kafka-console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(count), "--timeout-ms", "60000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true"),
        *("--formatter-property", "null.literal=(none)"),
    )
    assert shown.code == 0, shown
    rows = [line.split("\t") for line in shown.lines]
    return [
        (int(offset.removeprefix("Offset:")), key.encode(), None if value == "(none)" else value.encode())
        for offset, key, value in rows
    ]


def dumped(kcli: Callable[..., Finished], node: Path, topic: str) -> Read:
    """Return the records in the log files, as `kcli dump-log` finds them."""
    finished = kcli("dump-log", *map(str, files_of(node, topic, ".log")), "--print-data-log", "-o", "json")
    assert finished.exit_code == 0, finished.err
    rows = [row for row in map(json.loads, finished.out.splitlines()) if row["type"] == "record"]
    return [
        (row["offset"], row["key"].encode(), None if row["value"] is None else row["value"].encode())
        for row in rows
    ]


def check_latest(read: Read, latest: Latest) -> None:
    """Check that each key is there with its last value at its own offset; a deleted key may be gone."""
    found = {key: (offset, value) for offset, key, value in read}
    assert {key: found.get(key) for key in latest if latest[key][1] is not None or key in found} == {
        key: last for key, last in latest.items() if last[1] is not None or key in found
    }
    offsets = [offset for offset, _, _ in read]
    assert offsets == sorted(set(offsets))


def test_each_key_is_read_with_its_last_value_by_apache_kafka(
    broker: KcliBroker, kafka_tool: KafkaTools, kcli: Callable[..., Finished]
) -> None:
    create_topic(broker.bootstrap, "updates", 1, COMPACTED)
    updates = Updates(broker.bootstrap, "updates")
    updates.send(UPDATES)
    latest = updates.flush()
    eventually(lambda: is_compacted(broker.node_directory, "updates"), "the topic is compacted")
    offsets = [offset for offset, _, _ in dumped(kcli, broker.node_directory, "updates")]
    active = clean_until(broker.node_directory, "updates")
    assert sum(offset < active for offset in offsets) <= KEYS
    read = read_all(kafka_tool, broker.bootstrap, "updates", len(offsets))
    assert [offset for offset, _, _ in read] == offsets
    check_latest(read, latest)
    shown = kafka_tool(
        "kafka-dump-log", "--files", ",".join(map(str, files_of(broker.node_directory, "updates", ".log")))
    )
    assert shown.code == 0
    assert "isvalid: false" not in shown.output


def test_what_the_tools_change_ends_the_work_that_it_makes_void(
    broker: KcliBroker, kafka_tool: KafkaTools
) -> None:
    def configure(kind: str, name: str, added: str) -> None:
        entity = ("--entity-default",) if name == "" else ("--entity-name", name)
        done = kafka_tool(
            "kafka-configs",
            *("--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", kind, *entity),
            *("--add-config", added),
        )
        assert done.code == 0, done

    def is_cleaning(topic: str) -> bool:
        return bool(files_of(broker.node_directory, topic, ".cleaned"))

    updates = {}
    for topic in ("policy", "gone"):
        create_topic(broker.bootstrap, topic, 1, COMPACTED)
        updates[topic] = Updates(broker.bootstrap, topic, keys=20_000)
        updates[topic].send(20_000)
        updates[topic].flush()
    for topic in updates:
        eventually(lambda topic=topic: is_compacted(broker.node_directory, topic), "the topic is compacted")
    # Little is dirty, so the map of the keys is made at once; then much is to be written again.
    configure("brokers", "", "log.cleaner.io.max.bytes.per.second=400000")
    for topic in updates:
        updates[topic].send(4000)
        updates[topic].flush()
        before = [path.name for path in files_of(broker.node_directory, topic, ".log")]
        eventually(lambda topic=topic: is_cleaning(topic), "the cleaner writes a segment")
        if topic == "policy":
            configure("topics", topic, "cleanup.policy=delete")
            eventually(lambda: not is_cleaning("policy"), "the cleaner has removed what it has written")
            assert [path.name for path in files_of(broker.node_directory, topic, ".log")] == before
            continue
        deleting = ("--bootstrap-server", broker.bootstrap, "--delete", "--topic", topic)
        deleted = kafka_tool("kafka-topics", *deleting)
        assert deleted.code == 0, deleted
        eventually(lambda: not (broker.node_directory / "gone-0").exists(), "the topic is gone")
    configure("topics", "policy", "cleanup.policy=[compact,delete]")
    configure("brokers", "", "log.cleaner.io.max.bytes.per.second=1e12")
    eventually(lambda: is_compacted(broker.node_directory, "policy"), "the topic is compacted")
    assert "ERROR" not in broker.messages()


def test_a_coordinator_loads_its_group_from_compacted_offsets(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools
) -> None:
    partitions = 200
    broker = new_kcli_broker(
        {
            **EAGER,
            "log.segment.bytes": "1048576",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.segment.bytes": "1048576",
        }
    )
    broker.start()
    create_topic(broker.bootstrap, "committed", partitions)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "many", "enable.auto.commit": False}
    )
    for number in range(COMMITS // partitions):
        offsets = [TopicPartition("committed", each, 0 if each else number) for each in range(partitions)]
        consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    eventually(lambda: is_compacted(broker.node_directory, "__consumer_offsets"), "the offsets are compacted")
    closed = files_of(broker.node_directory, "__consumer_offsets", ".log")[:-1]
    assert sum(path.stat().st_size for path in closed) < partitions * 300

    def described() -> list[str]:
        result = kafka_tool(
            "kafka-consumer-groups",
            *("--bootstrap-server", broker.bootstrap, "--describe", "--group", "many"),
        )
        assert result.code == 0, result
        return sorted(line for line in result.lines if line.startswith("many"))

    before = described()
    assert len(before) == partitions
    assert broker.stop() == 0
    broker.start()
    assert described() == before
    assert broker.stop() == 0


def test_a_coordinator_loads_its_transactions_from_a_compacted_log(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools
) -> None:
    settings = {
        **EAGER,
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.segment.bytes": "1048576",
    }
    broker = new_kcli_broker(settings).start()
    create_topic(broker.bootstrap, "in-transactions", 1)
    # Long names fill segments soon.
    names = [f"id-{number}-{'x' * 500}" for number in range(5)]
    with RawClient(broker.bootstrap) as client:
        begun = [RawTransactions(client, name) for name in names]
        begun[0].find()
        sessions = [each.init_at_last() for each in begun]
        for _ in range(TRANSACTIONS // len(names)):
            for each, session in zip(begun, sessions, strict=True):
                producer = session.producer_id, session.epoch
                assert each.add(producer, ("in-transactions", 0)) == [0]
                assert each.end(producer, commit=True, version=4).code == 0
        before = [each.settled("CompleteCommit") for each in begun]
    topic = "__transaction_state"
    eventually(lambda: is_compacted(broker.node_directory, topic), "the states are compacted")
    assert broker.stop() == 0
    files = files_of(broker.node_directory, topic, ".log")
    assert sum(path.stat().st_size for path in files[:-1]) < 10_000
    assert int(files[-1].stem) > TRANSACTIONS
    dumped = kafka_tool("kafka-dump-log", "--transaction-log-decoder", "--files", ",".join(map(str, files)))
    assert dumped.code == 0, dumped.errors
    assert "isvalid: false" not in dumped.output
    last = {
        name: json.loads(
            [line for line in dumped.lines if f'"{name}"' in line][-1].partition(" payload: ")[2]
        )
        for name in names
    }
    assert {name: record["data"]["transactionStatus"] for name, record in last.items()} == dict.fromkeys(
        names, 4
    )
    broker.start()
    with RawClient(broker.bootstrap) as client:
        RawTransactions(client, names[0]).find()
        assert [RawTransactions(client, name).settled("CompleteCommit") for name in names] == before
    assert broker.stop() == 0


def test_kills_while_logs_are_compacted_lose_nothing(
    new_kcli_broker: Callable[..., KcliBroker],
    tmp_path: Path,
    kafka_tool: KafkaTools,
    kcli: Callable[..., Finished],
    show: Callable[[str], None],
) -> None:
    """At the end the directory is compacted at rest, and Apache Kafka takes it over."""
    source = random.Random(SEED)
    broker = new_kcli_broker(EAGER).start()
    create_topic(broker.bootstrap, "killed", 1, {**COMPACTED, "internal.segment.bytes": "100000"})
    updates = Updates(broker.bootstrap, "killed")
    thread = updates.keep_sending()
    interrupted = 0
    for _ in range(KILLS):
        before = clean_until(broker.node_directory, "killed")
        eventually(
            lambda before=before: clean_until(broker.node_directory, "killed") > before, "the cleaner goes on"
        )
        threading.Event().wait(source.uniform(0, 0.1))
        broker.kill()
        left = [
            *files_of(broker.node_directory, "killed", ".cleaned"),
            *files_of(broker.node_directory, "killed", ".swap"),
        ]
        interrupted += bool(left)
        assert problems(kcli, broker.node_directory) <= MENDED_BY_A_START
        broker.start()
    updates.stop()
    thread.join()
    show(f"{updates.sent} updates, {interrupted} of {KILLS} kills met a compaction at work")
    updates.flush()
    eventually(lambda: is_compacted(broker.node_directory, "killed"), "the topic is compacted")
    assert broker.stop() == 0
    assert problems(kcli, broker.node_directory) == set()
    assert "bad records" not in broker.messages()

    idle = new_kcli_broker({"log.cleaner.enable": "false"}, directory=broker.directory).start()
    more = Updates(idle.bootstrap, "killed")
    more.send(4000)
    latest = {**updates.acknowledged, **more.flush()}
    assert idle.stop() == 0
    compact = ("broker", "compact", "--log-dirs", str(idle.node_directory), "-o", "json")
    (foreseen,) = json.loads(kcli(*compact, "--dry-run").out)["partitions"]
    (done,) = json.loads(kcli(*compact).out)["partitions"]
    assert done == foreseen
    assert done["dropped"]["newer_value"] > 3000
    assert problems(kcli, idle.node_directory) == set()
    there = dumped(kcli, idle.node_directory, "killed")
    directory = tmp_path / "apache"
    directory.mkdir()
    apache = ApacheKafka(directory, kafka_tool, data=idle.node_directory)
    apache.start()
    try:
        check_latest(read_all(kafka_tool, apache.bootstrap, "killed", len(there)), latest)
    finally:
        apache.stop()
    assert "ERROR" not in (directory / "broker.log").read_text()
    assert problems(kcli, idle.node_directory) == set()


def test_each_broker_goes_on_from_the_checkpoint_of_the_other(
    new_kcli_broker: Callable[..., KcliBroker],
    tmp_path: Path,
    kafka_tool: KafkaTools,
    kcli: Callable[..., Finished],
) -> None:
    broker = new_kcli_broker({"log.cleaner.enable": "false"}).start()
    create_topic(broker.bootstrap, "shared", 1, {**COMPACTED, "internal.segment.bytes": "20000"})
    updates = Updates(broker.bootstrap, "shared")
    updates.send(4000)
    updates.flush()
    compact_shared = ("broker", "compact", "shared", "--data-dir", str(broker.data), "-o", "json")
    (first,) = json.loads(kcli(*compact_shared).out)["partitions"]
    assert first["first_dirty_offset"] == 0
    updates.send(4000)
    latest = updates.flush()
    assert broker.stop() == 0
    left_by_kcli = clean_until(broker.node_directory, "shared")
    assert 0 < left_by_kcli == first["end_offset"]

    directory = tmp_path / "apache"
    directory.mkdir()
    apache = ApacheKafka(
        directory,
        kafka_tool,
        data=broker.node_directory,
        settings={"log.cleaner.backoff.ms": "100"},
        jvm_options=(*JVM_OPTIONS, "-Xmx320m", *ClassArchive().options(), f"-D{CLEANER_LOG}=info"),
    )
    apache.start()
    try:
        eventually(lambda: is_compacted(broker.node_directory, "shared"), "Apache Kafka compacts the topic")
        # Too few to be compacted.
        more = Updates(apache.bootstrap, "shared")
        more.send(500)
        latest = {**latest, **more.flush()}
    finally:
        apache.stop()
    left_by_apache = clean_until(broker.node_directory, "shared")
    assert left_by_apache > left_by_kcli
    told = (directory / "broker.log").read_text()
    assert f"in offset range [{left_by_kcli}, {left_by_apache})" in told

    broker.start()
    (last,) = json.loads(kcli(*compact_shared).out)["partitions"]
    assert last["first_dirty_offset"] == left_by_apache < last["end_offset"]
    check_latest(dumped(kcli, broker.node_directory, "shared"), latest)
    assert broker.stop() == 0
    assert problems(kcli, broker.node_directory) == set()


def test_killed_nodes_lose_nothing_of_compacted_replicas(
    tmp_path: Path, kcli: Callable[..., Finished]
) -> None:
    """Each node compacts its own replicas: at the end all three have the same records."""
    source = random.Random(SEED)
    settings = {**EAGER, "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
    cluster = KcliCluster(tmp_path, settings=settings)
    cluster.broker.start()
    try:
        configs = {**COMPACTED, "internal.segment.bytes": "100000", "min.insync.replicas": "2"}
        create_replicated(cluster, "killed", configs)
        updates = Updates(cluster.bootstrap, "killed")
        thread = updates.keep_sending()
        for _ in range(NODE_KILLS):
            node_id = source.randint(1, NODES)
            node = cluster.broker.data / f"node-{node_id}"
            before = clean_until(node, "killed")
            eventually(
                lambda node=node, before=before: clean_until(node, "killed") > before, "the cleaner goes on"
            )
            threading.Event().wait(source.uniform(0, 0.1))
            cluster.kill_node(node_id)
            cluster.start_node(node_id)
        updates.stop()
        thread.join()
        latest = updates.flush()
        wait_until_in_sync(cluster.bootstrap)
        nodes = [cluster.broker.data / f"node-{number + 1}" for number in range(NODES)]
        for node in nodes:
            eventually(lambda node=node: is_compacted(node, "killed"), "the replica is compacted")
        assert cluster.broker.stop() == 0
    finally:
        cluster.broker.close()
    replicas = [dumped(kcli, node, "killed") for node in nodes]
    for node, read in zip(nodes, replicas, strict=True):
        check_latest(read, latest)
        assert problems(kcli, node) == set()
    assert "ERROR" not in cluster.broker.messages()


def create_replicated(cluster: KcliCluster, topic: str, configs: dict[str, str]) -> None:
    """Create a topic with a replica on each node."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, NODES, config=configs)])[topic].result(60)
    wait_until_in_sync(cluster.bootstrap)


def problems(kcli: Callable[..., Finished], node: Path) -> set[str]:
    """Return the kinds of problems that `kcli verify-index` finds in a node's directory."""
    finished = kcli("verify-index", str(node), "-o", "json")
    assert finished.exit_code in (0, 3), finished.err
    rows = map(json.loads, finished.out.splitlines())
    return {row["kind"] for row in rows if row.get("severity", "info") != "info"}
