"""RecordFindings: the damages inside one entry; RecordPieces: its records, checked as their bytes arrive.

`record_checks` has the formats: StoredRecords for batches, LegacyRecords for older entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.forensics.entries.damage import Damage, DamageKind, FieldBytes
from kcli.protocol.corruption import CorruptRecord, TooMuchData

if TYPE_CHECKING:
    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.protocol.corruption import Buffer


MAX_FINDINGS = 16
_MAX_RAW_BYTES = 16


class RecordFindings:
    """The first `MAX_FINDINGS` damages inside `entry`."""

    __slots__ = ("_entry", "damages")

    def __init__(self, entry: ScannedEntry) -> None:
        self._entry = entry
        self.damages: list[Damage] = []

    @property
    def are_enough(self) -> bool:
        return len(self.damages) >= MAX_FINDINGS

    def add(
        self,
        kind: DamageKind,
        message: str,
        *,
        offset: int | None = None,
        field: tuple[str, int, int] | None = None,
        expected: int | str | None = None,
        found: int | str | None = None,
    ) -> None:
        """Add a damage; `field` is a name, the position of its first byte in the entry, and its size."""
        if self.are_enough:
            return
        entry = self._entry
        field_bytes = None
        if field is not None:
            name, at, size = field
            raw = entry.read(at, min(size, _MAX_RAW_BYTES))
            field_bytes = FieldBytes(name, entry.position + at, raw)
        offset = entry.first_offset if offset is None else offset
        damage = Damage(kind, entry.position, entry.size, message, offset=offset, field=field_bytes)
        self.damages.append(damage._replace(expected=expected, found=found, next_position=entry.end))

    def compare_timestamp(self, largest: int, claimed: int) -> None:
        """Add a damage if the largest timestamp of the records is not that of the header."""
        if largest != claimed:
            field = ("max timestamp", 35 if self._entry.magic == 2 else 18, 8)
            message = f"the largest timestamp of the records is {largest}, the header says {claimed}"
            self.add(DamageKind.BAD_TIMESTAMP, message, field=field, expected=largest, found=claimed)


class Extent(NamedTuple):
    """Where a record begins, behind its length, and where it ends."""

    start: int
    end: int


class RecordFormat(Protocol):
    """The records of one entry, in one of the formats."""

    def extent(self, data: bytes, at: int) -> Extent | None:
        """Return where a record is, None if more bytes are needed. Raises `CorruptRecord`."""
        ...

    def check(self, data: bytes, at: int, extent: Extent, place: int) -> None:
        """Check the record at `at` of `data`, which is byte `place` of the records."""
        ...

    def lose(self, why: str, place: int) -> None:
        """Report that no record can be recognized from byte `place` on."""
        ...

    def finish(self) -> int | None:
        """Finish the checks after the last record; return the largest timestamp, None if it is unknown."""
        ...


class RecordPieces:
    """Checks the records of an entry: `feed` it their bytes, then `finish`."""

    __slots__ = ("_findings", "_held", "_is_lost", "_records", "_taken")

    def __init__(self, records: RecordFormat, findings: RecordFindings) -> None:
        self._records = records
        self._findings = findings
        # The bytes fed and not yet checked; `_taken` bytes before them were.
        self._held = b""
        self._taken = 0
        self._is_lost = False

    def feed(self, piece: Buffer, max_bytes: int) -> None:
        """Check the records that are complete now. Raises `TooMuchData` for one above `max_bytes`."""
        if self._is_over:
            return
        data = self._held + bytes(piece) if self._held else bytes(piece)
        at = 0
        while (extent := self._extent(data, at)) is not None:
            if extent.end - extent.start > max_bytes:
                raise TooMuchData(f"a record of {extent.end - extent.start} bytes")
            if extent.end > len(data):
                break
            self._records.check(data, at, extent, self._taken + at)
            at = extent.end
        self._held = data[at:]
        self._taken += at

    def finish(self) -> int | None:
        """Return what the format's `finish` does, None if there were damages."""
        if self._held and not self._is_over:
            self._lose(f"{len(self._held)} bytes are left of it", self._taken)
        largest = None if self._is_over else self._records.finish()
        return None if self._findings.damages else largest

    @property
    def _is_over(self) -> bool:
        return self._is_lost or self._findings.are_enough

    def _extent(self, data: bytes, at: int) -> Extent | None:
        try:
            return self._records.extent(data, at)
        except CorruptRecord as error:
            self._lose(error.message, self._taken + at)
            return None

    def _lose(self, why: str, place: int) -> None:
        self._is_lost = True
        self._records.lose(why, place)
