"""SplitWriter: the files of one task, one per date or hour of its rows.

Rows are collected, and a file is open from its first row group on; the first file is at once, so that a
target that refuses it is found early. The bytes collected for all files are bounded: the largest is written
first. At most 16 files are open, and rows are collected for at most 4096: beyond that the least recently used
is closed, and later rows of its date go to another file. So a few rows of each of many hours make one file
per hour, in whatever order they come.

A `ParquetPart` is one file, which grows by row groups. Dictionaries are used only where values repeat, delta
encoding where they ascend, and statistics where a reader can skip by them.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kcli.spark.export.log.receipt import SEVERAL, FilePart, WrittenFile
from kcli.spark.export.target.layout import DATA_SUFFIX
from kcli.spark.export.target.local_target import temporary_name
from kcli.spark.export.writing.data_file import FILES, PARTS, checksum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kcli.spark.export.options import ParquetOptions
    from kcli.spark.export.target.layout import Layout
    from kcli.spark.export.target.target import Target
    from kcli.spark.split import Split

_REPEATING = ("topic", "partition", "timestampType")
_ASCENDING = ("offset", "timestamp")
_BATCH_BYTES = 2048
"""About what a batch takes besides its values: it counts where batches have a row each."""
_DEFAULT_LEVELS = {"zstd": 1, "gzip": 6}
"""Where pyarrow's default level costs far more than it saves: 9 for gzip."""


