"""ScannedEntry: an entry of any format that a scan of a log file has found; DumpedRecord: a record in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import MAGIC_POSITION
from kcli.protocol.records.message_set import LegacyEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.segment_file import SegmentFile
    from kcli.protocol.records.control_records import ControlRecordType

Batch: TypeAlias = RecordBatch | LegacyEntry


class ScannedEntry:
    """An entry of any format at `position` of the file, `size` bytes long.

    `batch` is a view of the scan's buffer; it and all it returns uncopied are valid until the next step.
    `is_valid` says whether the checksum matches. `damages` are the faults of header and checksum; the scan
    yields each of them in its next steps, too. `is_whole` is False for an entry too large to be kept: then
    `batch` has only its header, and `load` or `read` fetch the rest.
    """

    __slots__ = ("_file", "batch", "damages", "is_valid", "is_whole", "position", "size")

    def __init__(
        self,
        position: int,
        size: int,
        batch: Batch,
        is_valid: bool,
        damages: tuple[Damage, ...],
        file: SegmentFile,
        is_whole: bool = True,
    ) -> None:
        self.position = position
        self.size = size
        self.batch = batch
        self.is_valid = is_valid
        self.damages = damages
        self.is_whole = is_whole
        self._file = file

    def __repr__(self) -> str:
        return f"ScannedEntry(position={self.position}, batch={self.batch!r}, is_valid={self.is_valid})"

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def magic(self) -> int:
        return self.batch.magic

    @property
    def first_offset(self) -> int:
        """The base offset of a batch, the last offset of an older entry."""
        batch = self.batch
        return batch.base_offset if isinstance(batch, RecordBatch) else batch.offset

    @property
    def last_offset(self) -> int:
        return self.batch.last_offset

    def marker_type(self) -> ControlRecordType | None:
        """Return the type of a control batch, None if that cannot be read. Raises `OSError`."""
        from kcli.protocol.records.control_records import parse_control_key

        try:
            for record in self.load().records():
                return parse_control_key(record.key)
        except CorruptRecord:
            return None
        return None

    def load(self) -> Batch:
        """Return the batch with all its bytes, however many. Raises `CorruptRecord` and `OSError`."""
        return self.batch if self.is_whole else view_of(self._file.read(self.position, self.size, self.end))

    def read(self, start: int, count: int) -> bytes:
        """Return up to `count` bytes of the entry from the one numbered `start` on. Raises `OSError`."""
        count = max(min(count, self.size - start), 0)
        if self.is_whole:
            at = self.batch.position + start
            return bytes(self.batch.buffer[at : at + count])
        return self._file.read(self.position + start, count, self.end)


def view_of(buffer: bytes | bytearray) -> Batch:
    """Return a view of the entry of any format at the start of a buffer. Raises `CorruptRecord`."""
    return RecordBatch(buffer, 0) if buffer[MAGIC_POSITION] == 2 else LegacyEntry(buffer, 0)


class DumpedRecord(NamedTuple):
    """A record. In the older formats it is an entry with a checksum of its own: `stored`."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    sequence: int
    stored: LegacyEntry | None = None

    @property
    def key_size(self) -> int:
        return -1 if self.key is None else len(self.key)

    @property
    def value_size(self) -> int:
        return -1 if self.value is None else len(self.value)


def records_of(batch: Batch) -> Iterator[DumpedRecord]:
    """Yield the records of an entry. Raises `CorruptRecord`, possibly after some records."""
    if not isinstance(batch, LegacyEntry):
        for each in batch.records():
            yield DumpedRecord(each.offset, each.timestamp, each.key, each.value, each.headers, each.sequence)
        return
    entries = batch.inner_entries() if batch.is_compressed else [batch]
    for each, entry in zip(batch.records(), entries, strict=True):
        yield DumpedRecord(each.offset, each.timestamp, each.key, each.value, (), each.sequence, entry)
