"""Damaged log files: nothing intact is lost, what is lost is told, and errors of the system are no damage."""

from __future__ import annotations

import errno
import os
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_header import HEADER_SIZE, update_crc
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.source.log_dirs.segment import CannotRead
from kcli.spark.split import OffsetInterval, OnCorrupt, ReadCounters, Split
from tests.forensics.segment_makers import Harm, Shape, harm, harms, make_entries, starts_of
from tests.forensics.segment_makers import shapes as any_shapes
from tests.spark.source.log_dirs.log_dir import LogDir, Row, between, read_all, stored_rows
from tests.storage.log_harness import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

EPOCH_FIELD = range(12, 16)


@pytest.fixture
def log(tmp_path: Path) -> LogDir:
    """Three segments of batches of one to three records."""
    made = LogDir(tmp_path / "node")
    for number in range(45):
        made.append(*[b"%d" % number * 9] * (number % 3 + 1), codec=Codec(number % 5))
    return made.close()


def batches_of(log: LogDir, base: int) -> list[RecordBatch]:
    """The batches of a segment."""
    found = list(iter_batches(log.path(base).read_bytes()))
    assert all(isinstance(batch, RecordBatch) for batch in found)
    return [batch for batch in found if isinstance(batch, RecordBatch)]


def offsets_in(intervals: Iterable[OffsetInterval]) -> list[int]:
    return [offset for start, end in intervals for offset in range(start, end)]


def skip(log: LogDir, start: int = 0, end: int | None = None) -> tuple[list[Row], ReadCounters]:
    """Read past damage."""
    counters, end = ReadCounters(), log.log.log_end_offset if end is None else end
    splits = log.splits(start, end, split_bytes=2**40)
    return read_all(splits, counters, on_corrupt=OnCorrupt.SKIP), counters


def check_accounted(rows: Sequence[Row], counters: ReadCounters, stored: Sequence[Row]) -> None:
    """Every row is there, or its offset is among those missing, and never both."""
    lost = offsets_in(counters.missing)
    there = [row[0] for row in rows]
    assert not set(there) & set(lost)
    assert sorted([*there, *lost]) == [row[0] for row in stored]
    assert set(rows) <= set(stored)


@pytest.mark.parametrize("with_index", [True, False])
def test_a_flipped_byte_takes_one_batch_at_most(log: LogDir, with_index: bool) -> None:
    base = log.bases[1]
    stored, data, batches = stored_rows(log.directory), log.path(base).read_bytes(), batches_of(log, base)
    if not with_index:
        log.path(base, ".index").unlink()
    for batch in batches[2:7]:
        for at in [*range(0, HEADER_SIZE, 2), HEADER_SIZE, batch.size_in_bytes - 1]:
            log.path(base).write_bytes(data)
            log.corrupt(base, batch.position + at)
            rows, counters = skip(log)
            check_accounted(rows, counters, stored)
            if at in EPOCH_FIELD:
                assert rows == stored
                continue
            lost = OffsetInterval(batch.base_offset, batch.next_offset)
            assert counters.missing == [lost]
            assert counters.corrupt_batches == 1
            assert counters.corrupt_bytes == batch.size_in_bytes
            assert counters.rows == len(rows)


def harm_of(verb: str, data: bytes, at: int, size: int) -> bytes:
    match verb:
        case "zeros":
            return data[:at] + bytes(size) + data[at + size :]
        case "noise":
            return data[:at] + bytes(each * 37 % 251 for each in range(size)) + data[at + size :]
        case "gone":
            return data[:at] + data[at + size :]
        case "inserted":
            return data[:at] + b"\x02" * size + data[at:]
    raise AssertionError(verb)


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("verb", ["zeros", "noise", "gone", "inserted"])
def test_a_harmed_stretch_takes_the_batches_it_touches(log: LogDir, verb: str, with_index: bool) -> None:
    base = log.bases[1]
    stored, data, batches = stored_rows(log.directory), log.path(base).read_bytes(), batches_of(log, base)
    if not with_index:
        log.path(base, ".index").unlink()
    for first, inside, size in ((1, 0, 40), (1, 70, 90), (3, 5, 300), (0, 0, 100), (4, 61, 1)):
        at = batches[first].position + inside
        log.path(base).write_bytes(harm_of(verb, data, at, size))
        rows, counters = skip(log)
        check_accounted(rows, counters, stored)
        behind = at if verb == "inserted" else at + size
        lost = set(offsets_in(counters.missing))
        for batch in batches:
            is_whole = batch.position + batch.size_in_bytes <= at or batch.position >= behind
            is_lost = bool(lost & set(range(batch.base_offset, batch.next_offset)))
            assert not (is_whole and is_lost)


def test_the_end_of_a_segment_that_is_damaged_ends_with_the_next(log: LogDir) -> None:
    stored = stored_rows(log.directory)
    base, following = log.bases[:2]
    last = batches_of(log, base)[-1]
    log.cut(base, 5)
    rows, counters = skip(log)
    check_accounted(rows, counters, stored)
    assert counters.missing == [OffsetInterval(last.base_offset, following)]


