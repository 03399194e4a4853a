"""Log directories that Apache Kafka wrote, 0.10 to 4.3, as an export reads them: row for row what is in them.

The rows to compare with are those of kcli's own reader of segments, the one behind `dump-log`, whose lines
are held against Apache's tool elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_scan import scan
from kcli.protocol.topics import TopicPartition
from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import OffsetInterval
from tests.spark.source.log_dirs.log_dir import Row, read_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kcli.forensics.entries.scanned_entry import Batch
    from kcli.spark.split import Split
    from tests.support.forensic_corpus import Corpus

DIRECTORIES = ("apache", "running", "old-0.10", "old-1.1")


def batches_in(directory: Path) -> Iterator[Batch]:
    for path in sorted(directory.glob("*.log")):
        for item in scan(str(path)):
            if isinstance(item, ScannedEntry):
                yield item.batch


def stored(directory: Path) -> list[Row]:
    """Every record of a replica that is not for the log itself."""
    return [
        (
            record.offset,
            record.timestamp,
            int(batch.timestamp_type),
            record.key,
            record.value,
            tuple(record.headers),
        )
        for batch in batches_in(directory)
        if not batch.is_control
        for record in batch.records()
    ]


def in_order(splits: Iterable[Split]) -> list[Split]:
    return sorted(splits, key=lambda split: split.start)


@pytest.fixture(params=DIRECTORIES)
def source(request: pytest.FixtureRequest, corpus: Corpus) -> LogDirsSource:
    """One of the corpus' log directories."""
    return LogDirsSource([str(corpus.directory / request.param)])


def partitions_of(source: LogDirsSource) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition) for topic in source.topics() for partition in topic.partitions
    ]


@pytest.mark.parametrize("size", [1, 700, 2**40])
def test_every_record_is_read_once(source: LogDirsSource, size: int) -> None:
    partitions = partitions_of(source)
    assert partitions
    starts, ends = source.earliest(partitions), source.latest(partitions, read_committed=False)
    for partition in partitions:
        directory = Path(source.directories[0], f"{partition.topic}-{partition.partition}")
        start, end = starts[partition], ends[partition]
        ranges = {partition: OffsetInterval(start, end)}
        splits = in_order(source.splits(ranges, SplitLimits(split_bytes=size), read_committed=False))
        assert read_all(splits) == [row for row in stored(directory) if start <= row[0] < end]


def test_every_range_is_that_part_of_the_whole(source: LogDirsSource) -> None:
    partitions = [one for one in partitions_of(source) if not one.topic.startswith("__")]
    ends = source.latest(partitions, read_committed=False)
    for partition in partitions:
        rows = stored(Path(source.directories[0], f"{partition.topic}-{partition.partition}"))
        for start in range(rows[0][0], ends[partition], 11):
            ranges = {partition: OffsetInterval(start, min(start + 17, ends[partition]))}
            splits = source.splits(ranges, SplitLimits(), read_committed=False)
            assert read_all(splits) == [row for row in rows if start <= row[0] < ranges[partition].end]


@pytest.mark.parametrize("directory", ["apache", "running"])
def test_committed_rows_are_those_outside_of_aborted_and_open_transactions(
    corpus: Corpus, directory: str
) -> None:
    source, partition = LogDirsSource([str(corpus.directory / directory)]), TopicPartition("transactions", 0)
    end = source.latest([partition], read_committed=True)[partition]
    ranges = {partition: OffsetInterval(0, end)}
    splits = in_order(source.splits(ranges, SplitLimits(split_bytes=1), read_committed=True))
    wanted, first_open = _committed(corpus.directory / directory / "transactions-0")
    assert end == first_open
    assert read_all(splits, read_committed=True) == [row for row in wanted if row[0] < end]


def _committed(directory: Path) -> tuple[list[Row], int]:
    """The rows of transactions that were committed, or of none; and where the first open one begins."""
    pending: dict[int, set[int]] = {}
    aborted: set[int] = set()
    for batch in batches_in(directory):
        if not batch.is_transactional:
            continue
        if not batch.is_control:
            pending.setdefault(batch.producer_id, set()).update(one.offset for one in batch.records())
            continue
        (marker,) = batch.records()
        offsets = pending.pop(batch.producer_id, set())
        assert marker.key is not None
        if marker.key[2:4] == b"\0\0":
            aborted |= offsets
    rows = [row for row in stored(directory) if row[0] not in aborted]
    return rows, min((min(offsets) for offsets in pending.values()), default=2**63)


def test_times_are_found_as_by_looking_at_every_record(source: LogDirsSource) -> None:
    for partition in [one for one in partitions_of(source) if not one.topic.startswith("__")]:
        start = source.earliest([partition])[partition]
        end = source.latest([partition], read_committed=False)[partition]
        directory = Path(source.directories[0], f"{partition.topic}-{partition.partition}")
        records = [
            record
            for batch in batches_in(directory)
            for record in batch.records()
            if start <= record.offset < end
        ]
        for timestamp in sorted({record.timestamp for record in records})[::5]:
            expected = next(one.offset for one in records if one.timestamp >= timestamp)
            assert source.at_timestamps({partition: timestamp}) == {partition: expected}
