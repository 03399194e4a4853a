"""Ranges of a log: where the first batch of a stretch is found, and that ranges together hold all batches."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import pytest

from kcli.forensics.entries.batch_run import BatchRun
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.forensics.ranges.log_ranges import RangeReader, begin_of, stretches
from kcli.protocol.compression.codecs import Codec
from tests.forensics.segment_makers import LEGACY_CODECS, Shape, make_entries, make_entry, starts_of

BATCHES = [Shape(2, codec, value_bytes=size) for codec in Codec for size in (0, 30, 900)]
OLDER = [Shape(magic, codec) for magic in (0, 1) for codec in LEGACY_CODECS]
FAR = [Shape(), Shape(records=1, value_bytes=200_000), Shape(), Shape()]
BASE = 5_000_000_000


def written(path: Path, shapes: list[Shape]) -> list[int]:
    """Write a segment; return where its entries begin, and the end."""
    entries = make_entries(shapes, BASE)
    path.write_bytes(b"".join(entries))
    return starts_of(entries)


@pytest.mark.parametrize("shapes", [BATCHES, OLDER, FAR], ids=["2", "0-1", "far"])
def test_a_stretch_begins_with_the_first_entry_in_it(tmp_path: Path, shapes: list[Shape]) -> None:
    path = tmp_path / "a.log"
    starts = written(path, shapes)
    step = max(starts[-1] // 300, 1)
    with SegmentFile(str(path)) as segment:
        for start in range(0, starts[-1], step):
            expected = starts[bisect_left(starts, start)]
            assert begin_of(segment, BASE, start=start, stop=starts[-1]) == expected
            # One that begins behind the stretch is not in it.
            stop = min(start + step, starts[-1])
            assert begin_of(segment, BASE, start=start, stop=stop) == (expected if expected < stop else stop)


def test_a_batch_of_another_segment_is_no_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    entries = [make_entry(Shape(), 0), make_entry(Shape(), BASE)]
    path.write_bytes(b"\x02" * 100 + b"".join(entries))
    with SegmentFile(str(path)) as segment:
        assert begin_of(segment, BASE, start=1, stop=segment.end) == 100 + len(entries[0])


def test_ranges_hold_all_batches_once(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    starts = written(path, BATCHES * 20)
    found: list[int] = []
    for start, stop in stretches(starts[-1], 3000, 2):
        reader = RangeReader(str(path), BASE, start=start, stop=stop)
        for item in reader.read():
            if isinstance(item, BatchRun):
                found += item.positions
    assert found == starts[:-1]