def test_a_whole_segment_of_garbage_is_one_loss(log: LogDir) -> None:
    stored, (_, base, following, *_) = stored_rows(log.directory), log.bases
    size = log.path(base).stat().st_size
    log.path(base).write_bytes(b"\xa5" * size)
    rows, counters = skip(log)
    check_accounted(rows, counters, stored)
    assert counters.missing == [OffsetInterval(base, following)]
    assert counters.corrupt_bytes == size


def test_the_last_batches_of_the_log_are_missing_up_to_the_end(log: LogDir) -> None:
    base, end = log.bases[-1], log.log.log_end_offset
    stored, last = stored_rows(log.directory), batches_of(log, base)[-1]
    log.corrupt(base, -1)
    rows, counters = skip(log)
    assert rows == between(stored, 0, last.base_offset)
    assert counters.missing == [OffsetInterval(last.base_offset, end)]


@pytest.mark.parametrize("harmed", [0, 3, 5])
def test_splits_lose_the_same_as_the_whole(log: LogDir, harmed: int) -> None:
    base = log.bases[1]
    batch = batches_of(log, base)[harmed]
    log.corrupt(base, batch.position + 70)
    whole, counters = skip(log)
    (split,) = log.splits(0, log.log.log_end_offset, split_bytes=2**40)
    for cut in range(1, split.end):
        parts = ReadCounters()
        halves = replace(split, end=cut), replace(split, start=cut)
        assert read_all(halves, parts, on_corrupt=OnCorrupt.SKIP) == whole
        assert offsets_in(parts.missing) == offsets_in(counters.missing)
    for size in (1, 200, 600):
        parts = ReadCounters()
        splits = log.splits(0, split.end, split_bytes=size)
        assert read_all(splits, parts, on_corrupt=OnCorrupt.SKIP) == whole
        assert offsets_in(parts.missing) == offsets_in(counters.missing)
        assert parts.corrupt_batches == 1


def test_failing_names_the_file_the_place_both_checksums_and_the_offsets(log: LogDir) -> None:
    base = log.bases[1]
    batch = batches_of(log, base)[3]
    log.corrupt(base, batch.position + 70)
    rows: list[Row] = []
    with pytest.raises(CorruptBatch) as caught:
        rows += log.rows(0, log.log.log_end_offset)
    found, told = batches_of(log, base)[3], caught.value
    assert f"`{log.path(base)}` at position {batch.position}" in told.message
    assert f"offsets {batch.base_offset} to {batch.last_offset}" in told.message
    assert f"{found.crc:#010x}" in told.message
    assert (told.position, told.size) == (batch.position, batch.size_in_bytes)
    travelled = pickle.loads(pickle.dumps(told))
    assert (travelled.message, travelled.hint) == (told.message, told.hint)


def test_damage_outside_the_range_does_not_fail(log: LogDir) -> None:
    stored, base = stored_rows(log.directory), log.bases[1]
    batch = batches_of(log, base)[3]
    log.corrupt(base, batch.position + 70)
    for name in log.names(".index"):
        (log.directory / name).unlink()
    end = log.log.log_end_offset
    assert log.rows(0, batch.base_offset) == between(stored, 0, batch.base_offset)
    assert log.rows(batch.next_offset, end) == between(stored, batch.next_offset, end)
    (split,) = log.splits(0, end, split_bytes=2**40)
    behind = replace(split, start=batch.next_offset, segment=base, position=0)
    assert read_all([behind]) == between(stored, batch.next_offset, end)
    with pytest.raises(CorruptBatch):
        read_all([replace(split, start=batch.last_offset)])
    with pytest.raises(CorruptBatch):
        read_all([replace(split, end=batch.base_offset + 1)])


def test_a_dead_letter_is_the_bytes_that_were_passed_over(log: LogDir) -> None:
    base = log.bases[1]
    batches = batches_of(log, base)
    log.corrupt(base, batches[3].position + 70)
    data = bytearray(log.path(base).read_bytes())
    data[batches[6].position : batches[8].position] = bytes(batches[8].position - batches[6].position)
    log.path(base).write_bytes(data)
    kept: list[tuple[str, int, int, bytes, str]] = []
    counters = ReadCounters(on_damaged_batch=lambda *damage: kept.append(damage))
    splits = log.splits(0, log.log.log_end_offset)
    read_all(splits, counters, on_corrupt=OnCorrupt.DEAD_LETTER)
    assert [(topic, partition, position) for topic, partition, position, _, _ in kept] == [
        ("orders", 0, batches[3].position),
        ("orders", 0, batches[6].position),
    ]
    assert kept[0][3] == data[batches[3].position : batches[4].position]
    assert kept[1][3] == data[batches[6].position : batches[8].position]
    assert sum(len(raw) for *_, raw, _ in kept) == counters.corrupt_bytes


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_contradict_their_good_checksum_take_the_batch(tmp_path: Path, codec: Codec) -> None:
    log = LogDir(tmp_path / "node")
    for _ in range(3):
        log.append(b"a" * 40, b"b" * 40, codec=codec)
    log.close()
    stored, batch = stored_rows(log.directory), batches_of(log, 0)[1]
    data = bytearray(log.path(0).read_bytes())
    at = batch.position + HEADER_SIZE
    data[at : at + 4] = b"\xff\xff\xff\xff"
    update_crc(data, batch.position)
    log.path(0).write_bytes(data)
    rows, counters = skip(log)
    assert rows == [*stored[:2], *stored[4:]]
    assert counters.missing == [OffsetInterval(2, 4)]
    assert (counters.corrupt_batches, counters.corrupt_bytes) == (1, batch.size_in_bytes)
    with pytest.raises(CorruptBatch):
        log.rows(0, 6)


