"""Snapshots: an image there and back, Kafka's own, and what happens around a compaction."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.client_quota_control import QuotaAlteration
from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.metadata import metadata_log
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataImage
from kcli.broker.metadata.metadata_log import MetadataLog
from kcli.broker.metadata.metadata_replay import InvalidMetadata, apply, replay
from kcli.broker.metadata.metadata_snapshot import (
    InvalidSnapshot,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    image_records,
)
from kcli.protocol.internal.metadata_records import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
)
from kcli.protocol.internal.security_records import UserScramCredentialRecord
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.control_records import ControlRecordType
from kcli.storage.checkpoints import read_epochs
from tests.support.metadata import broker, image_of, running_controller, topic_id, with_topic

NOW_MS = 1_795_243_063_165

# The snapshot that Apache Kafka 4.3.1 begins a new cluster with.
OF_KAFKA = """
0000000000000000000000470000000002913e8267002000000000000001a1fcd33047000001a1fcd33047ffffffffff
ffffffffffffffffff000000012a0000000800000003160000000000000000000000000000000000000001000000f100
000000027cb13771000000000005000001a1fcd33064000001a1fcd33064ffffffffffffffffffffffffffff00000006
3a000000012e010c00116d657461646174612e76657273696f6e001e00005a000002014e010c0021656c696769626c65
2e6c65616465722e7265706c696361732e76657273696f6e00010000340000040128010c000e67726f75702e76657273
696f6e00010000340000060128010c000e73686172652e76657273696f6e0001000038000008012c010c001073747265
616d732e76657273696f6e000100004000000a0134010c00147472616e73616374696f6e2e76657273696f6e00020000
00000000000000070000003f000000000243a433c4002000000000000001a1fcd33066000001a1fcd33066ffffffffff
ffffffffffffffffff000000011a00000008000000040600000000
"""


def rich_image() -> MetadataImage:
    """Return an image in which everything an image can have differs from its default."""
    controller = running_controller(3)
    controller.create_topics(
        [NewTopic("a", 3, 2, configs={"retention.ms": "5"}), NewTopic("b.c", 1, 3)], defaults=TopicDefaults()
    )
    controller.incremental_alter_configs(
        [((4, ""), [ConfigChange("log.retention.ms", 0, "7")])], defaults=TopicDefaults()
    )
    quotas = [QuotaAlteration((("user", None), ("client-id", "c")), [("producer_byte_rate", 7.0)])]
    assert controller.alter_client_quotas(quotas) == [None]
    controller.allocate_producer_ids(node_id=1, broker_epoch=2)
    controller.fence_broker(node_id=2, epoch=controller.image.brokers[2].epoch)
    change = PartitionChangeRecord(
        partition_id=0,
        topic_id=controller.image.topics["a"].topic_id,
        adding_replicas=[3],
        removing_replicas=[1],
        leader_recovery_state=1,
        eligible_leader_replicas=[2],
        last_known_elr=[1],
    )
    credential = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    quorum = {ControlRecordType.KRAFT_VERSION: b"\0\0\0\1\0", ControlRecordType.KRAFT_VOTERS: b"voters"}
    return replace(apply(controller.image, [change, credential])[0], quorum=quorum)


def test_the_records_of_an_image_make_that_image() -> None:
    image = rich_image()
    made, _ = apply(EMPTY_IMAGE, image_records(image), last_offset=image.offset, epoch=image.epoch)
    assert replace(made, quorum=image.quorum) == image


def test_there_and_back() -> None:
    image = rich_image()
    snapshot_id = SnapshotId(image.offset + 1, image.epoch)
    assert SnapshotId.parse(snapshot_id.file_name) == snapshot_id
    batch = decode_snapshot(encode_snapshot(image, now_ms=NOW_MS), snapshot_id)
    assert replay([batch]) == image


def test_records_that_an_older_release_does_not_know_are_not_written() -> None:
    """4.1 has no field for cordoned log directories: version 4 of a registration would end its start."""
    image = rich_image()
    for level, expected in ((30, {0: 4, 3: 2}), (27, {0: 3, 3: 2}), (17, {0: 3, 3: 1}), (7, {0: 1, 3: 0})):
        older = replace(image, features={**image.features, "metadata.version": level})
        versions = {}
        for batch in iter_batches(encode_snapshot(older, now_ms=NOW_MS)):
            assert isinstance(batch, RecordBatch)
            if not batch.is_control:
                versions.update(
                    {record.value[1]: record.value[2] for record in batch.records() if record.value}
                )
        assert versions.items() >= expected.items()


def test_a_large_image_takes_several_batches() -> None:
    image = image_of(broker(1))
    for number in range(3):
        image = with_topic(image, f"t{number}", number, *[[1]] * 700)
    data = encode_snapshot(image, now_ms=NOW_MS)
    assert replay([decode_snapshot(data, SnapshotId(image.offset + 1, image.epoch))]) == image


def test_kafkas_own_snapshot_is_read() -> None:
    batch = decode_snapshot(bytes.fromhex(OF_KAFKA), SnapshotId(0, 0))
    assert replay([batch]) == MetadataImage(
        features={
            "metadata.version": 30,
            "eligible.leader.replicas.version": 1,
            "group.version": 1,
            "share.version": 1,
            "streams.version": 1,
            "transaction.version": 2,
        }
    )


def test_header_and_footer_are_kafkas() -> None:
    ours = encode_snapshot(MetadataImage(features={"metadata.version": 30}), now_ms=0)
    theirs = bytes.fromhex(OF_KAFKA)
    # All but length and checksum, the times, and the time that the header tells.
    assert ours[57:83] == theirs[57:83]
    assert ours[-15:] == theirs[-15:]


def test_a_snapshot_is_worth_nothing_unless_it_is_whole() -> None:
    image = rich_image()
    data = encode_snapshot(image, now_ms=NOW_MS)
    for end in range(0, len(data), 7):
        with pytest.raises(InvalidSnapshot):
            decode_snapshot(data[:end], SnapshotId(1, 1))
    starts = [batch.position for batch in iter_batches(data) if isinstance(batch, RecordBatch)]
    for position in range(len(data)):
        if any(start + 12 <= position < start + 16 for start in starts):
            continue  # The leader epoch of a batch, which nothing depends on, lies outside its checksum.
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(InvalidSnapshot):
            decode_snapshot(bytes(damaged), SnapshotId(1, 1))


@pytest.mark.parametrize("name", ["1-1.checkpoint", "00000000000000000001-0000000001.checkpoint.tmp", "x"])
def test_other_files_are_no_snapshots(name: str) -> None:
    assert SnapshotId.parse(name) is None


# --- in the log


class Cluster:
    """A metadata log that is compacted when it has 2,000 bytes more than it should."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reports: list[str] = []

    @property
    def directory(self) -> Path:
        return self.path / "__cluster_metadata-0"

    @property
    def names(self) -> list[str]:
        return sorted(name for name in os.listdir(self.directory) if name.endswith((".log", ".checkpoint")))

    def open(self) -> tuple[MetadataLog, MetadataImage]:
        log = MetadataLog.open(str(self.path), node_id=1, wall_ms=lambda: NOW_MS, report=self.reports.append)
        return log, replay(log.replay())

    def run(self, topics: int) -> MetadataImage:
        """Start, create some topics, stop."""
        log, image = self.open()
        controller = Controller(log, image, random=Random(1))
        controller.begin_epoch()
        one = broker(1)
        epoch = controller.register_broker(
            BrokerRegistrationRequest(
                node_id=1,
                incarnation=f"incarnation {controller.image.offset:04d}".encode(),
                endpoints=one.endpoints,
                directories=one.directories,
            )
        )
        controller.unfence_broker(node_id=1, epoch=epoch)
        for _ in range(topics):
            name = f"t{controller.image.offset}"
            controller.create_topics([NewTopic(name, 3, 1)], defaults=TopicDefaults())
        log.close()
        return controller.image

    def read(self) -> MetadataImage:
        log, image = self.open()
        log.close()
        return image


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(metadata_log, "COMPACTION_BYTES", 2000)
    return Cluster(tmp_path)