class ParquetPart:
    """A file under its temporary name, made by its first row group; rows are batches of one schema."""

    def __init__(
        self,
        target: Target,
        path: str,
        *,
        schema: pa.Schema,
        metadata: Mapping[str, str],
        options: ParquetOptions,
    ) -> None:
        self.target = target
        self.path = path
        self.rows = 0
        self.buffered_rows = 0
        self.buffered_bytes = 0
        self._options = options
        self._row_group_rows = options.row_group_rows
        self._buffered: list[pa.RecordBatch] = []
        self._schema = schema
        self._metadata = metadata
        self._sink: Any = None
        self._writer: Any = None

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    @property
    def has_group(self) -> bool:
        """Return whether the rows collected fill a row group."""
        return self.buffered_rows >= self._row_group_rows

    def add(self, batch: pa.RecordBatch) -> None:
        """Collect rows."""
        self._buffered.append(batch)
        self.rows += batch.num_rows
        self.buffered_rows += batch.num_rows
        self.buffered_bytes += batch.nbytes + _BATCH_BYTES

    def open(self) -> None:
        """Make the file, unless that is done."""
        if self._writer is None:
            self._schema = self._schema.with_metadata({**(self._schema.metadata or {}), **self._metadata})
            self._sink = self.target.open_output(self.path)
            self._writer = pq.ParquetWriter(self._sink, self._schema, **settings(self._schema, self._options))

    def flush(self) -> None:
        """Write the rows collected."""
        if not self._buffered:
            return
        self.open()
        table = pa.Table.from_batches(self._buffered, self._schema)
        self._buffered.clear()
        # A little more than a group becomes one group, not a full and a tiny one.
        rows = max(1, round(table.num_rows / self._row_group_rows))
        self._writer.write_table(table, row_group_size=-(-table.num_rows // rows))
        self.buffered_rows = self.buffered_bytes = 0

    def close(self, said_last: Mapping[str, str] | None = None) -> int:
        """Write the rest and the footer with late metadata; return the file's size in bytes.

        The file then survives a power failure.
        """
        self.flush()
        if said_last:
            self._writer.add_key_value_metadata(said_last)
        self._writer.close()
        size: int = self._sink.tell()
        self._sink.close()
        self.target.sync(self.path)
        return size

    def discard(self) -> None:
        self._buffered.clear()
        if self._writer is None:
            return
        self._writer.is_open = False  # the writer must not write when it is collected
        try:
            self._sink.close()
        finally:
            self.target.remove(self.path)


def settings(schema: pa.Schema, options: ParquetOptions) -> dict[str, Any]:
    codec = options.compression
    level = options.compression_level
    level = _DEFAULT_LEVELS.get(codec) if level is None else level
    leaves = {path: kind for field in schema for path, kind in _leaves(field.name, field.type)}
    return {
        "compression": codec,
        "compression_level": level,
        "version": "2.6",
        "coerce_timestamps": None,
        "use_dictionary": [
            path
            for path in leaves
            if path in _REPEATING or (path.startswith("headers.") and path.endswith(".key"))
        ],
        "column_encoding": {path: "DELTA_BINARY_PACKED" for path in leaves if path in _ASCENDING},
        "write_statistics": [path for path, kind in leaves.items() if _has_statistics(path, kind)],
        "write_page_index": True,
    }


def _has_statistics(path: str, kind: pa.DataType) -> bool:
    """Return whether bounds of a column help readers: offsets, times, and scalar keys and values."""
    if path in _ASCENDING:
        return True
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return path.partition(".")[0] in ("key", "value") and not is_bytes


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield path and type of every Parquet column in a field."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind


Unit = Literal["D", "h"]
Period = tuple[str, ...]
"""The date and hour of a directory, if the layout has them."""

MAX_OPEN_FILES = 16
MAX_FILES = 4096
"""Open files, and those that are made when the rows collected for them are written."""
MAX_BUFFERED_BYTES = 160 * 1024 * 1024

_HOUR_US = 3_600_000_000
_UNITS = {"D": 24 * _HOUR_US, "h": _HOUR_US}


class Place(NamedTuple):
    """Where a task's files go, and their names."""

    target: Target
    layout: Layout
    splits: tuple[Split, ...]
    stem: str
    attempt: str
    base: str = ""
    """The directory that contains those of the layout."""
    suffix: str = DATA_SUFFIX


class _Open:
    def __init__(self, part: ParquetPart, path: str) -> None:
        self.part = part
        self.path = path
        self.pieces: list[FilePart] = []
        self.timestamps: tuple[int, int] | None = None

    def add(self, split: Split, batch: pa.RecordBatch, offsets: np.ndarray, times: np.ndarray | None) -> None:
        """Add rows of a split; those of one split come one after the other."""
        is_next = not self.pieces or self.pieces[-1].partition != split.partition
        before = None if is_next else self.pieces.pop()
        self.pieces.append(
            FilePart(
                partition=split.partition,
                start=split.start,
                end=split.end,
                rows=batch.num_rows + (before.rows if before else 0),
                first_row=before.first_row if before else self.part.rows,
                first_offset=before.first_offset if before else int(offsets[0]),
                last_offset=int(offsets[-1]),
            )
        )
        if times is not None:
            low, high = int(times.min()), int(times.max())
            known = self.timestamps or (low, high)
            self.timestamps = (min(low, known[0]), max(high, known[1]))
        self.part.add(batch)


class SplitWriter:
    """Writes the rows of a task split by split, in the order of their offsets."""

    def __init__(
        self, place: Place, *, schema: pa.Schema, metadata: Mapping[str, str], parquet: ParquetOptions
    ) -> None:
        self._place = place
        self._schema = schema
        self._metadata = metadata
        self._parquet = parquet
        self._open: OrderedDict[Period, _Open] = OrderedDict()
        self._times_opened: dict[Period, int] = {}
        self._written: list[WrittenFile] = []
        self._split = place.splits[0]

    def begin(self, split: Split) -> None:
        """Take the next rows for those of this split."""
        self._split = split

    def add(self, rows: pa.RecordBatch, offsets: np.ndarray, times_us: np.ndarray | None) -> None:
        """Write rows with these offsets and timestamps, which need not be among their columns."""
        if not rows.num_rows:
            return
        for period, where in self._periods(times_us, rows.num_rows):
            some_rows, some_offsets, some_times = rows, offsets, times_us
            if where is not None:
                # Copies: otherwise a few rows of a rare date would keep all others in memory.
                some_rows, some_offsets = rows.take(pa.array(where)), offsets[where]
                some_times = None if times_us is None else times_us[where]
            file = self._file(period)
            file.add(self._split, some_rows, some_offsets, some_times)
            if file.part.has_group:
                self._flush(file.part)
        while sum(file.part.buffered_bytes for file in self._open.values()) > MAX_BUFFERED_BYTES:
            self._flush(max((file.part for file in self._open.values()), key=attrgetter("buffered_bytes")))

    def finish(self) -> tuple[WrittenFile, ...]:
        """Close every file and return all, under their temporary names.

        The last one stores how many there are: without it an attempt is incomplete.
        """
        while len(self._open) > 1:
            self._close(next(iter(self._open)))
        if self._open:
            self._close(next(iter(self._open)), is_last=True)
        return tuple(self._written)

    def discard(self) -> None:
        while self._open:
            self._open.popitem()[1].part.discard()
        for file in self._written:
            self._place.target.remove(file.temporary or file.path)
        self._written.clear()

    def _periods(self, times_us: np.ndarray | None, count: int) -> Iterator[tuple[Period, np.ndarray | None]]:
        """Yield each date or hour and its rows; None means all rows."""
        layout = self._place.layout
        if not layout.by_date or times_us is None:
            yield (), None
            return
        unit: Unit = "h" if layout.by_hour else "D"
        numbers: np.ndarray = times_us // _UNITS[unit]
        low, high = numbers.min(), numbers.max()
        if low == high:
            yield period_of(int(low), unit), None
            return
        for number in np.unique(numbers):
            yield period_of(int(number), unit), np.flatnonzero(numbers == number)

    def _file(self, period: Period) -> _Open:
        file = self._open.get(period)
        if file is not None:
            self._open.move_to_end(period)
            return file
        if len(self._open) >= MAX_FILES:
            self._close(next(iter(self._open)))
        nth = self._times_opened.get(period, 0)
        place = self._place
        directory = "/".join(filter(None, (place.base, place.layout.directory(self._split, period))))
        suffix = f"-{nth}" if nth else ""
        if not place.target.renames:
            suffix += f"-{place.attempt}"
        name = f"{place.stem}{suffix}{place.suffix}"
        path = f"{directory}/{name}" if directory else name
        written_to = temporary_name(path, place.attempt) if place.target.renames else path
        part = ParquetPart(
            place.target, written_to, schema=self._schema, metadata=self._metadata, options=self._parquet
        )
        if not self._times_opened:
            part.open()
        self._times_opened[period] = nth + 1
        self._open[period] = file = _Open(part, path)
        return file

    def _flush(self, part: ParquetPart) -> None:
        """Write the rows collected for a file, which is open then."""
        if not part.is_open:
            others = [period for period, file in self._open.items() if file.part.is_open]
            if len(others) >= MAX_OPEN_FILES:
                self._close(others[0])
        part.flush()

    def _close(self, period: Period, *, is_last: bool = False) -> None:
        file = self._open[period]
        splits = self._place.splits
        said_last = {FILES: str(len(self._written) + 1)} if is_last else {}
        if len(splits) > 1:
            said_last[PARTS] = json.dumps([one.to_json() for one in file.pieces], separators=(",", ":"))
        size = file.part.close(said_last)
        target = self._place.target
        crc32c = checksum(target, file.part.path) if target.renames else None
        del self._open[period]
        first_time, last_time = file.timestamps or (None, None)
        self._written.append(
            WrittenFile(
                path=file.path,
                temporary=file.part.path if file.part.path != file.path else None,
                topic=splits[0].topic,
                partition=splits[0].partition if len(splits) == 1 else SEVERAL,
                start=min(one.start for one in splits),
                end=max(one.end for one in splits),
                rows=file.part.rows,
                size_bytes=size,
                first_offset=min(_known(one.first_offset for one in file.pieces), default=None),
                last_offset=max(_known(one.last_offset for one in file.pieces), default=None),
                first_timestamp_us=first_time,
                last_timestamp_us=last_time,
                crc32c=crc32c,
                parts=tuple(file.pieces) if len(splits) > 1 else (),
            )
        )


def _known(offsets: Iterable[int | None]) -> list[int]:
    return [one for one in offsets if one is not None]


def period_of(number: int, unit: Unit) -> Period:
    """Return the date, and with the unit `h` the hour, of a number of units since 1970."""
    text = str(np.array([number]).astype(f"datetime64[{unit}]")[0])
    date, _, hour = text.partition("T")
    return (date, hour) if unit == "h" else (date,)
