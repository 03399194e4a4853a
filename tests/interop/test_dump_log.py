"""`kcli dump-log -o text` and Apache Kafka's kafka-dump-log print the same for the same files and flags."""

from __future__ import annotations

import difflib
import shutil
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from kcli.cli import main
from tests.support.apache_kafka import ApacheKafka
from tests.support.copies import copy_running
from tests.support.kcli_broker import KcliBroker
from tests.support.log_files import PAIRS, batch_of, formats, quorum, segment, write_internal_topics
from tests.support.producing import DEADLINE_SECONDS, create_topic, delete_topic, produce
from tests.support.records import Shape, generate
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools

    Same = Callable[..., None]

pytestmark = pytest.mark.interop

DEPTHS: list[tuple[str, ...]] = [(), ("--deep-iteration",), ("--print-data-log",)]
LIMITS: list[tuple[str, ...]] = [(), ("--max-bytes", "1000"), ("--max-bytes", "17")]
SKIPS: list[tuple[str, ...]] = [(), ("--skip-record-metadata",)]
LOG_FLAGS = [(*depth, *skip, *limit) for depth, skip, limit in product(DEPTHS, SKIPS, LIMITS)]
INDEX_FLAGS: list[tuple[str, ...]] = [
    (),
    ("--verify-index-only",),
    ("--index-sanity-check",),
    ("--max-message-size", "20000000"),
]


@pytest.fixture
def same(kafka_tool: KafkaTools, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., None]:
    """Run both tools over files with the same flags; they must print the same on both outputs."""

    def compare(files: Sequence[Path], *flags: str, exit_code: int = 0) -> None:
        assert files
        theirs = kafka_tool("kafka-dump-log", "--files", ",".join(map(str, files)), *flags)
        assert theirs.code == 0, theirs.errors[-2000:]
        capfdbinary.readouterr()
        code = main(["dump-log", "--files", ",".join(map(str, files)), "-o", "text", *flags])
        ours = capfdbinary.readouterr()
        assert_same(theirs.output, ours.out.decode(), flags)
        assert_same(theirs.errors, ours.err.decode(), flags)
        assert code == exit_code

    return compare


def assert_same(theirs: str, ours: str, flags: Sequence[str]) -> None:
    """Fail with the first lines that differ."""
    if theirs != ours:
        differences = difflib.unified_diff(
            theirs.splitlines(), ours.splitlines(), "theirs", "ours", lineterm="", n=0
        )
        shown = "\n".join(line[:1500] for _, line in zip(range(30), differences, strict=False))
        pytest.fail(f"{' '.join(flags)}\n{shown}", pytrace=False)


@pytest.fixture(scope="module")
def handmade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of files made by hand."""
    return tmp_path_factory.mktemp("handmade")


@pytest.mark.parametrize("flags", LOG_FLAGS, ids=" ".join)
def test_every_format_and_codec(handmade: Path, same: Same, flags: tuple[str, ...]) -> None:
    files = [
        segment(handmade / "formats-0", formats()),
        segment(handmade / "quorum-0", quorum()),
        segment(handmade / "later-0", [batch_of(PAIRS, 500), batch_of(PAIRS, 600)], 500),
        segment(handmade / "empty-0", []),
    ]
    same(files, *flags)


@pytest.mark.parametrize(
    "option",
    [
        "--offsets-decoder",
        "--transaction-log-decoder",
        "--share-group-state-decoder",
        "--cluster-metadata-decoder",
        "--remote-log-metadata-decoder",
    ],
)
@pytest.mark.parametrize("skip", SKIPS, ids=" ".join)
def test_every_kind_of_internal_record(
    handmade: Path, same: Same, option: str, skip: tuple[str, ...]
) -> None:
    same([write_internal_topics(handmade)[option]], option, *skip)


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}
APPEND_TIME = {"message.timestamp.type": "LogAppendTime", **SMALL_SEGMENTS}
KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
TOPIC_DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}


def write_topics(bootstrap: str) -> None:
    """Write what every broker can: all codecs, idempotent and not, append time, groups, a deleted topic."""
    for topic, config in (("codecs", SMALL_SEGMENTS), ("appended", APPEND_TIME)):
        create_topic(bootstrap, topic, 1, config)
        for seed, codec in enumerate(CODECS):
            records = generate(seed, 0, 400, Shape())
            padding = [replace(record, value=bytes(30_000)) for record in records[:20]]
            produce(
                bootstrap,
                topic,
                [*records, *padding],
                {"compression.type": codec, "enable.idempotence": seed % 2 == 0, "batch.size": 16_384},
            )
    create_topic(bootstrap, "deleted")
    delete_topic(bootstrap, "deleted")
    for protocol in ("classic", "consumer"):
        commit_as_member(bootstrap, protocol)


def commit_as_member(bootstrap: str, protocol: str) -> None:
    """Join a group of its own, read something, commit, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["codecs"])
    received: list[Message] = []
    eventually(lambda: receive(consumer, received), f"the group {protocol} receives a record")
    consumer.commit(message=received[0], asynchronous=False)
    consumer.close()


