"""Checkpoints and `partition.metadata`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import uuid_from_text
from kcli.storage.checkpoints import (
    CheckpointError,
    read_epochs,
    read_offsets,
    read_partition_metadata,
    write_epochs,
    write_offsets,
    write_partition_metadata,
)

APACHE = Path(__file__).parent.parent / "golden" / "storage" / "apache-4.3.1"
OFFSETS = {TopicPartition("orders", 0): 1234, TopicPartition("a-b", 11): 0}


def test_offsets_are_text(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    write_offsets(str(path), OFFSETS)
    assert path.read_text() == "0\n2\norders 0 1234\na-b 11 0\n"
    assert read_offsets(str(path)) == OFFSETS
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_checkpoint_without_entries_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log-start-offset-checkpoint"
    write_offsets(str(path), {})
    assert path.read_bytes() == (APACHE / path.name).read_bytes()
    assert read_offsets(str(path)) == {}


def test_missing_and_empty_files_have_no_entries(tmp_path: Path) -> None:
    assert read_offsets(str(tmp_path / "missing")) == {}
    (tmp_path / "empty").write_bytes(b"")
    assert read_offsets(str(tmp_path / "empty")) == {}
    assert read_epochs(str(tmp_path / "empty")) == []


@pytest.mark.parametrize(
    "text",
    [
        "1\n0\n",
        "0\n",
        "0\n2\norders 0 1\n",
        "0\n0\norders 0 1\n",
        "0\nx\norders 0 1\n",
        "0\n1\norders 0\n",
        "0\n1\norders zero 1\n",
        "0\n1\norders 0 1 2\n",
        "0\n-1\n",
        "0\n1\norders 0 1\n\n",
        "\0\0\0\0\0\0",
    ],
)
def test_a_torn_or_foreign_checkpoint_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(text)
    with pytest.raises(CheckpointError):
        read_offsets(str(path))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"0\n1\n\xff\xfe 0 1\n")
    with pytest.raises(CheckpointError):
        read_offsets(str(tmp_path / "checkpoint"))


def test_checkpoints_of_apache_kafka_are_read() -> None:
    end = {TopicPartition("golden-topic", 0): 495, TopicPartition("__transaction_state", 0): 16}
    assert read_offsets(str(APACHE / "recovery-point-offset-checkpoint")) == end
    assert read_offsets(str(APACHE / "replication-offset-checkpoint")) == end
    assert read_offsets(str(APACHE / "cleaner-offset-checkpoint")) == {}
    assert read_epochs(str(APACHE / "golden-topic-0" / "leader-epoch-checkpoint")) == [(0, 0)]


def test_leader_epochs_are_text(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    write_epochs(str(path), [(0, 0), (3, 17)])
    assert path.read_text() == "0\n2\n0 0\n3 17\n"
    assert read_epochs(str(path)) == [(0, 0), (3, 17)]


def test_partition_metadata_is_byte_equal_to_apache_kafkas(tmp_path: Path) -> None:
    replica = APACHE / "golden-topic-0"
    topic_id = read_partition_metadata(str(replica))
    assert topic_id is not None
    write_partition_metadata(str(tmp_path), topic_id)
    assert (tmp_path / "partition.metadata").read_bytes() == (replica / "partition.metadata").read_bytes()


def test_a_directory_without_metadata_has_no_topic_id(tmp_path: Path) -> None:
    assert read_partition_metadata(str(tmp_path)) is None


@pytest.mark.parametrize(
    "text",
    [
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0\ntopic_id: short",
        "version: 0\n",
        "topic_id: Hz_-APEL7nFRgOmi52JNrw",
        "version: x\ntopic_id: Hz_-APEL7nFRgOmi52JNrw",
        "version: -1\ntopic_id: Hz_-APEL7nFRgOmi52JNrw",
    ],
)
def test_partition_metadata_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(CheckpointError):
        read_partition_metadata(str(tmp_path))


def test_the_zero_topic_id_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zero topic id"):
        write_partition_metadata(str(tmp_path), bytes(16))
    assert uuid_from_text("AAAAAAAAAAAAAAAAAAAAAA") == bytes(16)
