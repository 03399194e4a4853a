"""PartitionRows: the records of one partition from its Parquet files, in the order of the log.

`check_stored` reads the footers of all files first and refuses an export that cannot be imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kcli.errors import KcliError, UsageError
from kcli.spark.export.writing.data_file import UNREADABLE, bearable_rows, damage_of
from kcli.spark.importing.original_bytes import Headers, original_bytes, original_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kcli.spark.export.log.receipt import WrittenFile
    from kcli.spark.export.target.target import Target


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A committed file, or the part of it that is of one partition, with offsets from `start` to `end`
    (excluded)."""

    path: str
    topic: str
    partition: int
    start: int
    end: int
    rows: int
    size_bytes: int = 0
    first_row: int = 0
    """Where the rows begin in the file."""
    other_rows: int = 0
    """Rows of other partitions in the file."""

    @property
    def all_rows(self) -> int:
        return self.rows + self.other_rows

    @classmethod
    def parts_of(cls, written: WrittenFile) -> list[StoredFile]:
        """Return a committed file, part by part."""
        return [
            cls(
                path=written.path,
                topic=written.topic,
                partition=one.partition,
                start=one.start,
                end=one.end,
                rows=one.rows,
                size_bytes=written.size_bytes * one.rows // max(1, written.rows),
                first_row=one.first_row,
                other_rows=written.rows - one.rows,
            )
            for one in written.pieces
        ]


def by_partition(files: Iterable[StoredFile]) -> dict[int, list[StoredFile]]:
    """Return the files of each partition in the order of their offsets, without empty ones."""
    partitions: dict[int, list[StoredFile]] = {}
    for file in sorted(files, key=attrgetter("partition", "start", "end", "path")):
        if file.rows:
            partitions.setdefault(file.partition, []).append(file)
    return partitions


def runs(files: Iterable[StoredFile]) -> list[list[StoredFile]]:
    """Group a partition's ordered files by overlapping ranges.

    Files of a group hold rows of the same offsets, split by date: merging them restores the order.
    """
    grouped: list[list[StoredFile]] = []
    end = -1
    for file in files:
        if not grouped or file.start >= end:
            grouped.append([])
        grouped[-1].append(file)
        end = max(end, file.end)
    return grouped


COLUMNS = ("key", "value", "offset", "timestamp", "headers")


class Rows(NamedTuple):
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps_ms: Sequence[int]
    headers: Sequence[Headers]


class PartitionRows:
    """The rows of a partition's files; `opened` opens a file when it is read."""

    def __init__(self, files: Sequence[StoredFile], opened: Callable[[StoredFile], pq.ParquetFile]) -> None:
        self.files = files
        self._opened = opened

    def batches(self, skip: int) -> Iterator[Rows]:
        """Yield all rows except the first `skip`, at most some thousands at a time."""
        for run in runs(self.files):
            total = sum(file.rows for file in run)
            if skip >= total:
                skip -= total
                continue
            if len(run) == 1:
                batches = self._file(run[0], skip)
                skip = 0
            else:
                batches = _merged([self._file(file, 0) for file in run], run[0])
            for batch in batches:
                if skip < batch.num_rows:
                    yield _rows(batch.slice(skip))
                skip = max(0, skip - batch.num_rows)

    def _file(self, stored: StoredFile, skip: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file except the first `skip`."""
        try:
            with self._opened(stored) as file:
                if file.metadata.num_rows != stored.all_rows:
                    raise KcliError(
                        f"`{stored.path}` has {file.metadata.num_rows} rows, "
                        f"{stored.all_rows} were committed",
                        hint="kcli spark-export --to DIR --verify",
                    )
                left = stored.rows - skip
                first, skip = _row_group_of(file.metadata, stored.first_row + skip)
                groups = list(range(first, file.metadata.num_row_groups))
                names = [name for name in COLUMNS if name in file.schema_arrow.names]
                for batch in file.iter_batches(bearable_rows(file.metadata), groups, names):
                    if skip < batch.num_rows:
                        found = batch.slice(skip, left)
                        yield found
                        left -= found.num_rows
                        if not left:
                            return
                    skip = max(0, skip - batch.num_rows)
        except UNREADABLE as error:
            raise unreadable(stored.path, error) from error


def unreadable(path: str, error: Exception) -> KcliError:
    return KcliError(f"cannot read `{path}`: {damage_of(error)}", hint="kcli spark-export --to DIR --verify")


def _row_group_of(metadata: pq.FileMetaData, row: int) -> tuple[int, int]:
    """Return the row group that holds a row, and the row's index in it."""
    for index in range(metadata.num_row_groups):
        count = metadata.row_group(index).num_rows
        if row < count:
            return index, row
        row -= count
    return metadata.num_row_groups, 0


def _merged(files: list[Iterator[pa.RecordBatch]], first: StoredFile) -> Iterator[pa.RecordBatch]:
    """Merge files by offset: offsets up to the lowest last offset of the heads are complete."""
    heads = {index: batch for index, file in enumerate(files) if (batch := next(file, None)) is not None}
    while heads:
        if any("offset" not in batch.schema.names for batch in heads.values()):
            raise KcliError(
                f"the order of the records is lost: `{first.path}` is one of several files of the same "
                "offsets, and has no column `offset`"
            )
        offsets = {index: batch.column("offset").to_numpy() for index, batch in heads.items()}
        bound = min(values[-1] for values in offsets.values())
        parts = []
        for index, values in offsets.items():
            count = int(np.searchsorted(values, bound, side="right"))
            parts.append(heads[index].slice(0, count))
            rest = heads[index].slice(count) if count < len(values) else next(files[index], None)
            if rest is None:
                del heads[index]
            else:
                heads[index] = rest
        table = pa.Table.from_batches(parts).sort_by("offset").combine_chunks()
        yield from table.to_batches()


def _rows(batch: pa.RecordBatch) -> Rows:
    """Return a batch's records; a column that was not exported is None."""
    count, names = batch.num_rows, batch.schema.names
    nothing: list[bytes | None] = [None] * count
    keys = original_bytes(batch.column("key")) if "key" in names else nothing
    values = original_bytes(batch.column("value")) if "value" in names else nothing
    headers = original_headers(batch.column("headers")) if "headers" in names else [()] * count
    times = [-1] * count
    if "timestamp" in names:
        micros = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        times = [-1 if micro is None else micro // 1000 for micro in micros.to_pylist()]
    return Rows(keys, values, times, headers)


def check_stored(target: Target, files: Iterable[StoredFile]) -> None:
    """Raise `UsageError` for the first file that is missing, incomplete, or has another number of rows."""
    for file in {one.path: one for one in files}.values():
        reason = _wrong_with(target, file)
        if reason is not None:
            raise UsageError(
                f"cannot import `{target.uri}`: `{file.path}`: {reason}",
                hint=f"kcli spark-export --to {target.uri} --verify",
            )


def _wrong_with(target: Target, file: StoredFile) -> str | None:
    try:
        with target.open_input(file.path) as opened:
            rows = pq.read_metadata(opened).num_rows
    except FileNotFoundError:
        return "missing"
    except UNREADABLE as error:
        return damage_of(error)
    return None if rows == file.all_rows else f"{rows} rows instead of {file.all_rows}"
