"""What kcli writes, Apache Kafka's dump tool and broker read; what Apache Kafka wrote, kcli serves."""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.broker.metadata.metadata_log import MetadataLog
from kcli.broker.metadata.metadata_replay import replay
from tests.support.apache_kafka import NEWEST, OLDER, ApacheKafka
from tests.support.copies import copy_running
from tests.support.producing import create_topic, delete_topic, end_offsets, produce, read_partition
from tests.support.records import Shape, TestRecord, generate
from tests.support.waiting import first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 1500
GOLDEN = Path(__file__).parent.parent / "golden" / "storage"
GROUP = [["g1", "orders", str(number), "10"] for number in range(3)]
NOW_MS = 1_800_000_000_000
SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}


def write_every_codec(bootstrap: str, topic: str) -> list[TestRecord]:
    """A partition of several segments, idempotent, a part by each codec; the records with their offsets."""
    create_topic(bootstrap, topic, 1, SMALL_SEGMENTS)
    expected: list[TestRecord] = []
    for seed, codec in enumerate(CODECS):
        records = generate(seed, 0, COUNT, Shape())
        padding = [replace(record, value=bytes(30_000)) for record in records[:40]]
        produce(
            bootstrap,
            topic,
            [*padding, *records],
            {"compression.type": codec, "enable.idempotence": True, "batch.size": 16_384},
        )
        expected += [*padding, *records]
    return [replace(record, offset=offset) for offset, record in enumerate(expected)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """The directory of a kcli node that wrote a topic of several segments and was stopped cleanly."""
    from tests.support.kcli_broker import KcliBroker

    broker = KcliBroker(tmp_path_factory.mktemp("on-disk"))
    broker.start()
    try:
        records = write_every_codec(broker.bootstrap, "disk")
        create_topic(broker.bootstrap, "deleted")
        delete_topic(broker.bootstrap, "deleted")
        assert broker.stop() == 0
        yield Written(broker, records)
    finally:
        broker.close()


class Written:
    """A stopped broker and what its topic holds."""

    def __init__(self, broker: KcliBroker, records: list[TestRecord]) -> None:
        self.broker = broker
        self.records = records

    def files(self, suffix: str) -> list[Path]:
        """The topic's files with a suffix, of segments that hold records."""
        directory = self.broker.node_directory / "disk-0"
        found = sorted(directory.glob(f"*{suffix}"))
        return [
            path for path in found if path.suffix == ".snapshot" or path.with_suffix(".log").stat().st_size
        ]


def dump(tools: KafkaTools, files: list[Path], *options: str) -> list[str]:
    """The dump tool's lines; it must neither fail nor complain."""
    assert files
    result = tools("kafka-dump-log", "--files", ",".join(map(str, files)), *options)
    assert result.code == 0, result
    # The tool expects every file to start at offset 0.
    complaints = re.sub(r"Non-consecutive offsets in .*\n( +-1 is followed by \d+\n)+", "", result.errors)
    assert complaints == ""
    for complaint in ("not found", "Exception", "mismatch", "out of order", "Ignoring", "invalid bytes"):
        assert complaint not in result.output
    return result.lines


def test_dump_tool_reads_every_batch_and_record(written: Written, kafka_tool: KafkaTools) -> None:
    logs = written.files(".log")
    assert len(logs) > 2
    lines = dump(kafka_tool, logs, "--print-data-log", "--max-message-size", "20000000")
    batches = [line for line in lines if line.startswith("baseOffset:")]
    assert all("isvalid: true" in line for line in batches)
    assert {re.search(r"compresscodec: (\w+)", line)[1] for line in batches} == set(CODECS)
    shown = [re.match(r"\| offset: (\d+) CreateTime: (\d+)", line) for line in lines]
    pairs = [(int(match[1]), int(match[2])) for match in shown if match]
    assert pairs == [(record.offset, record.timestamp) for record in written.records]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_dump_tool_accepts_the_indexes(written: Written, kafka_tool: KafkaTools, suffix: str) -> None:
    indexes = written.files(suffix)
    checked = dump(kafka_tool, indexes, "--index-sanity-check")
    assert sum("passed sanity check" in line for line in checked) == len(indexes)
    dump(kafka_tool, indexes, "--verify-index-only")
    entries = [line for line in dump(kafka_tool, indexes) if line.startswith(("offset:", "timestamp:"))]
    assert len(entries) > 20


def test_dump_tool_reads_the_producer_snapshots(written: Written, kafka_tool: KafkaTools) -> None:
    snapshots = written.files(".snapshot")
    lines = dump(kafka_tool, snapshots)
    producers = [line for line in lines if line.startswith("producerId:")]
    assert len(set(re.findall(r"producerId: (\d+)", "\n".join(producers)))) == len(CODECS)
    end = len(written.records)
    last = dump(kafka_tool, snapshots[-1:])
    assert snapshots[-1].stem == f"{end:020}"
    assert any(f"lastOffset: {end - 1}" in line or f"offset: {end - 1}" in line for line in last)


def test_dump_tool_prints_the_metadata_log(written: Written, kafka_tool: KafkaTools) -> None:
    logs = sorted((written.broker.node_directory / "__cluster_metadata-0").glob("*.log"))
    text = "\n".join(dump(kafka_tool, logs, "--cluster-metadata-decoder"))
    for expected in (
        '"type":"FEATURE_LEVEL_RECORD"',
        '"type":"REGISTER_BROKER_RECORD"',
        '"type":"TOPIC_RECORD","version":0,"data":{"name":"disk"',
        '"type":"PARTITION_RECORD"',
        '"type":"CONFIG_RECORD"',
        '"type":"PRODUCER_IDS_RECORD"',
        '"type":"REMOVE_TOPIC_RECORD"',
        "LeaderChange",
    ):
        assert expected in text
    assert "Could not read" not in text


def test_checkpoints_have_the_original_form(written: Written) -> None:
    node = written.broker.node_directory
    assert (node / "disk-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    end = len(written.records)
    assert f"disk 0 {end}" in (node / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert f"disk 0 {end}" in (node / "replication-offset-checkpoint").read_text().splitlines()
    assert re.fullmatch(
        r"version: 0\ntopic_id: [\w-]{22}\n?", (node / "disk-0" / "partition.metadata").read_text()
    )
    assert "version=1" in (node / "meta.properties").read_text()


def test_apache_kafka_starts_on_a_directory_that_kcli_wrote(
    written: Written, tmp_path: Path, kafka_tool: KafkaTools
) -> None:
    apache = ApacheKafka(tmp_path, kafka_tool, data=written.broker.node_directory)
    apache.start()
    try:
        assert read_partition(apache.bootstrap, "disk", 0) == written.records
        produce(apache.bootstrap, "disk", [TestRecord(0, -1, int(time.time() * 1000), b"k", b"more")])
        assert end_offsets(apache.bootstrap, "disk")[0] == (0, len(written.records) + 1)
    finally:
        apache.stop()


ACL_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.retention.minutes": "100000000",
}
DYNAMIC_QUORUM = {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Apache Kafka that wrote a directory of the golden files, and what it needs to read it."""

    version: str
    module: str
    settings: Mapping[str, str]
    unserved: str


RELEASES = (
    Release(
        "4.3.1",
        NEWEST,
        DYNAMIC_QUORUM,
        "share groups (`share.version` 1), streams groups (`streams.version` 1), ",
    ),
    Release("4.1.1", OLDER, {}, ""),
)


@pytest.mark.parametrize("release", RELEASES, ids=[release.version for release in RELEASES])
def test_a_cluster_of_apache_kafka_goes_to_kcli_and_back(
    release: Release,
    new_kcli_broker: Callable[..., KcliBroker],
    kafka_tool: KafkaTools,
    kcli: Callable[..., Finished],
    tmp_path: Path,
) -> None:
    """Nothing is lost on the way: topics, offsets, configurations, quotas, credentials, ACLs, the voters."""
    broker = new_kcli_broker(settings={"offsets.retention.minutes": "100000000"})
    shutil.copytree(GOLDEN / f"cluster-{release.version}", broker.node_directory)
    broker.start()
    assert len(read_partition(broker.bootstrap, "orders", 0)) == 10
    address = ("-b", broker.bootstrap, "-o", "text")
    offsets = kcli("consumer-groups", "describe", "g1", *address).out
    assert [line.split()[:4] for line in offsets.splitlines() if line.startswith("g1")] == GROUP
    produce(broker.bootstrap, "orders", [TestRecord(0, -1, int(time.time() * 1000), b"k", b"more")])
    create_topic(broker.bootstrap, "made-by-kcli", 2)
    assert (
        kcli("configs", "alter", "--broker-defaults", "--add", "num.io.threads=10", *address).exit_code == 0
    )
    assert broker.stop() == 0
    warned = [line for line in broker.log.read_text().splitlines() if "not served" in line]
    kept = f"{release.unserved}2 access control entries, 1 SCRAM credential"
    assert [line.partition("WARNING ")[2] for line in warned] == [
        f"kept for Apache Kafka, but not served here: {kept}: every client gets in"
    ]
    replace_by_snapshot(broker.node_directory)

    settings = {**ACL_SETTINGS, **release.settings}
    apache = ApacheKafka(
        tmp_path, kafka_tool, data=broker.node_directory, settings=settings, module=release.module
    )
    apache.start()
    try:

        def shown(tool: str, *arguments: str) -> str:
            result = kafka_tool(tool, "--bootstrap-server", apache.bootstrap, *arguments)
            assert result.code == 0, result
            return result.output

        ends = {("orders", 0): 11, ("orders", 1): 10, ("orders", 2): 10, ("made-by-kcli", 0): 0}
        for (topic, partition), end in ends.items():
            assert end_offsets(apache.bootstrap, topic)[partition] == (0, end)
        lines = first(
            lambda: shown("kafka-consumer-groups", "--describe", "--group", "g1").splitlines(),
            lambda lines: any(line.startswith("g1") for line in lines),
            "the coordinator has read the group",
        )
        assert [line.split()[:4] for line in lines if line.startswith("g1")] == GROUP
        brokers = shown("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-default")
        assert re.findall(r"^  (\S+=\S+)", brokers, re.MULTILINE) == [
            "log.cleaner.threads=2",
            "min.insync.replicas=1",
            "num.io.threads=10",
        ]
        users = shown("kafka-configs", "--describe", "--entity-type", "users", "--entity-name", "alice")
        assert "producer_byte_rate=1.0E7" in users
        assert "SCRAM-SHA-256=iterations=4096" in users
        orders = shown("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "orders")
        assert "max.message.bytes=123456" in orders
        acls = shown("kafka-acls", "--list")
        assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in acls
        assert "principal=User:bob, host=*, operation=WRITE, permissionType=DENY" in acls
        features = kafka_tool("kafka-features", "--bootstrap-server", apache.bootstrap, "describe").output
        levels = dict(re.findall(r"Feature: (\S+) .*FinalizedVersionLevel: (\S+)", features))
        assert levels["metadata.version"].startswith(release.version[:3])
        assert levels["transaction.version"] == "2"
        assert levels["kraft.version"] == str(int(release.settings is DYNAMIC_QUORUM))
    finally:
        apache.stop()


def replace_by_snapshot(node_directory: Path) -> None:
    """Replace the metadata log by a snapshot, as a start does with a long one."""
    log = MetadataLog.open(str(node_directory), node_id=1, wall_ms=lambda: NOW_MS, report=print)
    log.restart_from(replay(log.replay()))
    log.close()


@pytest.mark.parametrize("running", [True, False], ids=["copied-while-running", "copied-after-shutdown"])
def test_kcli_serves_a_topic_that_apache_kafka_wrote(
    apache_kafka: ApacheKafka,
    new_kcli_broker: Callable[..., KcliBroker],
    kafka_tool: KafkaTools,
    running: bool,
) -> None:
    topic = f"adopted-{running}"
    records = write_every_codec(apache_kafka.bootstrap, topic)
    broker = new_kcli_broker(arguments=["--adopt"])
    if not running:
        apache_kafka.stop()
    copy_running(apache_kafka.data / f"{topic}-0", broker.node_directory / f"{topic}-0")
    if not running:
        apache_kafka.start()
    delete_topic(apache_kafka.bootstrap, topic)
    broker.start()
    assert read_partition(broker.bootstrap, topic, 0) == records
    middle = len(records) // 2
    assert read_partition(broker.bootstrap, topic, 0, middle, middle + 10) == records[middle : middle + 10]
    more = TestRecord(0, len(records), int(time.time() * 1000), b"key", b"one more")
    produce(broker.bootstrap, topic, [more], {"enable.idempotence": True})
    assert read_partition(broker.bootstrap, topic, 0, len(records)) == [more]
    assert broker.stop() == 0
    logs = sorted((broker.node_directory / f"{topic}-0").glob("*.log"))
    dump(kafka_tool, [path for path in logs if path.stat().st_size], "--deep-iteration")
