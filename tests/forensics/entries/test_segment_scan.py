"""Scanning segments: sound ones of all formats, ones that change meanwhile, and how long it takes."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.forensics.entries.damage import Damage
from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_file import WINDOW_BYTES
from kcli.forensics.entries.segment_scan import scan, scan_runs
from kcli.protocol.records.message_set import encode_entry
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
from tests.forensics.segment_makers import Shape, make_entries, shapes, starts_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


# --- sound files


def test_entries_of_all_formats_in_one_file_come_in_order(path: Path) -> None:
    found = Found(path, joined(*MIXED), segment_base=0)
    assert found.damages == []
    assert found.valid == starts_of(MIXED)[:-1]
    assert [item.magic for item in found if isinstance(item, ScannedEntry)] == [0] * 4 + [1] * 4 + [2] * 6


def test_what_an_entry_shows_is_its_batch(path: Path) -> None:
    path.write_bytes(joined(*MIXED))
    for number, item in enumerate(scan(str(path))):
        assert isinstance(item, ScannedEntry)
        assert item.batch.to_bytes() == MIXED[number]
        assert item.read(3, 20) == MIXED[number][3:23]
        assert (item.end - item.position, item.is_whole, item.damages) == (len(MIXED[number]), True, ())


def test_an_empty_file_holds_nothing(path: Path) -> None:
    assert Found(path, b"") == []


@given(shapes(), st.integers(0, 2**40))
@ANY_DIRECTORY
def test_a_sound_file_has_no_damage(path: Path, made: list[Shape], base_offset: int) -> None:
    entries = make_entries(made, base_offset)
    assert Found(path, joined(*entries), segment_base=base_offset).damages == []


@pytest.mark.parametrize("size", [WINDOW_BYTES - 61, WINDOW_BYTES, WINDOW_BYTES + 1, 3 * WINDOW_BYTES])
def test_entries_larger_than_the_window_come_whole(path: Path, size: int) -> None:
    entries = make_entries(
        [Shape(records=1, value_bytes=size), Shape(), Shape(1, records=1, value_bytes=size), Shape()]
    )
    path.write_bytes(joined(*entries))
    taken = [item.load().to_bytes() for item in scan(str(path)) if isinstance(item, ScannedEntry)]
    assert taken == entries


@pytest.mark.parametrize("magic", [1, 2])
def test_an_entry_above_the_limit_is_checked_but_not_kept(path: Path, magic: int) -> None:
    entries = make_entries([Shape(), Shape(magic, records=1, value_bytes=WINDOW_BYTES), Shape()])
    path.write_bytes(joined(*entries))
    whole = []
    for number, item in enumerate(scan(str(path), max_entry_bytes=1000)):
        assert isinstance(item, ScannedEntry)
        whole.append(item.is_whole)
        assert item.is_valid
        assert item.load().to_bytes() == entries[number]
        assert item.read(4000, 100) == entries[number][4000:4100]
    assert whole == [True, False, True]


def test_a_scan_may_begin_and_end_at_any_entry(path: Path) -> None:
    starts = starts_of(BATCHES)
    path.write_bytes(joined(*BATCHES))
    found = [item.position for item in scan(str(path), start=starts[2], end=starts[5])]
    assert found == starts[2:5]


@pytest.mark.parametrize("entries", [BATCHES, OLDER, MIXED], ids=["batches", "older", "mixed"])
def test_a_scan_stops_behind_an_entry_that_is_sound(path: Path, entries: list[bytes]) -> None:
    starts = starts_of(entries)
    path.write_bytes(patched(entries, 2, len(entries[2]) - 1, b"\xff"))
    for stop in range(1, starts[-1] + 1, 7):
        items = [*scan_runs(str(path), stop=stop)]
        end = max(item.end for item in items if not isinstance(item, Damage))
        wanted = next(start for start in starts if start >= stop)
        assert end == (starts[4] if wanted == starts[3] else wanted)
        assert sum(isinstance(item, Damage) for item in items) == (end > starts[2])


def test_memory_does_not_depend_on_the_size_that_a_header_claims(path: Path) -> None:
    claim = struct.pack(">qi", 0, 2**31 - 1) + bytes(4) + b"\x02"
    found = Found(path, joined(*BATCHES, claim, bytes(1000)))
    assert found.kinds == [(K.TRUNCATED_BATCH, starts_of(BATCHES)[-1])]


# --- offsets


def test_a_batch_that_is_there_twice_goes_back(path: Path) -> None:
    starts = starts_of(BATCHES)
    found = Found(path, joined(*BATCHES[:3], BATCHES[2], *BATCHES[3:]), segment_base=0)
    assert found.kinds == [(K.OFFSET_GOING_BACK, starts[3])]
    assert (found.damages[0].expected, found.damages[0].found) == ("9 or more", 5)


def test_of_two_batches_that_changed_places_the_second_goes_back(path: Path) -> None:
    found = Found(path, joined(BATCHES[0], BATCHES[2], BATCHES[1], *BATCHES[3:]), segment_base=0)
    assert found.kinds == [(K.OFFSET_GOING_BACK, len(BATCHES[0]) + len(BATCHES[2]))]


def test_an_offset_far_ahead_is_the_one_that_is_wrong_not_all_that_follow(path: Path) -> None:
    found = Found(path, patched(BATCHES, 2, 0, struct.pack(">q", 1000)), segment_base=0)
    assert found.kinds == [(K.BAD_OFFSET, starts_of(BATCHES)[2])]
    assert found.damages[0].message == "offset 1000 should be 5: the next batch goes on from there"


def test_gaps_that_compaction_left_are_no_damage(path: Path) -> None:
    entries = make_entries([Shape(gap=5 * number) for number in range(5)], 100)
    assert Found(path, joined(*entries), segment_base=50).damages == []


def test_offsets_below_the_segment_are_told(path: Path) -> None:
    found = Found(path, joined(*BATCHES), segment_base=100)
    assert found.kinds[0] == (K.BAD_OFFSET, 0)
    assert found.damages[0].message == "offset 0 is below 100, where the segment begins"


# --- files that change


def test_a_last_entry_being_written_counts_whole_and_what_comes_later_does_not(path: Path) -> None:
    path.write_bytes(joined(*BATCHES[:3], BATCHES[3][:40]))
    items = scan(str(path))
    taken = [next(items)]
    with path.open("ab") as file:
        file.write(BATCHES[3][40:] + BATCHES[4])
    taken += items
    assert [type(item) for item in taken] == [ScannedEntry] * 4
    assert [item.position for item in taken] == starts_of(BATCHES)[:4]


def test_a_last_entry_being_written_into_reserved_space_counts_whole(path: Path) -> None:
    written = joined(*BATCHES[:3])
    path.write_bytes(written + BATCHES[3][:70] + bytes(4000))
    items = scan(str(path))
    taken = [next(items)]
    with path.open("r+b") as file:
        file.seek(len(written))
        file.write(BATCHES[3])
    os.utime(path, ns=(1, 1))
    taken += items
    assert [type(item) for item in taken] == [ScannedEntry] * 4 + [Damage]


def test_a_file_that_is_cut_while_it_is_read_ends_there(path: Path) -> None:
    data = joined(*make_entries([Shape(value_bytes=1000)] * 1000))
    path.write_bytes(data)
    items = scan(str(path))
    taken = [next(items)]
    os.truncate(path, len(data) // 2)
    taken += items
    assert sum(isinstance(item, Damage) for item in taken) <= 1
    assert all(item.is_valid for item in taken if isinstance(item, ScannedEntry))


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_what_is_no_file_is_refused(path: Path, make: object) -> None:
    make(path)  # type: ignore[operator]
    with pytest.raises(OSError, match=r"directory|not a regular file"):
        next(scan(str(path)))


# --- time


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "noise": lambda size: random.Random(7).randbytes(size),
    "zeros, then one": lambda size: bytes(size) + b"\x01",
    "twos": lambda size: b"\x02" * size,
    "magic and zeros": lambda size: (b"\x02" + bytes(16)) * (size // 17),
    "headers of batches that reach to the end": lambda size: _decoys(size, size),
    "headers of small batches": lambda size: _decoys(size, 2000),
    "older entries": lambda size: OLDER[0][:-1] * (size // len(OLDER[0])),
    "older entries that end among zeros": lambda size: _ending_among_zeros(size),
}


def _decoys(size: int, claim: int) -> bytes:
    header = bytearray(BATCHES[0][:61])
    parts = []
    for number in range(size // 61):
        struct.pack_into(">qi", header, 0, number, min(claim, size - 61 * number - 100) % 2**31)
        parts.append(bytes(header))
    return b"".join(parts)


def _ending_among_zeros(size: int) -> bytes:
    """Older entries inside one another, each with a right checksum; they end in one long run of zeros."""
    entry = bytes(4000)
    for _ in range(200):
        entry = encode_entry(0, 1, 0, 1_700_000_000_000, None, entry)
    return b"\x05" + entry + bytes(size) + b"\x01"


def _bytes_read(path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    """Scan these bytes between two sound batches; return how many are read, in whatever pieces."""
    total = 0

    def counting(read: Callable[..., bytes]) -> Callable[..., bytes]:
        def counted(*arguments: object) -> bytes:
            nonlocal total
            found = read(*arguments)
            total += len(found)
            return found

        return counted

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", counting(os.pread))
        Found(path, joined(BATCHES[0], data, BATCHES[1]), resync=True)
    return total


@pytest.mark.parametrize("kind", HOSTILE)
def test_garbage_is_read_in_proportion_to_its_size(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.forensics.entries.entry_search._CHECKSUM_ALLOWANCE", 0)
    half, whole = (_bytes_read(path, HOSTILE[kind](size), monkeypatch) for size in (2**18, 2**19))
    assert whole < 50 * 2**19
    assert whole < 2.5 * half
