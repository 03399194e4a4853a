"""How large splits are, and how many."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.control_records import ControlRecordType
from kcli.protocol.topics import TopicPartition
from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource
from kcli.spark.source.ranges.division import split_bytes
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import OffsetInterval, Split
from tests.spark.source.log_dirs.log_dir import ORDERS, LogDir, read_all, stored_rows

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024
GIB = 1024 * MIB


@pytest.mark.parametrize(
    ("total", "slots", "target", "codec", "expected"),
    [
        (10 * MIB, 2, 256 * MIB, Codec.NONE, 16 * MIB),
        (600 * MIB, 2, 256 * MIB, Codec.NONE, 100 * MIB),
        (60 * GIB, 2, 256 * MIB, Codec.NONE, 1024 * MIB),
        (60 * GIB, 2, 100 * MIB, Codec.LZ4, 190 * MIB),
        (60 * GIB, 2, 100 * MIB, Codec.SNAPPY, 190 * MIB),
        (60 * GIB, 2, 100 * MIB, Codec.ZSTD, 130 * MIB),
        (60 * GIB, 2, 100 * MIB, Codec.GZIP, 130 * MIB),
        (60 * GIB, 2, 1 * MIB, Codec.NONE, 4 * MIB),
        (0, 0, 256 * MIB, Codec.NONE, 16 * MIB),
    ],
)
def test_a_split_makes_a_file_and_every_slot_gets_three(
    total: int, slots: int, target: int, codec: Codec, expected: int
) -> None:
    limits = SplitLimits(task_slots=slots, target_file_bytes=target)
    assert split_bytes(total, limits, codec) == expected


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> LogDir:
    """Sixty batches of one record in several segments."""
    made = LogDir(tmp_path_factory.mktemp("logs") / "node")
    made.fill(60)
    return made.close()


def test_small_ranges_are_one_split(log: LogDir) -> None:
    (split,) = log.splits(0, 60)
    size = sum(path.stat().st_size for path in log.directory.glob("*.log"))
    assert split == Split("orders", 0, 0, 60, size, str(log.directory), 0, 0)


def test_splits_are_of_about_equal_size(log: LogDir) -> None:
    sizes = [split.size_bytes for split in log.splits(0, 60, split_bytes=1000)]
    assert len(sizes) > 6
    assert max(sizes) <= 1000 + 150
    assert min(sizes) >= max(sizes) // 2


@pytest.mark.parametrize("wanted", [2, 5, 20, 60])
def test_there_are_as_many_splits_as_asked_for(log: LogDir, wanted: int) -> None:
    splits = log.splits(0, 60, min_partitions=wanted)
    assert wanted <= len(splits) <= wanted + 1
    assert all(one.end == other.start for one, other in pairwise(splits))
    assert read_all(splits) == stored_rows(log.directory)


def test_more_splits_than_batches_are_cut_by_offsets(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node")
    log.append(*[b"%d" % number for number in range(100)])
    log.close()
    splits = log.splits(0, 100, min_partitions=7)
    assert [split.end - split.start for split in splits] == [14, 14, 14, 14, 14, 15, 15]
    assert read_all(splits) == stored_rows(log.directory)


def test_no_split_has_more_offsets_than_asked_for(log: LogDir) -> None:
    splits = log.splits(3, 60, max_records=10)
    assert max(split.end - split.start for split in splits) <= 10
    assert len(splits) == 6
    assert [row[0] for row in read_all(splits)] == list(range(3, 60))


def test_the_largest_come_first(log: LogDir, tmp_path: Path) -> None:
    other = LogDir(tmp_path / "other")
    other.fill(10, size=500)
    other.close()
    other.directory.rename(other.root / "orders-1")
    source = LogDirsSource([str(log.root), str(other.root)])
    ranges = {ORDERS: OffsetInterval(50, 60), TopicPartition("orders", 1): OffsetInterval(0, 10)}
    splits = source.splits(ranges, SplitLimits(split_bytes=1000), read_committed=False)
    sizes = [split.size_bytes for split in splits]
    assert sizes == sorted(sizes, reverse=True)
    assert {split.partition for split in splits} == {0, 1}


def test_an_empty_range_has_no_split(log: LogDir) -> None:
    assert log.splits(60, 60) == []
    assert log.splits(5, 5) == []


def test_a_range_of_markers_only_is_a_split_without_rows(tmp_path: Path) -> None:

    log = LogDir(tmp_path / "node")
    log.write(1, b"x")
    log.end(1, ControlRecordType.COMMIT)
    log.close()
    (split,) = log.splits(1, 2)
    assert read_all([split]) == []


def test_reader_and_splits_travel(log: LogDir) -> None:
    splits = log.splits(0, 60, split_bytes=1000)
    assert pickle.loads(pickle.dumps(splits)) == splits
    assert [Split.from_json(split.to_json()) for split in splits] == splits
    assert pickle.loads(pickle.dumps(log.source().reader())) == log.source().reader()