def test_a_long_log_becomes_a_snapshot_at_the_next_start(cluster: Cluster) -> None:
    before = cluster.run(topics=10)
    assert cluster.names == ["00000000000000000000.log"]
    after = cluster.run(topics=0)
    end = before.offset + 1
    assert cluster.names == [f"{end:020d}-0000000001.checkpoint", f"{end:020d}.log"]
    assert read_epochs(str(cluster.directory / "leader-epoch-checkpoint")) == [(2, end)]
    assert set(after.topics) == set(before.topics)
    assert cluster.read() == after
    assert cluster.reports == []


def test_restarts_do_not_let_the_log_grow(cluster: Cluster) -> None:
    cluster.run(topics=10)
    sizes = []
    for _ in range(12):
        image = cluster.run(topics=0)
        sizes.append(sum((cluster.directory / name).stat().st_size for name in cluster.names))
        assert cluster.read() == image
        assert len(cluster.names) <= 2
    assert max(sizes) < 20_000


def test_a_crash_before_the_new_segment(cluster: Cluster) -> None:
    image = cluster.run(topics=10)
    snapshot_id = SnapshotId(image.offset + 1, image.epoch)
    (cluster.directory / snapshot_id.file_name).write_bytes(encode_snapshot(image, now_ms=NOW_MS))
    assert cluster.read() == image
    assert len(cluster.run(topics=1).topics) == 11


