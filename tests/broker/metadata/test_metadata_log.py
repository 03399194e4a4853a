"""The metadata log on disk: what survives, what is cut, what is refused, and Kafka's own bytes."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataImage
from kcli.broker.metadata.metadata_log import MetadataLog, MetadataLogFailed
from kcli.broker.metadata.metadata_replay import InvalidMetadata, replay
from kcli.protocol.internal.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    TopicRecord,
)
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.schema.declaration import DecodeError
from kcli.storage.checkpoints import read_epochs, read_partition_metadata
from tests.support.metadata import broker, topic_id

LOG = "00000000000000000000.log"
NOW_MS = 1_795_243_063_165


class Harness:
    """A log directory whose metadata log is opened again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reports: list[str] = []

    @property
    def directory(self) -> Path:
        return self.path / "__cluster_metadata-0"

    @property
    def bytes(self) -> bytes:
        return (self.directory / LOG).read_bytes()

    @bytes.setter
    def bytes(self, data: bytes) -> None:
        (self.directory / LOG).write_bytes(data)

    def open(self) -> MetadataLog:
        return MetadataLog.open(str(self.path), node_id=1, wall_ms=lambda: NOW_MS, report=self.reports.append)

    def image(self) -> MetadataImage:
        log = self.open()
        image = replay(log.replay())
        log.close()
        return image

    def write(self, *batches: list[MetadataRecord]) -> None:
        """Append decisions in an epoch of their own."""
        log = self.open()
        log.begin_epoch()
        for batch in batches:
            log.append(batch)
        log.close()


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def feature(level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=level)


def batches_of(data: bytes) -> list[RecordBatch]:
    return [batch for batch in iter_batches(data) if isinstance(batch, RecordBatch)]


def test_a_new_directory_has_what_kafkas_has(harness: Harness) -> None:
    harness.write([feature(30)])
    assert sorted(os.listdir(harness.directory)) == [
        "00000000000000000000.index",
        LOG,
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "quorum-state",
    ]
    assert (harness.directory / "quorum-state").read_text() == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert (harness.directory / "leader-epoch-checkpoint").read_bytes() == b"0\n1\n1 0\n"
    assert (harness.directory / "partition.metadata").read_bytes() == (
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    )
    assert read_partition_metadata(str(harness.directory)) == bytes(15) + b"\x01"


def test_the_batch_that_opens_a_term_is_kafkas(harness: Harness) -> None:
    harness.write()
    # The first batch that Apache Kafka 4.3.1 wrote for node 1 in epoch 1 at this time.
    assert harness.bytes.hex() == (
        "00000000000000000000004f0000000102807f6fb8002000000000000001a1fcd3377d000001a1fcd3377dffffffffffffff"
        "ffffffffffffff000000013a0000000800000002260000000000010200000001000200000001000000"
    )


def test_one_decision_is_one_batch_in_the_terms_epoch(harness: Harness) -> None:
    harness.write([feature(29), feature(30)], [feature(28)])
    harness.write([feature(30)])
    shapes = [
        (batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.is_control)
        for batch in batches_of(harness.bytes)
    ]
    assert shapes == [
        (0, 0, 1, True),
        (1, 2, 1, False),
        (3, 3, 1, False),
        (4, 4, 2, True),
        (5, 5, 2, False),
    ]
    assert read_epochs(str(harness.directory / "leader-epoch-checkpoint")) == [(1, 0), (2, 4)]
    assert harness.image() == MetadataImage(features={"metadata.version": 30}, offset=5, epoch=2)