def test_a_batch_that_decompresses_to_too_much_is_damage(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node")
    log.append(b"before")
    log.append(bytes(100_000), codec=Codec.ZSTD)
    log.append(b"after")
    log.close()
    counters = ReadCounters()
    rules = {"on_corrupt": OnCorrupt.SKIP, "max_batch_bytes": 50_000}
    assert [row[0] for row in read_all(log.splits(0, 3), counters, **rules)] == [0, 2]
    assert counters.missing == [OffsetInterval(1, 2)]
    assert len(log.rows(0, 3)) == 3


def test_a_size_of_two_gigabytes_reserves_no_memory(log: LogDir) -> None:
    base = log.bases[1]
    stored, batch = stored_rows(log.directory), batches_of(log, base)[3]
    data = bytearray(log.path(base).read_bytes())
    data[batch.position + 8 : batch.position + 12] = (2**31 - 1).to_bytes(4, "big")
    log.path(base).write_bytes(data)
    rows, counters = skip(log)
    check_accounted(rows, counters, stored)
    assert counters.missing == [OffsetInterval(batch.base_offset, batch.next_offset)]


@pytest.mark.parametrize("policy", list(OnCorrupt))
@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_an_error_of_the_system_is_no_damage(
    log: LogDir, policy: OnCorrupt, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits, counters = log.splits(0, log.log.log_end_offset), ReadCounters()

    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(CannotRead, match=os.strerror(code)) as caught:
        read_all(splits, counters, on_corrupt=policy)
    assert str(log.path(0)) in caught.value.message
    assert counters == ReadCounters()


def test_a_directory_that_is_not_there_is_an_error_with_a_hint(tmp_path: Path) -> None:
    split = Split("orders", 0, 0, 5, 100, str(tmp_path / "orders-0"), 0)
    with pytest.raises(CannotRead, match="No such file or directory") as caught:
        read_all([split], on_corrupt=OnCorrupt.SKIP)
    assert caught.value.hint is not None


@settings(max_examples=150)
@given(made=any_shapes(min_size=2, max_size=8), done=harms())
def test_random_harm_loses_no_intact_entry_and_makes_up_no_row(
    tmp_path_factory: pytest.TempPathFactory, made: list[Shape], done: Harm
) -> None:
    directory = tmp_path_factory.mktemp("logs") / "orders-0"
    directory.mkdir()
    entries = make_entries([shape._replace(gap=0) for shape in made])
    path = directory / f"{0:020d}.log"
    path.write_bytes(b"".join(entries))
    stored = stored_rows(directory)
    data, harmed = harm(path.read_bytes(), done)
    path.write_bytes(data)
    end = stored[-1][0] + 1
    counters = ReadCounters()
    split = Split("orders", 0, 0, end, 0, str(directory), 0)
    rows = read_all([split], counters, on_corrupt=OnCorrupt.SKIP, fail_on_data_loss=False)
    untouched = [row for row in stored if row[0] < _first_offset_at(entries, starts_of(entries), harmed)]
    assert rows[: len(untouched)] == untouched
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    # No checksum covers an offset. Behind a hole, or in front of the end, one that is wrong can be right.
    assert {row[1:] for row in rows} <= {row[1:] for row in stored}
    assert len(set(rows) - set(stored)) <= 2 * max(shape.records for shape in made)


def _first_offset_at(entries: Sequence[bytes], starts: Sequence[int], position: int) -> int:
    """The first offset of the entry before the one that a position is in: the next one's offset decides."""
    offsets = [0, 0]
    for entry, start in zip(entries, starts, strict=False):
        if start + len(entry) > position:
            break
        offsets.append(next(iter(iter_batches(entry))).next_offset)
    return offsets[-2]


def test_entries_out_of_place_are_told_from_holes(tmp_path: Path) -> None:
    """Compaction leaves holes; a batch from before, or from beyond the next one, is none."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    batches = [batch_of(b"%d" % number) for number in range(6)]
    for batch, offset in zip(batches, (0, 7, 9, 3, 12, 13), strict=True):
        batch[:8] = offset.to_bytes(8, "big")
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    counters = ReadCounters()
    split = Split("orders", 0, 0, 14, 0, str(directory), 0)
    rows = read_all([split], counters, on_corrupt=OnCorrupt.SKIP)
    assert [row[0] for row in rows] in ([0, 7, 9, 12, 13], [0, 7, 12, 13])
    assert counters.corrupt_batches in (1, 2)