def test_a_crash_before_the_old_segments_went(cluster: Cluster) -> None:
    image = cluster.run(topics=10)
    old = (cluster.directory / "00000000000000000000.log").read_bytes()
    after = cluster.run(topics=1)
    (cluster.directory / "00000000000000000000.log").write_bytes(old)
    assert cluster.read() == after
    assert len(after.topics) == len(image.topics) + 1


def test_a_torn_end_below_the_snapshot_costs_nothing(cluster: Cluster) -> None:
    image = cluster.run(topics=10)
    snapshot_id = SnapshotId(image.offset + 1, image.epoch)
    (cluster.directory / snapshot_id.file_name).write_bytes(encode_snapshot(image, now_ms=NOW_MS))
    path = cluster.directory / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-20])
    assert cluster.read() == image
    assert cluster.names == [snapshot_id.file_name, f"{image.offset + 1:020d}.log"]
    assert len(cluster.run(topics=1).topics) == 11


def test_a_damaged_snapshot_beside_the_whole_log_is_passed_over(cluster: Cluster) -> None:
    image = cluster.run(topics=10)
    name = SnapshotId(image.offset + 1, image.epoch).file_name
    (cluster.directory / name).write_bytes(encode_snapshot(image, now_ms=NOW_MS)[:-1])
    assert cluster.read() == image
    assert any("is not finished" in report for report in cluster.reports)


@pytest.mark.parametrize("damage", ["lost", "cut"])
def test_a_log_whose_beginning_nobody_knows_is_refused(cluster: Cluster, damage: str) -> None:
    cluster.run(topics=10)
    cluster.run(topics=0)
    path = cluster.directory / cluster.names[0]
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InvalidMetadata, match="earlier batches are missing"):
        cluster.open()


def test_a_segment_that_is_not_the_last_must_be_whole(cluster: Cluster) -> None:
    cluster.run(topics=10)
    old = (cluster.directory / "00000000000000000000.log").read_bytes()
    cluster.run(topics=0)
    (cluster.directory / "00000000000000000000.log").write_bytes(old[:-3])
    with pytest.raises(InvalidMetadata, match="before its end"):
        cluster.open()


def test_a_directory_with_only_a_snapshot_goes_on_from_there(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    image = replace(rich_image(), epoch=7)
    os.makedirs(cluster.directory)
    snapshot_id = SnapshotId(image.offset + 1, 7)
    (cluster.directory / snapshot_id.file_name).write_bytes(encode_snapshot(image, now_ms=NOW_MS))
    assert cluster.read() == image
    log, _ = cluster.open()
    assert log.begin_epoch() == 8
    log.append(
        [FeatureLevelRecord(name="x", feature_level=1), ProducerIdsRecord(broker_id=1, next_producer_id=9)]
    )
    log.close()
    after = cluster.read()
    assert (after.offset, after.epoch, after.next_producer_id) == (image.offset + 3, 8, 9)
    assert after.topics_by_id.keys() == image.topics_by_id.keys()
    assert topic_id(1) in after.topics_by_id
