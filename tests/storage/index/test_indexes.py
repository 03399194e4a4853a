"""The three indexes: lookups, files, and files that are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.index.offset_index import OffsetIndex
from kcli.storage.index.time_index import TimeIndex
from kcli.storage.index.transaction_index import AbortedTransaction, TransactionIndex

BASE = 1000


def offset_index(path: Path, *entries: tuple[int, int], max_size_bytes: int = 1024) -> OffsetIndex:
    index = OffsetIndex(str(path), BASE, max_size_bytes)
    index.create()
    for offset, position in entries:
        index.append(offset, position)
    return index


def time_index(path: Path, *entries: tuple[int, int], max_size_bytes: int = 1200) -> TimeIndex:
    index = TimeIndex(str(path), BASE, max_size_bytes)
    index.create()
    for timestamp, offset in entries:
        index.maybe_append(timestamp, offset)
    return index


@pytest.mark.parametrize(
    ("target", "found"),
    [(999, (BASE, 0)), (1000, (BASE, 0)), (1009, (BASE, 0)), (1010, (1010, 300)), (1019, (1010, 300))],
)
def test_an_offset_is_looked_up_by_the_last_key_at_or_below(
    tmp_path: Path, target: int, found: tuple[int, int]
) -> None:
    assert offset_index(tmp_path / "i", (1010, 300), (1020, 900)).lookup(max(target, BASE)) == found


def test_an_offset_index_is_found_by_position_too(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", (1010, 300), (1020, 900))
    assert index.upper_bound(300) == 1010
    assert index.upper_bound(301) == 1020
    assert index.upper_bound(901) is None
    assert index.at_position(299) == (BASE, 0)
    assert index.at_position(900) == (1020, 900)


def test_an_offset_index_is_on_disk_in_eight_bytes_an_entry(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", (1010, 300), (1020, 900))
    index.write()
    assert (tmp_path / "i").read_bytes() == bytes.fromhex("0000000a0000012c0000001400000384")
    index.append(1030, 1000)
    index.finish()
    again = OffsetIndex(str(tmp_path / "i"), BASE, 1024)
    again.load(2000)
    assert again.entries() == [(1010, 300), (1020, 900), (1030, 1000)]


def test_an_offset_index_is_full_at_its_largest_size(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", (1010, 300), max_size_bytes=23)
    assert not index.is_full
    index.append(1020, 900)
    assert index.is_full


@pytest.mark.parametrize(
    ("offset", "left"), [(1010, []), (1011, [(1010, 300)]), (1021, [(1010, 300), (1020, 900)]), (0, [])]
)
def test_truncating_an_offset_index_drops_keys_at_and_above(
    tmp_path: Path, offset: int, left: list[tuple[int, int]]
) -> None:
    index = offset_index(tmp_path / "i", (1010, 300), (1020, 900))
    index.write()
    index.truncate_to(offset)
    assert index.entries() == left
    assert (tmp_path / "i").stat().st_size == 8 * len(left)
    index.append(1040, 1200)
    index.write()
    again = OffsetIndex(str(tmp_path / "i"), BASE, 1024)
    again.load(5000)
    assert again.entries() == [*left, (1040, 1200)]


def test_the_zeros_behind_a_preallocated_index_are_no_entries(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", (1010, 300), (1020, 0x1000))
    index.write()
    with (tmp_path / "i").open("ab") as file:
        file.write(bytes(8 * 100))
    again = OffsetIndex(str(tmp_path / "i"), BASE, 1024)
    again.load(0x2000)
    assert again.entries() == [(1010, 300), (1020, 0x1000)]
    again.append(1030, 0x1800)
    again.finish()
    assert (tmp_path / "i").stat().st_size == 24


@pytest.mark.parametrize(
    "data",
    [
        "0000000a0000012c00",
        "0000000a0000012c0000000a00000384",
        "0000000a0000012c000000140000012c",
        "0000000a000007d0",
        "fffffff60000012c",
    ],
    ids=["size", "offsets", "positions", "past the log", "below the segment"],
)
def test_an_offset_index_that_cannot_be_is_refused(tmp_path: Path, data: str) -> None:
    (tmp_path / "i").write_bytes(bytes.fromhex(data))
    with pytest.raises(CorruptIndex):
        OffsetIndex(str(tmp_path / "i"), BASE, 1024).load(2000)


@given(
    st.sets(st.tuples(st.integers(1, 2**31 - 1), st.integers(1, 2**31 - 1)), max_size=30),
    st.integers(0, 2**31),
)
def test_lookup_agrees_with_a_list(pairs: set[tuple[int, int]], target: int) -> None:
    offsets = sorted({offset for offset, _ in pairs})
    entries = list(zip(offsets, sorted({position for _, position in pairs}), strict=False))
    index = OffsetIndex("unused", 0, 1 << 20)
    for offset, position in entries:
        index.append(offset, position)
    below = [entry for entry in entries if entry[0] <= target]
    assert index.lookup(target) == (below[-1] if below else (0, 0))


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=12),
    st.integers(-2, 700),
    st.sampled_from([1, 20, 40]),
)
def test_an_entry_behind_a_gap_is_found(steps: list[tuple[int, int]], target: int, min_gap: int) -> None:
    index = OffsetIndex("unused", 0, 1 << 20)
    offset = position = 0
    expected: list[tuple[int, int] | None] = []
    for more, size in steps:
        offset, position = offset + more, position + size
        index.append(offset, position)
        if offset >= target:
            expected.append((offset, position) if size >= min_gap else None)
    assert index.lookup_behind_gap(target, min_gap) == (expected[0] if expected else None)


def test_a_time_index_takes_only_growing_timestamps(tmp_path: Path) -> None:
    index = time_index(tmp_path / "t", (50, 1001), (50, 1005), (40, 1006), (60, 1009))
    assert index.entries() == [(50, 1001), (60, 1009)]
    assert index.last_entry == (60, 1009)


@pytest.mark.parametrize(
    ("timestamp", "found"), [(49, (-1, BASE)), (50, (50, 1001)), (59, (50, 1001)), (99, (60, 1009))]
)
def test_a_timestamp_is_looked_up_by_the_last_at_or_below(
    tmp_path: Path, timestamp: int, found: tuple[int, int]
) -> None:
    assert time_index(tmp_path / "t", (50, 1001), (60, 1009)).lookup(timestamp) == found


def test_a_time_index_is_on_disk_in_twelve_bytes_an_entry(tmp_path: Path) -> None:
    index = time_index(tmp_path / "t", (50, 1001), (60, 1009))
    index.finish()
    assert (tmp_path / "t").read_bytes() == bytes.fromhex("0000000000000032000000010000 00000000003c00000009")
    again = TimeIndex(str(tmp_path / "t"), BASE, 1200)
    again.load()
    assert again.entries() == [(50, 1001), (60, 1009)]
    again.truncate_to(1009)
    assert again.entries() == [(50, 1001)]
    assert (tmp_path / "t").stat().st_size == 12


def test_a_time_index_keeps_a_slot_for_the_end_of_the_segment(tmp_path: Path) -> None:
    index = time_index(tmp_path / "t", (50, 1001), max_size_bytes=36)
    assert not index.is_full
    index.maybe_append(60, 1002)
    assert index.is_full
    index.maybe_append(70, 1003)
    assert len(index) == 3


@pytest.mark.parametrize(
    "data",
    [
        "0000000000000032000000",
        "000000000000003200000001000000000000003200000009",
        "000000000000003200000005000000000000003c00000004",
        "0000000000000032ffffffff",
    ],
)
def test_a_time_index_that_cannot_be_is_refused(tmp_path: Path, data: str) -> None:
    (tmp_path / "t").write_bytes(bytes.fromhex(data))
    with pytest.raises(CorruptIndex):
        TimeIndex(str(tmp_path / "t"), BASE, 1200).load()


def aborted(*entries: AbortedTransaction, path: Path) -> TransactionIndex:
    index = TransactionIndex(str(path), BASE)
    for entry in entries:
        index.append(entry)
    return index


ABORTED = (
    AbortedTransaction(7, 1000, 1010, 1003),
    AbortedTransaction(8, 1003, 1015, 1011),
    AbortedTransaction(7, 1011, 1020, 1021),
)


def test_a_transaction_index_appears_with_its_first_entry(tmp_path: Path) -> None:
    index = aborted(path=tmp_path / "x")
    assert not (tmp_path / "x").exists()
    index.append(AbortedTransaction(7, 1000, 1010, 1003))
    assert (tmp_path / "x").read_bytes() == bytes.fromhex(
        "0000 0000000000000007 00000000000003e8 00000000000003f2 00000000000003eb"
    )


@pytest.mark.parametrize(
    ("offset", "upper", "found", "complete"),
    [
        (1000, 1002, [0], True),
        (1000, 1004, [0, 1], True),
        (1004, 1011, [0, 1], True),
        (1011, 1013, [1, 2], True),
        (1012, 1030, [1, 2], False),
        (1021, 1030, [], False),
    ],
)
def test_aborted_transactions_that_touch_a_range_are_collected(
    tmp_path: Path, offset: int, upper: int, found: list[int], complete: bool
) -> None:
    index = aborted(*ABORTED, path=tmp_path / "x")
    assert index.collect(offset, upper) == ([ABORTED[n] for n in found], complete)


def test_a_transaction_index_is_read_and_truncated(tmp_path: Path) -> None:
    aborted(*ABORTED, path=tmp_path / "x")
    index = TransactionIndex(str(tmp_path / "x"), BASE)
    index.load()
    assert index.entries() == list(ABORTED)
    index.truncate_to(1015)
    assert index.entries() == [ABORTED[0]]
    assert (tmp_path / "x").stat().st_size == 34
    with pytest.raises(ValueError, match="out of order"):
        index.append(ABORTED[0])


@pytest.mark.parametrize("position", [1, 33 + 17])
def test_a_transaction_index_that_cannot_be_is_refused(tmp_path: Path, position: int) -> None:
    aborted(*ABORTED, path=tmp_path / "x")
    data = bytearray((tmp_path / "x").read_bytes())
    data[position] = 0x80
    (tmp_path / "x").write_bytes(data[: 34 * 2 - (position == 50) * 5])
    with pytest.raises(CorruptIndex):
        TransactionIndex(str(tmp_path / "x"), BASE).load()
