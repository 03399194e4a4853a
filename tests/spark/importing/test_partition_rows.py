"""The records of a partition come back from its files as they were, in the order of the log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kcli.errors import KcliError
from kcli.spark.importing.stored_records import PartitionRows, StoredFile, by_partition, runs
from tests.support.stored_rows import SCHEMA, StoredRow, stored_row, write_rows


def opened(file: StoredFile) -> pq.ParquetFile:
    return pq.ParquetFile(file.path)


def read(files: list[StoredFile], skip: int = 0) -> list[tuple[object, ...]]:
    """Return every row but the first ones as (key, value, timestamp, headers)."""
    return [row for batch in PartitionRows(files, opened).batches(skip) for row in zip(*batch, strict=True)]


def expected(rows: list[StoredRow]) -> list[tuple[object, ...]]:
    return [(row.key, row.value, row.timestamp_ms, row.headers) for row in rows]


@pytest.mark.parametrize("skip", [0, 1, 6, 7, 8, 19, 20, 21, 49, 50])
def test_files_follow_each_other_and_beginnings_can_be_left_out(tmp_path: Path, skip: int) -> None:
    rows = [stored_row(offset) for offset in range(0, 100, 2)]
    files = [
        write_rows(tmp_path / "a.parquet", rows[:20], group_rows=7),
        write_rows(tmp_path / "b.parquet", rows[20:21]),
        write_rows(tmp_path / "c.parquet", rows[21:], group_rows=1000),
    ]
    assert read(files, skip) == expected(rows[skip:])


@pytest.mark.parametrize("skip", [0, 3, 29, 30, 31])
def test_files_of_the_same_offsets_are_merged(tmp_path: Path, skip: int) -> None:
    """As a layout by date makes them when timestamps do not rise with offsets."""
    rows = [stored_row(offset) for offset in range(60)]
    first = [rows[index] for index in range(30) if index % 3 == 0]
    second = [rows[index] for index in range(30) if index % 3]
    files = [
        write_rows(tmp_path / "day-1.parquet", first, within=(0, 30), group_rows=4),
        write_rows(tmp_path / "day-2.parquet", second, within=(0, 30), group_rows=3),
        write_rows(tmp_path / "next.parquet", rows[30:], within=(30, 60)),
    ]
    assert read(files, skip) == expected(rows[skip:])


def test_files_of_the_same_offsets_need_their_offsets(tmp_path: Path) -> None:
    rows = [stored_row(offset) for offset in range(4)]
    schema = pa.schema([SCHEMA.field("value")])
    files = [
        write_rows(tmp_path / f"{name}.parquet", rows, within=(0, 4), schema=schema) for name in ("a", "b")
    ]
    with pytest.raises(KcliError, match="has no column `offset`"):
        read(files)


def test_columns_that_were_not_exported_are_nothing(tmp_path: Path) -> None:
    rows = [stored_row(offset) for offset in range(3)]
    file = write_rows(tmp_path / "a.parquet", rows, schema=pa.schema([SCHEMA.field("value")]))
    assert read([file]) == [(None, row.value, -1, ()) for row in rows]


def test_large_records_come_in_small_batches(tmp_path: Path) -> None:
    rows = [StoredRow(offset, None, bytes([offset]) * 2_000_000) for offset in range(6)]
    file = write_rows(tmp_path / "a.parquet", rows)
    pq.write_table(pq.read_table(file.path), file.path, compression="none", use_dictionary=False)
    batches = list(PartitionRows([file], opened).batches(0))
    assert [len(batch.values) for batch in batches] == [2, 2, 2]


def test_a_file_that_is_gone_or_damaged_or_shorter_is_an_error_of_one_line(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.parquet", [stored_row(offset) for offset in range(9)])
    with pytest.raises(KcliError, match=r"a\.parquet` has 9 rows, 10 were committed"):
        read([StoredFile(file.path, "orders", 0, 0, 10, 10)])
    Path(file.path).write_bytes(b"PAR1 no more")
    with pytest.raises(KcliError, match=r"^cannot read `.*a\.parquet`: "):
        read([file])
    Path(file.path).unlink()
    with pytest.raises(KcliError, match=r"^cannot read `.*a\.parquet`: "):
        read([file])


def test_files_are_ordered_and_grouped() -> None:
    def file(partition: int, start: int, end: int, rows: int = 1) -> StoredFile:
        return StoredFile(f"{partition}-{start}-{end}", "t", partition, start, end, rows)

    files = [file(1, 0, 5), file(0, 10, 20), file(0, 0, 10), file(0, 0, 10), file(0, 20, 30, rows=0)]
    parts = by_partition(files)
    assert {index: [one.start for one in part] for index, part in parts.items()} == {0: [0, 0, 10], 1: [0]}
    assert [len(run) for run in runs(parts[0])] == [2, 1]
