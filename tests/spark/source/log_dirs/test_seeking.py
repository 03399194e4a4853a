"""Seeking by index: whatever the index says, the batch that is found is that of the offset."""

from __future__ import annotations

import os
import random
from struct import pack
from typing import TYPE_CHECKING

import pytest

from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.records.batch import iter_batches
from kcli.spark.source.log_dirs.segment import list_segments, locate
from kcli.spark.source.log_dirs.split_planner import stretches
from kcli.storage.log.log_config import LogConfig
from tests.spark.source.log_dirs.log_dir import LogDir, between, read_all, stored_rows

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = LogConfig(segment_bytes=12_000, index_interval_bytes=300)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> LogDir:
    """Two segments and a half, of batches of one to three records."""
    log = LogDir(tmp_path_factory.mktemp("template") / "node", CONFIG)
    for number in range(240):
        log.append(*[b"%d" % number] * (number % 3 + 1))
    return log.close()


def missing(data: bytes) -> None:
    return None


def zero_padded(data: bytes) -> bytes:
    return data + bytes(10 * 1024)


def stale(data: bytes) -> bytes:
    return data[: len(data) // 16 * 8]


def of_another_log(data: bytes) -> bytes:
    noise = random.Random(1)
    rows = zip(sorted(noise.sample(range(1, 150), 40)), sorted(noise.sample(range(11_000), 40)), strict=True)
    return b"".join(pack(">ii", offset, position) for offset, position in rows)


def shifted(data: bytes) -> bytes:
    """Every position is that of the next entry: a batch is there, but not that of the offset."""
    words = [data[at : at + 4] for at in range(0, len(data), 4)]
    return b"".join(one + other for one, other in zip(words[:-2:2], words[3::2], strict=True))


def reversed_entries(data: bytes) -> bytes:
    return b"".join(data[at : at + 8] for at in reversed(range(0, len(data), 8)))


def cut_within_an_entry(data: bytes) -> bytes:
    return data[:-3]


def reserved_and_empty(data: bytes) -> bytes:
    return bytes(len(data) + 80)


def beyond_the_log(data: bytes) -> bytes:
    return data + pack(">ii", 5000, 10**6)


def batches_of_appends(data: bytes) -> bytes:
    """As before Kafka 4.1: the last offset of several batches with the position of the first."""
    words = [data[at : at + 4] for at in range(0, len(data), 4)]
    pairs = list(zip(words[2::2], words[1:-2:2], strict=True))
    return b"".join(offset + position for offset, position in pairs)


INDEXES = [
    bytes,
    missing,
    zero_padded,
    stale,
    of_another_log,
    shifted,
    reversed_entries,
    cut_within_an_entry,
    reserved_and_empty,
    beyond_the_log,
    batches_of_appends,
]


@pytest.fixture(params=INDEXES, ids=lambda change: change.__name__)
def changed(request: pytest.FixtureRequest, template: LogDir) -> LogDir:
    """The log with every index changed."""
    change: Callable[[bytes], bytes | None] = request.param
    for base in template.bases:
        path, kept = template.path(base, ".index"), template.path(base, ".index.kept")
        if not kept.exists():
            kept.write_bytes(path.read_bytes())
        data = change(kept.read_bytes())
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
    return template


def test_every_offset_is_found_in_its_batch(changed: LogDir) -> None:
    for segment in list_segments(str(changed.directory)):
        with open(segment.path, "rb") as file:
            batches = list(iter_batches(file.read()))
        with SegmentFile(segment.path) as file:
            for batch in batches:
                for offset in range(batch.base_offset, batch.next_offset):
                    assert locate(segment, file, offset) == batch.position
            assert locate(segment, file, batches[-1].next_offset) == file.end
            assert locate(segment, file, 0) == 0


def test_ranges_are_the_same_whatever_the_index_says(changed: LogDir) -> None:
    rows = stored_rows(changed.directory)
    end = changed.ends()[1]
    assert end == len(rows)
    for start, stop in ((0, end), (33, 47), (119, 120), (end - 1, end), (100, 400)):
        assert changed.rows(start, stop) == between(rows, start, stop)
    splits = changed.splits(0, end, split_bytes=2000)
    assert len(splits) > 10
    assert max(split.size_bytes for split in splits) < 3000
    assert read_all(splits) == rows


def test_stretches_end_with_the_batch_of_the_last_offset(template: LogDir) -> None:
    segments = list_segments(str(template.directory))
    parts = stretches(segments, 1, template.bases[1] + 1)
    with open(segments[1].path, "rb") as file:
        first = next(iter(iter_batches(file.read())))
    assert [(part.begin > 0, part.end) for part in parts] == [
        (True, os.path.getsize(segments[0].path)),
        (False, first.size_in_bytes),
    ]


def test_seeking_by_a_good_index_reads_few_heads(template: LogDir, monkeypatch: pytest.MonkeyPatch) -> None:
    for base in template.bases:
        kept = template.path(base, ".index.kept")
        if kept.exists():
            template.path(base, ".index").write_bytes(kept.read_bytes())
    segment = list_segments(str(template.directory))[0]
    read: list[int] = []
    original = SegmentFile.read
    monkeypatch.setattr("kcli.spark.source.log_dirs.segment._RUN_BYTES", 200)

    def counting(self: SegmentFile, position: int, count: int, end: int | None = None) -> bytes:
        read.append(count)
        return original(self, position, count, end)

    monkeypatch.setattr(SegmentFile, "read", counting)
    with SegmentFile(segment.path) as file:
        locate(segment, file, template.bases[1] - 2)
    assert sum(read) < 1500