def receive(consumer: Consumer, received: list[Message]) -> bool:
    """Wait a moment for a record, and keep it."""
    message = consumer.poll(0.2)
    if message is None or message.error():
        return False
    received.append(message)
    return True


def write_transactions(bootstrap: str) -> None:
    """Write transactions that are committed, aborted and left open, and that commit offsets."""
    create_topic(bootstrap, "transactions", 1, SMALL_SEGMENTS)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "transactional"})
    for number in range(3):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id-{number}"})
        producer.init_transactions(DEADLINE_SECONDS)
        for is_committed in (True, False):
            producer.begin_transaction()
            for value in range(20):
                producer.produce("transactions", f"{number} {value}".encode(), b"key")
            producer.flush(DEADLINE_SECONDS)
            offsets = [TopicPartition("transactions", 0, number, f"metadata {number}")]
            producer.send_offsets_to_transaction(
                offsets, consumer.consumer_group_metadata(), DEADLINE_SECONDS
            )
            if is_committed:
                producer.commit_transaction(DEADLINE_SECONDS)
            elif number:
                producer.abort_transaction(DEADLINE_SECONDS)
    consumer.close()


class Written(NamedTuple):
    """The log directory of a broker as it was while the broker was running, and when it had stopped."""

    running: Path
    stopped: Path


@pytest.fixture(scope="module", params=["apache", "kcli"])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka_tool: KafkaTools
) -> Written:
    """What a broker of either kind wrote."""
    directory = tmp_path_factory.mktemp(f"dump-{request.param}")
    is_apache = request.param == "apache"
    one_partition = {"transaction.state.log.num.partitions": "1"}
    broker = (
        ApacheKafka(directory, kafka_tool) if is_apache else KcliBroker(directory, settings=one_partition)
    )
    broker.start()
    try:
        write_topics(broker.bootstrap)
        write_transactions(broker.bootstrap)
        deleted = broker.node_directory / "deleted-0"
        eventually(lambda: not deleted.exists(), "the deleted topic is on its way out")
        copy = copy_running(broker.node_directory, directory / "copy")
        # The broker writes its metadata log all the time: no index may know of more than its log holds.
        for log in copy.rglob("*.log"):
            shutil.copyfile(broker.node_directory / log.relative_to(copy), log)
    except BaseException:
        broker.kill()
        raise
    broker.stop()
    return Written(copy, broker.node_directory)


def files_of(directory: Path, *suffixes: str) -> list[Path]:
    """The files with one of the suffixes, in order; the original fails at the indexes of an empty log."""
    return sorted(
        path
        for path in directory.rglob("*")
        if path.suffix in suffixes and path.is_file() and not path.parent.name.endswith("-delete")
    )


@pytest.mark.parametrize("flags", LOG_FLAGS, ids=" ".join)
def test_the_logs_of_a_broker(written: Written, same: Same, flags: tuple[str, ...]) -> None:
    same(files_of(written.running, ".log", ".checkpoint"), *flags)


@pytest.mark.parametrize("topic", TOPIC_DECODERS)
def test_the_internal_topics_of_a_broker(written: Written, same: Same, topic: str) -> None:
    for directory in written.stopped.glob(f"{topic}-*"):
        same(files_of(directory, ".log", ".checkpoint"), TOPIC_DECODERS[topic])


@pytest.mark.parametrize("flags", INDEX_FLAGS, ids=" ".join)
def test_the_indexes_of_a_broker(written: Written, same: Same, flags: tuple[str, ...]) -> None:
    same(files_of(written.stopped, ".index", ".timeindex"), *flags)


@pytest.mark.parametrize("flags", [(), ("--verify-index-only",)], ids=" ".join)
def test_the_indexes_of_a_running_broker(written: Written, same: Same, flags: tuple[str, ...]) -> None:
    indexes = files_of(written.running, ".index", ".timeindex")
    # The original fails at the reserved space of an index without a log.
    same([path for path in indexes if path.with_suffix(".log").stat().st_size], *flags)


def test_aborted_transactions_and_producers_of_a_broker(written: Written, same: Same) -> None:
    same(files_of(written.stopped, ".txnindex", ".snapshot"))


def test_all_files_of_a_broker_at_once(written: Written, same: Same) -> None:
    same(files_of(written.stopped, *KINDS), "--print-data-log")