@pytest.mark.parametrize("lost", ["quorum-state", "leader-epoch-checkpoint", "partition.metadata"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_a_term_is_always_higher_than_any_before(harness: Harness, lost: str, content: bytes | None) -> None:
    harness.write([feature(30)])
    harness.write()
    if content is None:
        os.remove(harness.directory / lost)
    elif lost != "partition.metadata":
        (harness.directory / lost).write_bytes(content)
    log = harness.open()
    assert log.begin_epoch() == 3
    log.close()


def test_a_term_that_left_no_record_is_not_used_twice(harness: Harness) -> None:
    harness.write([feature(30)])
    before = harness.bytes
    log = harness.open()
    assert log.begin_epoch() == 2
    harness.bytes = before
    assert harness.open().begin_epoch() == 3


def test_a_last_batch_is_there_or_not_wherever_it_was_cut(harness: Harness) -> None:
    harness.write([feature(29)], [feature(30), TopicRecord(name="a", topic_id=topic_id(1))])
    whole = harness.bytes
    start = len(whole) - batches_of(whole)[-1].size_in_bytes
    for end in range(start, len(whole)):
        harness.bytes = whole[:end]
        harness.reports.clear()
        image = harness.image()
        assert (image.offset, image.features) == (1, {"metadata.version": 29})
        assert harness.bytes == whole[:start]
        assert bool(harness.reports) == (end > start)


def test_a_last_batch_of_wrong_bytes_is_cut(harness: Harness) -> None:
    harness.write([feature(29)], [feature(30)])
    whole = harness.bytes
    damaged = bytearray(whole)
    damaged[-3] ^= 0xFF
    harness.bytes = bytes(damaged)
    assert harness.image().features == {"metadata.version": 29}
    assert any("cut" in report for report in harness.reports)
    harness.write([feature(28)])
    assert harness.image().features == {"metadata.version": 28}


def test_a_flipped_bit_before_the_end_is_refused_and_nothing_is_cut(harness: Harness) -> None:
    harness.write([feature(29)], [feature(30)])
    whole = harness.bytes
    last = len(whole) - batches_of(whole)[-1].size_in_bytes
    # The first twelve bytes of a batch and its leader epoch lie outside the checksum.
    for position in range(91 + 17, last, 5):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        harness.bytes = bytes(damaged)
        with pytest.raises(InvalidMetadata, match="is damaged at byte 91, before its end"):
            harness.open()
        assert harness.bytes == bytes(damaged)


def test_an_offset_or_size_that_is_wrong_before_the_end_is_refused(harness: Harness) -> None:
    harness.write([feature(29)], [feature(30)])
    whole = harness.bytes
    for position in (91 + 7, 91 + 11):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        harness.bytes = bytes(damaged)
        with pytest.raises(InvalidMetadata):
            harness.open()


def test_indexes_are_made_anew(harness: Harness) -> None:
    harness.write(*[[TopicRecord(name="a" * 100, topic_id=topic_id(n))] for n in range(200)])
    index = harness.directory / "00000000000000000000.index"
    time_index = harness.directory / "00000000000000000000.timeindex"
    written = index.read_bytes(), time_index.read_bytes()
    assert all(written)
    index.write_bytes(b"\0" * 80)
    os.remove(time_index)
    harness.open().close()
    assert (index.read_bytes(), time_index.read_bytes()) == written


def test_records_that_nobody_knows_are_refused(harness: Harness) -> None:
    harness.write([feature(30)])
    builder = RecordBatchBuilder(base_offset=2, leader_epoch=1)
    builder.append(NOW_MS, None, bytes.fromhex("01630000"))
    harness.bytes += bytes(builder.build())
    with pytest.raises(DecodeError, match="unknown metadata record: type 99"):
        harness.image()


def test_a_transaction_counts_from_its_end(harness: Harness) -> None:
    harness.write(
        [BeginTransactionRecord(), feature(28)],
        [feature(29), EndTransactionRecord()],
        [BeginTransactionRecord(), feature(30), AbortTransactionRecord()],
        [BeginTransactionRecord(), feature(31)],
    )
    assert harness.image().features == {"metadata.version": 29}


@pytest.mark.parametrize(
    "torn", [b"", b"version: 0\ntopic_", b"version: 0\ntopic_id: XbdEGTQLTI-nkjyys2TAnQ"]
)
def test_a_torn_topic_id_is_written_again(harness: Harness, torn: bytes) -> None:
    harness.open().close()
    path = harness.directory / "partition.metadata"
    whole = path.read_bytes()
    path.write_bytes(torn)
    harness.open().close()
    assert path.read_bytes() == whole


def test_a_disk_that_cannot_sync_ends_all_decisions(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = harness.open()
    log.begin_epoch()

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(MetadataLogFailed, match="cannot sync the metadata log"):
        log.append([feature(30)])
    monkeypatch.undo()
    with pytest.raises(MetadataLogFailed, match="has failed"):
        log.append([feature(30)])


def test_a_controllers_image_is_what_the_next_start_reads(harness: Harness) -> None:
    log = harness.open()
    controller = Controller(log, EMPTY_IMAGE, random=Random(1))
    controller.begin_epoch()
    one = broker(1)
    epoch = controller.register_broker(
        BrokerRegistrationRequest(
            node_id=1, incarnation=one.incarnation, endpoints=one.endpoints, directories=one.directories
        )
    )
    controller.unfence_broker(node_id=1, epoch=epoch)
    controller.create_topics([NewTopic("a", 5), NewTopic("b", 1)], defaults=TopicDefaults())
    controller.delete_topics([controller.image.topics["b"].topic_id])
    log.close()
    assert harness.image() == controller.image
