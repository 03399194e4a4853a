"""Scanning segments: every kind of damage at every place that matters."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcli.forensics.entries.entry_head import TORN_BYTES
from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_file import WINDOW_BYTES
from tests.forensics.entries.scanned_segments import (
    ANY_DIRECTORY,
    BATCHES,
    MIXED,
    OLDER,
    Found,
    K,
    joined,
    patched,
)
from tests.forensics.segment_makers import (
    Harm,
    Shape,
    harm,
    harms,
    make_entries,
    make_entry,
    shapes,
    starts_of,
)
from tests.support.hostile_records import batch as forged_batch

pytestmark = pytest.mark.usefixtures("at_rest")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


# --- one field at a time


@pytest.mark.parametrize("entries", [BATCHES, OLDER], ids=["batches", "older"])
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_told_by_its_field(path: Path, entries: list[bytes], bit: int) -> None:
    start = starts_of(entries)[2]
    magic = entries[2][16]
    for at in range(len(entries[2])):
        data = patched(entries, 2, at, bytes((entries[2][at] ^ (1 << bit),)))
        found = Found(path, data, resync=True, segment_base=0)
        others = [position for position in starts_of(entries)[:-1] if position != start]
        assert set(others) <= set(found.valid), at
        if at < 8:
            assert found.kinds in ([(K.BAD_OFFSET, start)], [(K.OFFSET_GOING_BACK, start)])
        elif at < 12:
            assert found.kinds == [(K.BAD_SIZE, start)]
        elif at < 16 and magic == 2:
            assert found.kinds == []  # the leader epoch stands outside the checksum
        elif at == 16:
            assert found.kinds == [(K.BAD_MAGIC, start)]
        else:
            assert found.kinds == [(K.BAD_CRC, start)]


def test_the_bytes_and_what_they_should_be_are_named(path: Path) -> None:
    start, size = starts_of(BATCHES)[2], len(BATCHES[2])
    found = Found(path, patched(BATCHES, 2, 8, struct.pack(">i", size + 500)), resync=True)
    (damage,) = found.damages
    assert damage.field is not None
    assert (damage.field.name, damage.field.position) == ("size", start + 8)
    assert damage.field.raw == struct.pack(">i", size + 500)
    assert (damage.expected, damage.found) == (size - 12, size + 500)
    assert (damage.size_bytes, damage.skipped_bytes, damage.next_position) == (size, size, start + size)
    assert damage.message == f"size {size + 500} should be {size - 12}: with it the checksum matches"
    assert damage.what_follows == f"{size} bytes on, the next valid batch begins at position {start + size}"


def test_a_size_that_lands_on_a_later_entry_is_told(path: Path) -> None:
    entries = make_entries([Shape(records=1)] * 8)
    size = len(entries[0])
    found = Found(path, patched(entries, 2, 8, struct.pack(">i", 3 * size - 12)), resync=True)
    assert found.kinds == [(K.BAD_SIZE, 2 * size)]
    assert len(found.valid) == 7


@pytest.mark.parametrize("shift", [-200, -7, 5, 300])
@pytest.mark.parametrize("tail", [0, 4096])
def test_the_size_of_the_last_entry_is_told_by_the_end(path: Path, shift: int, tail: int) -> None:
    entries = make_entries([Shape(value_bytes=100)] * 3)
    start = starts_of(entries)[2]
    data = patched(entries, 2, 8, struct.pack(">i", len(entries[2]) - 12 + shift)) + bytes(tail)
    kinds = Found(path, data, resync=True).kinds
    assert kinds == [(K.BAD_SIZE, start), *([(K.ZERO_TAIL, len(data) - tail)] if tail else [])]


CONTRADICTIONS = {
    "a codec that is none": ({"attributes": 6}, K.BAD_ATTRIBUTES, "attributes"),
    "bits nobody knows": ({"attributes": 0x180}, K.BAD_ATTRIBUTES, "attributes"),
    "a negative last offset delta": (
        {"last_offset_delta": -5, "count": 0},
        K.BAD_OFFSET_DELTA,
        "last offset delta",
    ),
    "more records than offsets": ({"last_offset_delta": 1, "count": 3}, K.BAD_COUNT, "record count"),
    "a negative number of records": ({"count": -1, "last_offset_delta": 0}, K.BAD_COUNT, "record count"),
    "more records than bytes": ({"count": 500, "last_offset_delta": 499}, K.BAD_COUNT, "record count"),
    "a negative offset": ({"base_offset": -3}, K.BAD_OFFSET, "offset"),
    "an offset beyond the segment": ({"base_offset": 2**31}, K.BAD_OFFSET, "offset"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_header_that_contradicts_itself_is_told_though_its_checksum_matches(path: Path, case: str) -> None:
    fields, kind, name = CONTRADICTIONS[case]
    forged = forged_batch(b"0123456", **{"base_offset": 14, **fields})
    start = starts_of(BATCHES)[5]
    found = Found(path, joined(*BATCHES[:5], forged, make_entry(Shape(), 600)), segment_base=0)
    assert found.kinds == [(kind, start)]
    assert found.damages[0].field is not None
    assert found.damages[0].field.name == name
    assert len(found.valid) == 7


def test_an_older_entry_does_not_know_zstd(path: Path) -> None:
    entry = bytearray(OLDER[1])
    entry[17] = 4
    struct.pack_into(">I", entry, 12, zlib.crc32(entry[16:]))
    assert Found(path, bytes(entry)).kinds == [(K.BAD_ATTRIBUTES, 0)]


# --- bytes that are missing, too many, or others


@pytest.mark.parametrize("entries", [BATCHES, OLDER, MIXED], ids=["batches", "older", "mixed"])
def test_a_file_cut_anywhere_keeps_what_was_whole(path: Path, entries: list[bytes]) -> None:
    starts = starts_of(entries)
    data = joined(*entries[:4])
    for size in range(len(data)):
        found = Found(path, data[:size], end=size)
        whole = [start for start, end in pairwise(starts) if end <= size]
        assert found.valid == whole
        rest = size - (starts[len(whole)])
        if not rest:
            assert found.kinds == []
        elif rest > TORN_BYTES and not any(data[starts[len(whole)] : size]):
            assert found.kinds == [(K.ZERO_TAIL, size - rest)]
        else:
            header = (18, 26, 61)[entries[len(whole)][16]]
            kind = K.TRUNCATED_HEADER if rest < header else K.TRUNCATED_BATCH
            assert found.kinds == [(kind, size - rest)]
            assert found.damages[0].size_bytes == found.damages[0].skipped_bytes == rest


@pytest.mark.parametrize("zeros", [1, 16, 17])
def test_zeros_too_few_for_a_header_are_the_beginning_of_an_offset(path: Path, zeros: int) -> None:
    found = Found(path, joined(*BATCHES) + bytes(zeros))
    assert found.kinds == [(K.TRUNCATED_HEADER, starts_of(BATCHES)[-1])]
    assert (found.damages[0].is_harmless, found.damages[0].skipped_bytes) == (False, zeros)


@pytest.mark.parametrize("zeros", [18, 5000, 3 * WINDOW_BYTES])
def test_zeros_at_the_end_are_reserved_space(path: Path, zeros: int) -> None:
    found = Found(path, joined(*BATCHES) + bytes(zeros))
    (damage,) = found.damages
    assert (damage.kind, damage.is_harmless, damage.size_bytes) == (K.ZERO_TAIL, True, zeros)
    assert damage.message == f"{zeros} bytes of zeros up to the end"


@pytest.mark.parametrize("zeros", [26, 4096])
def test_zeros_between_batches_are_damage(path: Path, zeros: int) -> None:
    starts = starts_of(BATCHES)
    found = Found(path, joined(*BATCHES[:3], bytes(zeros), *BATCHES[3:]), resync=True)
    assert found.kinds == [(K.ZEROS, starts[3])]
    assert (found.damages[0].skipped_bytes, found.damages[0].is_harmless) == (zeros, False)
    assert len(found.valid) == 6


@pytest.mark.parametrize("zeros", [17, 20, 60, 61, 62])
def test_a_header_that_begins_with_zeros_is_no_reserved_space(path: Path, zeros: int) -> None:
    start = starts_of(BATCHES)[2]
    found = Found(path, patched(BATCHES, 2, 0, bytes(zeros)), resync=True)
    assert found.kinds == [(K.ZEROS, start)]
    assert len(found.valid) == 5


def test_a_batch_of_which_only_the_beginning_reached_reserved_space_is_torn(path: Path) -> None:
    entries = make_entries([Shape(value_bytes=400)] * 3)
    start = starts_of(entries)[2]
    found = Found(path, joined(*entries[:2], entries[2][:200]) + bytes(8000))
    assert found.kinds == [(K.TRUNCATED_BATCH, start), (K.ZERO_TAIL, start + len(entries[2]))]
    assert found.damages[0].found == 200


def test_bytes_missing_inside_a_batch_make_it_end_too_early(path: Path) -> None:
    start = starts_of(BATCHES)[2]
    found = Found(path, joined(*BATCHES[:2], BATCHES[2][:70], *BATCHES[3:]), resync=True)
    assert found.kinds == [(K.TRUNCATED_BATCH, start)]
    assert (found.damages[0].expected, found.damages[0].found) == (len(BATCHES[2]), 70)
    assert len(found.valid) == 5


def test_bytes_between_batches_are_garbage(path: Path) -> None:
    start = starts_of(BATCHES)[3]
    noise = b"\xee" * 200
    found = Found(path, joined(*BATCHES[:3], noise, *BATCHES[3:]), resync=True)
    assert found.kinds == [(K.GARBAGE, start)]
    assert (found.damages[0].skipped_bytes, len(found.valid)) == (200, 6)
    assert Found(path, joined(*BATCHES, noise), resync=True).kinds == [
        (K.GARBAGE_TAIL, starts_of(BATCHES)[-1])
    ]


def test_without_resync_the_first_place_that_is_no_entry_is_the_last_thing_told(path: Path) -> None:
    start = starts_of(BATCHES)[3]
    data = joined(*BATCHES[:3], b"\xee" * 200, *BATCHES[3:])
    found = Found(path, data)
    assert found.kinds == [(K.GARBAGE, start)]
    assert found.damages[0].skipped_bytes == len(data) - start
    assert found.damages[0].next_position == start + 200


def test_a_batch_inside_a_record_is_not_taken_for_the_next_one(path: Path) -> None:
    inner = make_entry(Shape(), 0)
    entries = make_entries([Shape(), Shape(), Shape()])
    builder_value = inner + b"x" * 30
    outer = _batch_with_value(builder_value, 3)
    data = joined(entries[0], outer[:8], struct.pack(">i", 2**30), outer[12:], make_entry(Shape(), 4))
    found = Found(path, data, resync=True, segment_base=0)
    assert found.kinds == [(K.BAD_SIZE, len(entries[0]))]
    assert found.valid == [0, len(entries[0]) + len(outer)]


def _batch_with_value(value: bytes, base_offset: int) -> bytes:
    from kcli.protocol.records.batch_builder import RecordBatchBuilder

    builder = RecordBatchBuilder(base_offset=base_offset)
    builder.append(1, None, value)
    return bytes(builder.build())


# --- random damage


@given(shapes(), st.lists(harms(), min_size=1, max_size=3), st.booleans())
@example([Shape(), Shape()], [Harm("swap", 0.0, 0.9, 0)], True)
@ANY_DIRECTORY
def test_random_damage_leaves_no_byte_unaccounted_for(
    path: Path, made: list[Shape], done: list[Harm], resync: bool
) -> None:
    entries = make_entries(made)
    starts = starts_of(entries)
    data, first = joined(*entries), len(joined(*entries))
    for each in done:
        data, at = harm(data, each)
        first = min(first, at)
    found = Found(path, data, resync=resync, segment_base=0)
    whole = [start for start, end in pairwise(starts) if end <= first]
    assert found.valid[: len(whole)] == whole
    for item in found:
        if isinstance(item, ScannedEntry) and not item.is_valid:
            assert item.damages


@given(shapes(3), st.data())
@ANY_DIRECTORY
def test_all_entries_but_a_damaged_one_are_found(path: Path, made: list[Shape], data: st.DataObject) -> None:
    entries = make_entries(made)
    number = data.draw(st.integers(0, len(entries) - 1))
    at = data.draw(st.integers(0, len(entries[number]) - 1))
    value = data.draw(st.integers(0, 255))
    changed = patched(entries, number, at, bytes((value,)))
    found = Found(path, changed, resync=True, segment_base=0)
    starts = starts_of(entries)
    others = set(starts[:-1]) - {starts[number]}
    assert others <= set(found.valid)
    outside_of_the_checksum = made[number].magic == 2 and 12 <= at < 16
    offset = at < 8
    if changed != joined(*entries) and not outside_of_the_checksum and not offset:
        assert [damage.position for damage in found.damages] == [starts[number]]
