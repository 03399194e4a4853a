"""Gatherer: entries of every format and codec become rows, whatever the buffers are cut like."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import set_base_offset_and_epoch
from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.spark.decode.arrow_columns import arrow_schema
from kcli.spark.decode.batch_group import Group
from kcli.spark.decode.decompression import DecompressedRecords
from kcli.spark.decode.entry import CorruptBatch, entry_at
from kcli.spark.decode.gatherer import CHUNK_BYTES, Gatherer
from kcli.spark.split import COLUMNS, AbortedTransaction, ReadCounters, Reading
from tests.protocol.records.record_sets import Written, record_sets

LATEST = 2**63 - 1
Row = tuple[object, ...]


def gatherer(start: int = 0, end: int = LATEST, **rules: Any) -> Gatherer:
    """Return one that wants all columns."""
    aborted = rules.pop("aborted", ())
    return Gatherer("orders", 3, start, end, Reading(columns=COLUMNS, **rules), ReadCounters(), aborted)


def rows(one: Gatherer, data: bytes, **options: Any) -> list[Row]:
    """Return offset, timestamp, timestamp type, key, value and headers of what is gathered."""
    found: list[Row] = []
    for batch in one.rows(data, **{"is_end": True, **options}):
        batch.validate(full=True)
        assert batch.schema == arrow_schema(COLUMNS)
        assert set(batch.column("topic").to_pylist()) == {"orders"}
        assert set(batch.column("partition").to_pylist()) == {3}
        times = [at.value // 1000 for at in batch.column("timestamp")]
        others = ("timestampType", "key", "value", "headers")
        columns = [batch.column("offset").to_pylist(), times, *(batch.column(o).to_pylist() for o in others)]
        found += zip(*columns, strict=True)
    assert one.counters.rows == len(found)
    return found


def expected(data: bytes) -> list[Row]:
    """Return what the ordinary reader makes of whole entries with good checksums."""
    found: list[Row] = []
    for batch in iter_batches(data):
        if not batch.is_valid_crc():
            raise CorruptRecord("checksum")
        for record in batch.records():
            headers = [{"key": name, "value": value} for name, value in record.headers] or None
            kind = int(batch.timestamp_type)
            found.append((record.offset, record.timestamp, kind, record.key, record.value, headers))
    return found


def joined(written: list[Written]) -> bytes:
    return b"".join(one.data for one in written)


@given(record_sets(), st.integers(0, 30), st.integers(0, 30))
def test_entries_of_every_format_become_the_rows_of_a_range(
    written: list[Written], skipped: int, wanted: int
) -> None:
    everything = expected(joined(written))
    offsets = [row[0] for row in everything] or [0]
    start = offsets[min(skipped, len(offsets) - 1)]
    end = offsets[min(skipped + wanted, len(offsets) - 1)]
    found = rows(gatherer(start, end), joined(written))
    assert found == [row for row in everything if start <= row[0] < end]


@given(record_sets(), st.data())
def test_buffers_may_end_anywhere(written: list[Written], data: st.DataObject) -> None:
    whole = joined(written)
    one = gatherer()
    at = end = 0
    found: list[Row] = []
    while end < len(whole):
        end = data.draw(st.integers(min(end + 1, len(whole)), len(whole)))
        one.counters.rows = 0
        found += rows(one, whole[at:end], position=at, is_end=end == len(whole))
        at += one.stopped_at
        assert at == len(whole) or end == len(whole) or one.needed > end - at
    assert found == expected(whole)
    assert one.counters.bytes_read == len(whole)


@given(record_sets(), st.data())
def test_what_is_cut_off_is_waited_for(written: list[Written], data: st.DataObject) -> None:
    whole = joined(written)
    cut = data.draw(st.integers(0, len(whole)))
    one = gatherer()
    assert rows(one, whole[:cut]) == expected(whole[:cut])
    assert one.stopped_at == cut or one.needed > cut - one.stopped_at


@given(record_sets().filter(bool), st.data())
def test_every_changed_byte_is_refused_or_read_as_the_ordinary_reader_does(
    written: list[Written], data: st.DataObject
) -> None:
    mutated = bytearray(joined(written))
    mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = rows(gatherer(), bytes(mutated))
    except CorruptBatch:
        return
    assert found == expected(bytes(mutated))


def batch(base_offset: int, count: int = 1, **options: Any) -> bytes:
    """Return a batch whose values are the offsets."""
    builder = RecordBatchBuilder(base_offset=base_offset, **options)
    for offset in range(base_offset, base_offset + count):
        builder.append(5, None, b"%d" % offset)
    return bytes(builder.build())


def offsets(found: list[Row]) -> list[object]:
    return [row[0] for row in found]


def test_markers_and_empty_batches_have_no_rows() -> None:
    control = RecordBatchBuilder(base_offset=1, is_control=True, is_transactional=True, producer_id=5)
    control.append(5, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00")
    empty = RecordBatchBuilder(base_offset=2, codec=Codec.ZSTD)
    data = batch(0) + control.build() + empty.build(last_offset=9) + batch(10)
    one = gatherer(0, 11)
    assert offsets(rows(one, bytes(data))) == [0, 10]
    assert one.is_done


@given(st.data())
def test_rows_of_transactions_that_were_rolled_back_are_left_out(data: st.DataObject) -> None:
    log, kept, aborted = bytearray(), [], []
    open_since: dict[int, int] = {}
    pending: dict[int, list[int]] = {}
    offset = 0
    for _ in range(data.draw(st.integers(1, 30))):
        producer = data.draw(st.integers(0, 3))
        action = data.draw(st.sampled_from(["plain", "write", "write", "commit", "abort"]))
        options: dict[str, Any] = {"producer_id": producer, "is_transactional": action != "plain"}
        count = data.draw(st.integers(1, 3)) if action in ("plain", "write") else 1
        log += batch(offset, count, is_control=action in ("commit", "abort"), **options)
        written = list(range(offset, offset + count))
        if action == "plain":
            kept += written
        elif action == "write":
            open_since.setdefault(producer, offset)
            pending.setdefault(producer, []).extend(written)
        elif producer in open_since:
            first = open_since.pop(producer)
            rows_of_it = pending.pop(producer)
            if action == "commit":
                kept += rows_of_it
            else:
                aborted.append(AbortedTransaction(producer, first, offset))
        offset += count
    # What is still open is behind the last stable offset, which ends a range.
    end = min(open_since.values(), default=offset)
    start = data.draw(st.integers(0, end))
    told = [one for one in aborted if one.last_offset >= start and one.first_offset < end]
    found = rows(gatherer(start, end, read_committed=True, aborted=told), bytes(log))
    assert offsets(found) == sorted(one for one in kept if start <= one < end)


def test_aborted_transactions_mean_nothing_to_who_reads_uncommitted() -> None:
    data = batch(0, 2, producer_id=1, is_transactional=True)
    aborted = [AbortedTransaction(1, 0, 9)]
    assert offsets(rows(gatherer(aborted=aborted), data)) == [0, 1]
    one = gatherer(aborted=aborted, read_committed=True)
    assert rows(one, data) == []
    one.know_aborted([])
    one.next_offset = 0
    assert offsets(rows(one, data)) == [0, 1]


def test_more_than_a_chunk_comes_in_several_batches_of_rows() -> None:
    value = bytes(CHUNK_BYTES // 3)
    builder = [RecordBatchBuilder(base_offset=offset, codec=Codec.LZ4) for offset in range(7)]
    for one in builder:
        one.append(0, None, value)
    batches = list(gatherer().rows(b"".join(one.build() for one in builder), is_end=True))
    assert [one.num_rows for one in batches] == [3, 3, 1] or [one.num_rows for one in batches] == [4, 3]


def test_uncompressed_records_are_decoded_where_they_stand() -> None:
    data = batch(0) + batch(1) + batch(2, codec=Codec.SNAPPY)
    view, size = memoryview(data), len(batch(0))
    group = Group(view, DecompressedRecords())
    for at in (0, size):
        group.fill([entry_at(view, at, size)], 0, 2**20, 2**20)
    assert group.chunk(0, LATEST).data is view
    group.fill([entry_at(view, 2 * size, len(data) - 2 * size)], 0, 2**20, 2**20)
    assert group.chunk(0, LATEST).data is not view


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_a_range_may_begin_and_end_inside_an_older_entry(magic: int, codec: Codec) -> None:
    builder = MessageSetBuilder(magic, codec=codec, base_offset=10)
    for at in range(6):
        builder.append(100 + at, b"k", b"%d" % at)
    found = rows(gatherer(12, 15), builder.build())
    times = [-1, -1, -1] if magic == 0 else [102, 103, 104]
    assert [row[:3] for row in found] == [
        (12 + at, time, -1 if magic == 0 else 0) for at, time in enumerate(times)
    ]


def test_columns_come_in_the_order_in_which_they_are_wanted() -> None:
    reading = Reading(columns=("offset", "value"))
    (found,) = Gatherer("t", 0, 0, 9, reading, ReadCounters()).rows(batch(0), is_end=True)
    assert found.schema == arrow_schema(("offset", "value"))
    assert RecordBatch(batch(0)).count == found.num_rows == 1


@given(record_sets())
def test_the_last_batch_of_a_buffer_and_its_leader_epoch_are_noted(written: list[Written]) -> None:
    data = bytearray(joined(written))
    stored = list(iter_batches(data))
    for number, batch in enumerate(stored):
        if isinstance(batch, RecordBatch):
            set_base_offset_and_epoch(data, batch.position, batch.base_offset, number)
    one = gatherer(end=stored[-1].last_offset + 1 if stored else 1)
    rows(one, bytes(data))
    epochs = {mark.leader_epoch: mark.offset for mark in one.counters.marks}
    ends = {n: batch.last_offset for n, batch in enumerate(stored) if isinstance(batch, RecordBatch)}
    assert epochs.items() <= ends.items()
    if ends and max(ends) == len(stored) - 1:
        assert max(ends) in epochs
