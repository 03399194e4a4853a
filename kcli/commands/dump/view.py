"""DumpView, to which a dump shows what it reads; DumpOutput, standard output in large pieces."""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kcli.commands.shared.output import OutputFormat
    from kcli.forensics.contents.log_files import DumpFile
    from kcli.forensics.entries.batch_run import BatchRun
    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import Batch, DumpedRecord, ScannedEntry
    from kcli.forensics.ranges.worker_pool import Piece
    from kcli.protocol.corruption import Buffer

    Escape = Callable[[str], str]


UNKNOWN_OFFSET = -2
"""The offset of the record before a range, which the process that dumps the range does not know."""


class OptionalLong(NamedTuple):
    """A number that may be missing, which is stored as a negative one; its text is Java's."""

    number: int

    def __str__(self) -> str:
        return "OptionalLong.empty" if self.number < 0 else f"OptionalLong[{self.number}]"

    @property
    def value(self) -> int | None:
        return None if self.number < 0 else self.number


class Row(NamedTuple):
    """An entry of an index, a snapshot or a checkpoint: its kind, and its fields by Kafka's names."""

    type: str
    fields: dict[str, object]


class DumpView:
    """One form of a dump, called in the order of the files. A batch is valid until the next call."""

    def file_begins(self, file: DumpFile) -> None:
        """Begin a file; the calls that follow are about it."""
        raise NotImplementedError

    def log_begins(self, file: DumpFile) -> None:
        """Begin a log or a metadata snapshot, which exists and can be read."""

    def batches(self, run: BatchRun) -> None:
        """Show sound batches without their records."""
        for entry in run.entries():
            self.batch(entry)

    def batch(self, entry: ScannedEntry) -> None:
        """Show a batch without its records."""
        raise NotImplementedError

    def records(self, batch: Batch) -> None:
        """Show all records of a batch. Raises `CorruptRecord`, possibly after some of them."""
        raise NotImplementedError

    def some_records(self, batch: Batch, records: Iterable[DumpedRecord]) -> None:
        """Show those records of a batch that passed the filter."""
        raise NotImplementedError

    def row(self, row: Row) -> None:
        """Show an entry of any other file."""
        raise NotImplementedError

    def remark(self, type: str, text: str) -> None:
        """Show a fact about the file as a whole; `type` is for programs, `text` for people."""

    def damage(self, damage: Damage) -> None:
        """Show damage in a log."""
        raise NotImplementedError

    def problem(self, type: str, fields: dict[str, object]) -> None:
        """Show an entry of an index that does not fit its log; `DumpErrors` lists it at the end, too."""

    def trailing(self, size_bytes: int) -> None:
        """Show that the last bytes of a log are not a whole batch; a `damage` follows."""

    def close(self) -> None:
        """Show what was kept back, and write everything out."""
        raise NotImplementedError


class Layout(NamedTuple):
    """The columns of a table: names, widths, and which hold numbers. Other forms have none.

    `is_blocks`: the columns do not fit on the terminal, so each row is a block of lines.
    """

    names: Sequence[str] = ()
    widths: Sequence[int] = ()
    numbers: Sequence[bool] = ()
    is_blocks: bool = False


class Range(NamedTuple):
    """The batches that begin in a stretch of the file with that number, and the layout if it is a table."""

    file: int
    start: int
    end: int
    layout: Layout | None = None


class FirstRecord(NamedTuple):
    """The offset of the first record in a range; the output before it shows no record."""

    offset: int


class RangedView(DumpView):
    """A view whose output can be made by several processes, range by range, and is printed by the parent."""

    form: ClassVar[OutputFormat]

    def __init__(self, output: DumpOutput) -> None:
        self._output = output
        self._file: DumpFile
        self._on_first: Callable[[int], None] | None = None

    @property
    def last_record_offset(self) -> int:
        """The offset of the last record shown; -1 before the first, and in forms that show no gaps."""
        return -1

    def resume(self, file: DumpFile, last_record_offset: int) -> None:
        """Go on in the middle of a file, behind that record."""
        self._file = file

    def begin_ranges(self, file: DumpFile) -> Layout | None:
        """Show what comes before the first record; return how ranges must look, None if that is unknown."""
        return Layout()

    def begin_range(self, file: DumpFile, layout: Layout, on_first: Callable[[int], None]) -> None:
        """Begin a range; `on_first` is called with the offset of its first record, before that is shown."""
        self.resume(file, UNKNOWN_OFFSET)
        self._on_first = on_first

    def follow(self, offset: int) -> None:
        """Note that the next range begins with the record of that offset."""

    def gaps(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Note pairs of offsets of the last range that do not follow each other."""

    def print(self, piece: Piece) -> None:
        self._output.forward(piece)

    def flush(self) -> None:
        self._output.flush()


FLUSH_BYTES = 64 * 1024


class OutputLost(Exception):
    """Standard output takes no more, because of `error`. Not an `OSError`: those are about the files read."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def terminal_escape(form: OutputFormat, *, is_raw: bool) -> Escape | None:
    """Return how text is escaped for standard output: not at all unless that is a terminal."""
    if is_raw or not sys.stdout.isatty():
        return None
    from kcli.escapes import escaped, escaped_json

    return escaped_json if form == "json" else partial(escaped, keep="\n\t")


class DumpOutput:
    """Collects output, and writes it out when there are `FLUSH_BYTES` of it or `flush` is called."""

    __slots__ = ("_decode", "_escape", "_parts", "_size", "_stream")

    def __init__(self, stream: BinaryIO | None = None, *, escape: Escape | None = None) -> None:
        """`escape` changes the text before it is written."""
        self._stream = sys.stdout.buffer if stream is None else stream
        self._escape = escape
        self._decode = None if escape is None else getincrementaldecoder("utf-8")("surrogateescape").decode
        self._parts: list[Buffer] = []
        self._size = 0

    def line(self, text: str) -> None:
        """Print a line; parts of a path that are not text are printed as their bytes."""
        self.write(f"{text}\n".encode(errors="surrogateescape"))

    def write(self, data: Buffer) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= FLUSH_BYTES:
            self.flush()

    def forward(self, piece: Piece) -> None:
        """Print bytes from a pipe, without copying them where the system can. Raises `OutputLost`."""
        if self._escape is not None:
            self.write(piece.read())
            return
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
        if self._escape is not None and self._decode is not None:
            data = self._escape(self._decode(data)).encode()
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            raise OutputLost(error) from error
