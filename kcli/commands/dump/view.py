"""DumpView: what the forms of a dump have in common. A dump tells a view what it reads, in file order.

DumpOutput: standard output in large pieces.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kcli.commands.shared.output import OutputFormat
    from kcli.forensics.contents.log_files import DumpFile
    from kcli.forensics.entries.batch_run import BatchRun
    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import Batch, DumpedRecord, ScannedEntry
    from kcli.forensics.ranges.worker_pool import Piece
    from kcli.protocol.corruption import Buffer


UNKNOWN_OFFSET = -2
"""Of the record before those that a process begins with."""


class OptionalLong(NamedTuple):
    """A number that may be missing, which is written as a negative one; the text is Java's."""

    number: int

    def __str__(self) -> str:
        return "OptionalLong.empty" if self.number < 0 else f"OptionalLong[{self.number}]"

    @property
    def value(self) -> int | None:
        """The number, None if it is missing."""
        return None if self.number < 0 else self.number


class Row(NamedTuple):
    """An entry of an index, a snapshot or a checkpoint: its kind, and its fields as Kafka's tool has them."""

    type: str
    fields: dict[str, object]


class DumpView(Protocol):
    """Shows a dump. Batches are good until the next call only."""

    def file_begins(self, file: DumpFile) -> None:
        """A file was chosen; what follows is about it."""
        ...

    def log_begins(self, file: DumpFile) -> None:
        """It is a log or a metadata snapshot, and is there."""
        ...

    def batches(self, run: BatchRun) -> None:
        """Sound batches, of which no records are wanted."""
        ...

    def batch(self, entry: ScannedEntry) -> None:
        """A batch, without its records."""
        ...

    def records(self, batch: Batch) -> None:
        """All records of that batch. Raises `CorruptRecord`, possibly after some of them."""
        ...

    def some_records(self, batch: Batch, records: Iterable[DumpedRecord]) -> None:
        """Those records of that batch that are wanted."""
        ...

    def row(self, row: Row) -> None:
        """An entry of any other file."""
        ...

    def remark(self, type: str, text: str) -> None:
        """Something about the file as a whole; `type` is for programs."""
        ...

    def damage(self, damage: Damage) -> None:
        """Something is wrong in a log."""
        ...

    def problem(self, type: str, fields: dict[str, object]) -> None:
        """Something is wrong in an index, or worth knowing about a log; `DumpErrors` keeps it too."""
        ...

    def trailing(self, size_bytes: int) -> None:
        """The last bytes of a log are no whole batch."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...


class Layout(NamedTuple):
    """The columns of a table, if it is one: their names, how wide they are, which have numbers."""

    names: Sequence[str] = ()
    widths: Sequence[int] = ()
    numbers: Sequence[bool] = ()


class Range(NamedTuple):
    """The batches of the file with that number that begin in a stretch of it."""

    file: int
    start: int
    end: int
    layout: Layout | None = None
    """Of a table."""


class FirstRecord(NamedTuple):
    """The offset of the first record that is shown; what is shown before it came before."""

    offset: int


class RangedView(DumpView, Protocol):
    """A view whose parts several processes may make: each has one, and the parent prints what comes of it."""

    form: OutputFormat

    @property
    def last_record_offset(self) -> int:
        """The offset of the record that came last; -1 if none did."""
        ...

    def resume(self, file: DumpFile, last_record_offset: int) -> None:
        """Go on in the middle of a file, behind that record."""
        ...

    def begin_ranges(self, file: DumpFile) -> Layout | None:
        """Print what comes before the first record; tell how parts must look, None if that is not known."""
        ...

    def begin_range(self, file: DumpFile, layout: Layout, on_first: Callable[[int], None]) -> None:
        """Make a part; `on_first` is told the offset of its first record before that is shown."""
        ...

    def follow(self, offset: int) -> None:
        """The next part begins with the record of that offset."""
        ...

    def gaps(self, pairs: Iterable[tuple[int, int]]) -> None:
        """In the part that came last, offsets did not follow on each other."""
        ...

    def print(self, piece: Piece) -> None:
        """Print what another process has made."""
        ...

    def flush(self) -> None:
        """Write out what was collected."""
        ...


FLUSH_BYTES = 64 * 1024


class OutputLost(Exception):
    """Standard output takes no more: `error` says why. Not an `OSError`, which tells of the files read."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class DumpOutput:
    """Collects what is printed and writes it out when it has become much, or when `flush` says so."""

    __slots__ = ("_parts", "_size", "_stream")

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = sys.stdout.buffer if stream is None else stream
        self._parts: list[Buffer] = []
        self._size = 0

    def line(self, text: str) -> None:
        """Print a line; parts of a path that are no text come out as the bytes they were."""
        self.write(f"{text}\n".encode(errors="surrogateescape"))

    def write(self, data: Buffer) -> None:
        """Print bytes."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= FLUSH_BYTES:
            self.flush()

    def forward(self, piece: Piece) -> None:
        """Print what stands in a pipe, uncopied where the system can do that. Raises `OutputLost`."""
        self.flush()
        left = piece.length
        try:
            while left and (moved := os.splice(piece.descriptor, self._stream.fileno(), left)):
                left -= moved
        except (AttributeError, OSError):
            pass  # what cannot be spliced is copied, and fails there if it must
        if left:
            self.write(piece._replace(length=left).read())

    def flush(self) -> None:
        """Write out what was collected. Raises `OutputLost`."""
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            raise OutputLost(error) from error
