"""The pure parts of a dump: lines of records, names of files, columns, counting keys, errors."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.commands.dump.dump_errors import MOST_PAIRS, DumpErrors, absolute
from kcli.commands.dump.summary import MOST_EXACT, DistinctCounter
from kcli.commands.dump.table_view import WIDEST_COLUMN, StreamedColumns, moment
from kcli.commands.dump.text_lines import RecordLines
from kcli.commands.dump.text_view import record_metadata, utf8_lines
from kcli.commands.dump.view import DumpOutput, OptionalLong
from kcli.commands.shared.java import java_utf8
from kcli.errors import UsageError
from kcli.forensics.contents.log_files import DumpFile, FileKind, identify, java_path
from kcli.forensics.entries.scanned_entry import records_of
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.record import TimestampType

data = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=70), data), max_size=3)
timestamps = st.integers(0, 2**62) | st.integers(1_700_000_000_000, 1_700_000_100_000)
offset_steps = st.integers(1, 3) | st.integers(1, 40_000)


@given(
    st.lists(st.tuples(offset_steps, timestamps, data, data, headers), max_size=12),
    st.integers(0, 2**40),
    st.sampled_from([-1, 0, 2**31 - 3]),
    st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
    st.booleans(),
)
def test_the_short_way_to_a_line_is_the_long_one(
    rows: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    base_offset: int,
    sequence: int,
    timestamp_type: TimestampType,
    with_contents: bool,
) -> None:
    builder = RecordBatchBuilder(
        base_offset=base_offset,
        producer_id=sequence,
        producer_epoch=0,
        base_sequence=sequence,
        timestamp_type=timestamp_type,
    )
    offset = base_offset - 1
    for step, timestamp, key, value, named in rows:
        offset += step
        builder.append(timestamp, key, value, named, offset=offset)
    batch = RecordBatch(builder.build())
    lines = RecordLines(with_contents=with_contents)
    shown = b"".join(utf8_lines(part) for part in lines.of_batch(batch, batch.record_data())).decode()
    kind = "LogAppendTime" if timestamp_type else "CreateTime"
    expected = []
    gaps = []
    last = -1
    for record in records_of(batch):
        line = record_metadata(record, batch, kind)
        if with_contents:
            line += "" if record.key is None else f" key: {java_utf8(record.key)}"
            line += "" if record.value is None else f" payload: {java_utf8(record.value)}"
        expected.append(f"{line}\n")
        if record.offset != last + 1:
            gaps.append((last, record.offset))
        last = record.offset
    assert shown == "".join(expected)
    assert lines.gaps == gaps
    assert lines.last_offset == last


@given(st.binary(max_size=60), st.integers(0, 5))
def test_bytes_that_are_no_records_are_refused(data: bytes, count: int) -> None:
    batch = RecordBatch(RecordBatchBuilder().build())
    batch.count = count
    try:
        lines = [line for part in RecordLines(with_contents=True).of_batch(batch, data) for line in part]
    except CorruptRecord:
        return
    assert len(lines) == count


NAMES: list[tuple[str, DumpFile | str]] = [
    ("x/00000000000000000042.log", DumpFile("x/00000000000000000042.log", FileKind.LOG, 42)),
    ("7.index.deleted", DumpFile("7.index.deleted", FileKind.INDEX, 7)),
    ("7.timeindex.cleaned", DumpFile("7.timeindex.cleaned", FileKind.TIME_INDEX, 7)),
    ("7.txnindex.swap", DumpFile("7.txnindex.swap", FileKind.TRANSACTION_INDEX, 7)),
    ("7.snapshot", DumpFile("7.snapshot", FileKind.PRODUCER_SNAPSHOT, 7)),
    (
        "00000000000000000042-0000000003.checkpoint",
        DumpFile("00000000000000000042-0000000003.checkpoint", FileKind.METADATA_SNAPSHOT, 42, 3),
    ),
    ("bootstrap.checkpoint", DumpFile("bootstrap.checkpoint", FileKind.METADATA_SNAPSHOT)),
    ("leader-epoch-checkpoint", DumpFile("leader-epoch-checkpoint", FileKind.LEADER_EPOCHS)),
    ("replication-offset-checkpoint", DumpFile("replication-offset-checkpoint", FileKind.OFFSETS)),
    ("partition.metadata", DumpFile("partition.metadata", FileKind.PARTITION_METADATA)),
    ("meta.properties", DumpFile("meta.properties", FileKind.META_PROPERTIES)),
    ("copy.log", "the name does not begin with an offset"),
    ("٤٢.log", "the name does not begin with an offset"),
    ("42-3.checkpoint", "the name does not tell offset and epoch"),
    ("quorum-state", "not a file of a log directory"),
    ("log", "not a file of a log directory"),
    ("", "not a file of a log directory"),
]


@pytest.mark.parametrize(("path", "expected"), NAMES, ids=[path for path, _ in NAMES])
def test_what_a_name_says(path: str, expected: DumpFile | str) -> None:
    if isinstance(expected, DumpFile):
        assert identify(path) == expected
    else:
        with pytest.raises(UsageError, match=expected):
            identify(path)


@pytest.mark.parametrize(
    ("path", "shown"), [("a//b/", "a/b"), ("/", "/"), ("///", "/"), ("a/../b", "a/../b"), ("./a", "./a")]
)
def test_a_path_as_java_shows_it(path: str, shown: str) -> None:
    assert java_path(path) == shown


def test_complaints_are_in_the_order_of_javas_maps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    errors = DumpErrors()
    for path in ("/logs/b", "/logs/a", "/logs/aa"):
        errors.gaps(path, [(9, 12), (-1, 5), (9, 13)])
    errors.index_mismatch("/logs/i", 5, 6)
    errors.index_mismatch("/logs/i", 7, -1)
    errors.timestamp_mismatch("/logs/t", 1, 2)
    errors.timestamp_out_of_order("/logs/t", 1, 3)
    errors.offset_not_found("/logs/t", 4, -1)
    assert list(errors.lines()) == [
        "Mismatches in :/logs/i",
        "  Index offset: 7, log offset: -1",
        "  Index offset: 5, log offset: 6",
        "Found timestamp mismatch in :/logs/t",
        "  Index timestamp: 1, log timestamp: 2",
        "Found out of order timestamp in :/logs/t",
        "  Index timestamp: 1, Previously indexed timestamp: 3",
        "The following indexed offsets are not found in :/logs/t",
        "Indexed offset: 4, found log offset: -1",
        *(
            line
            for path in ("/logs/aa", "/logs/a", "/logs/b")
            for line in (
                f"Non-consecutive offsets in {path}",
                "  -1 is followed by 5",
                "  9 is followed by 13",
            )
        ),
    ]
    assert absolute("../x") == f"{tmp_path}/../x"


def test_complaints_take_limited_memory() -> None:
    errors = DumpErrors()
    errors.gaps("/x", ((number, number + 2) for number in range(MOST_PAIRS + 5)))
    lines = list(errors.lines())
    assert len(lines) == MOST_PAIRS + 2
    assert lines[-1] == "  5 more of these are not listed"


@pytest.mark.parametrize(("count", "error"), [(1000, 0.0), (MOST_EXACT, 0.0), (3 * MOST_EXACT, 0.002)])
def test_different_keys_are_counted(count: int, error: float) -> None:
    counter = DistinctCounter()
    for _ in range(2):
        for number in range(count):
            counter.add(b"%d" % number)
    assert counter.is_exact == (error == 0)
    assert abs(counter.count - count) <= error * count


def test_columns_are_as_wide_as_the_first_rows_need() -> None:
    sink = io.BytesIO()
    output = DumpOutput(sink)
    columns = StreamedColumns(output, ("offset", "value"))
    for number in range(150):
        columns.add((number, "x" * (number % 7)))
    columns.add((10**9, "y" * 100))
    columns.flush()
    output.flush()
    lines = sink.getvalue().decode().splitlines()
    assert lines[:4] == ["offset  value", "──────  ──────", "     0", "     1  x"]
    assert lines[101] == "    99  x"
    assert lines[-1] == f"1000000000  {'y' * 100}"
    wide = StreamedColumns(output, ("offset", "value"))
    wide.add((0, "z" * 100))
    wide.flush()
    output.flush()
    assert sink.getvalue().decode().splitlines()[-2] == f"──────  {'─' * WIDEST_COLUMN}"


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        (-1, "-"),
        (0, "1970-01-01 00:00:00.000"),
        (1_700_000_000_007, "2023-11-14 22:13:20.007"),
        (2**63 - 1, str(2**63 - 1)),
    ],
)
def test_times_of_a_table(timestamp: int, shown: str) -> None:
    assert moment(timestamp) == shown


def test_small_things() -> None:
    assert [str(OptionalLong(number)) for number in (-1, 0)] == ["OptionalLong.empty", "OptionalLong[0]"]
