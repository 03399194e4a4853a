"""Names of files and directories: making and parsing them."""

from __future__ import annotations

import pytest

from kcli.protocol.topics import TopicPartition
from kcli.storage.log_paths import (
    base_offset_of,
    offset_from_name,
    parse_replica_directory,
    replica_directory_name,
    segment_path,
    suffixed_directory_name,
)

UNIQUE_ID = "0123456789abcdef0123456789abcdef"


def test_files_are_named_by_twenty_digits() -> None:
    assert segment_path("/logs/orders-0", 42, ".log") == "/logs/orders-0/00000000000000000042.log"
    assert segment_path("d", 2**63 - 1, ".index") == "d/09223372036854775807.index"


@pytest.mark.parametrize(
    ("name", "suffix", "offset"),
    [
        ("00000000000000000042.log", ".log", 42),
        ("00000000000000000042.index", ".log", None),
        ("00000000000000000042.log.deleted", ".log", None),
        ("leader-epoch-checkpoint", ".log", None),
        (".log", ".log", None),
        ("00000000000000000042.timeindex", ".index", None),
    ],
)
def test_an_offset_is_read_from_a_name_of_the_kind(name: str, suffix: str, offset: int | None) -> None:
    assert base_offset_of(name, suffix) == offset


@pytest.mark.parametrize(
    ("name", "offset"),
    [("00000000000000000042.log.swap", 42), ("partition.metadata", None), ("7", None), ("7.snapshot", 7)],
)
def test_an_offset_begins_a_name(name: str, offset: int | None) -> None:
    assert offset_from_name(name) == offset


@pytest.mark.parametrize(
    ("name", "topic", "partition", "suffix"),
    [
        ("orders-0", "orders", 0, ""),
        ("a-b-12", "a-b", 12, ""),
        ("-7", None, 0, ""),
        ("orders", None, 0, ""),
        ("orders-x", None, 0, ""),
        ("orders-", None, 0, ""),
        ("lost+found", None, 0, ""),
        (f"a-b-3.{UNIQUE_ID}-delete", "a-b", 3, "-delete"),
        (f"orders-0.{UNIQUE_ID}-future", "orders", 0, "-future"),
        (f"orders-0.{UNIQUE_ID}-stray", "orders", 0, "-stray"),
        ("orders-delete", None, 0, ""),
        ("x.y-delete-4", "x.y-delete", 4, ""),
    ],
)
def test_a_directory_name_tells_whose_it_is(
    name: str, topic: str | None, partition: int, suffix: str
) -> None:
    parsed = parse_replica_directory(name)
    if topic is None:
        assert parsed is None
    else:
        assert parsed == (TopicPartition(topic, partition), suffix)


@pytest.mark.parametrize("suffix", ["-delete", "-stray", "-future"])
def test_suffixed_names_are_read_back(suffix: str) -> None:
    topic_partition = TopicPartition("a.b-c", 7)
    name = suffixed_directory_name(topic_partition, suffix, UNIQUE_ID)
    assert name == f"a.b-c-7.{UNIQUE_ID}{suffix}"
    assert parse_replica_directory(name) == (topic_partition, suffix)


def test_the_names_of_deleted_directories_fit_a_file_system() -> None:
    longest = TopicPartition("t" * 249, 123)
    assert len(replica_directory_name(longest)) == 253
    for suffix in ("-delete", "-stray"):
        name = suffixed_directory_name(longest, suffix, UNIQUE_ID)
        assert len(name) == 255
        parsed = parse_replica_directory(name)
        assert parsed is not None
        assert parsed.suffix == suffix
        assert parsed.topic_partition.partition == 123
