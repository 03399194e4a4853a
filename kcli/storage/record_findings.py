"""RecordFindings: what a check of the records of one entry has found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.storage.damage import Damage, DamageKind, FieldBytes

if TYPE_CHECKING:
    from kcli.storage.scanned_entry import ScannedEntry

MAX_FINDINGS = 16
_MAX_RAW_BYTES = 16


class RecordFindings:
    """The damages inside `entry`, up to `MAX_FINDINGS`."""

    __slots__ = ("_entry", "damages")

    def __init__(self, entry: ScannedEntry) -> None:
        self._entry = entry
        self.damages: list[Damage] = []

    @property
    def are_enough(self) -> bool:
        """Whether no more are taken."""
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
        """Take a finding; `field` is a name, the number of its first byte in the entry, and its size."""
        if self.are_enough:
            return
        entry = self._entry
        field_bytes = None
        if field is not None:
            name, at, size = field
            raw = entry.read(at, min(size, _MAX_RAW_BYTES))
            field_bytes = FieldBytes(name, entry.position + at, raw)
        self.damages.append(
            Damage(
                kind=kind,
                position=entry.position,
                size_bytes=entry.size,
                offset=entry.first_offset if offset is None else offset,
                field=field_bytes,
                expected=expected,
                found=found,
                next_position=entry.end,
                message=message,
            )
        )

    def compare_timestamp(self, largest: int, claimed: int) -> None:
        """Compare the largest timestamp of the records with that of the header."""
        if largest != claimed:
            at = 35 if self._entry.magic == 2 else 18
            self.add(
                DamageKind.BAD_TIMESTAMP,
                f"the largest timestamp of the records is {largest}, the header says {claimed}",
                field=("max timestamp", at, 8),
                expected=largest,
                found=claimed,
            )
