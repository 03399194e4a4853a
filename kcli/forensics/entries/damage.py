"""Damage: one fault in a log file: where it is, which check failed, on which bytes, and what follows.

A scan of a segment (`segment_scan`) accounts for every byte: it belongs to one entry that the scan yields, or
to the `skipped_bytes` of one damage. The checks of the records (`record_checks`) report `Damage` too.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class DamageKind(Enum):
    """Which check failed. `meaning` describes the bytes in one sentence for people."""

    _value_: str
    meaning: str

    def __new__(cls, value: str, meaning: str) -> DamageKind:
        kind = object.__new__(cls)
        kind._value_ = value
        kind.meaning = meaning
        return kind

    TRUNCATED_HEADER = "truncated_header", "the file ends inside the header of its last batch"
    TRUNCATED_BATCH = "truncated_batch", "the end of a batch is missing"
    BAD_SIZE = "bad_size", "the size in the header of a batch is not the size of the batch"
    BAD_MAGIC = "bad_magic", "the format number of a batch is not 0, 1 or 2, or not that of its bytes"
    BAD_CRC = "bad_crc", "the checksum of a batch does not match its bytes"
    BAD_ATTRIBUTES = (
        "bad_attributes",
        "the attributes of a batch name an unknown codec, or have bits that no broker sets",
    )
    BAD_COUNT = "bad_count", "the number of records in a batch is not the one in its header"
    BAD_OFFSET = "bad_offset", "the offset of a batch is outside its segment, or does not fit its neighbours"
    BAD_OFFSET_DELTA = (
        "bad_offset_delta",
        "the offsets inside a batch do not increase, or exceed its last offset",
    )
    OFFSET_GOING_BACK = (
        "offset_going_back",
        "a batch begins at or below the last offset of the batch before it",
    )
    ZEROS = "zeros", "there are zeros where a batch should begin, and data behind them"
    ZERO_TAIL = "zero_tail", "the file ends with zeros: space reserved for later records"
    GARBAGE = "garbage", "there are bytes between two batches that belong to no batch"
    GARBAGE_TAIL = "garbage_tail", "the file ends with bytes that belong to no batch"
    UNDECODABLE_RECORDS = "undecodable_records", "the records of a batch cannot be decompressed"
    BAD_RECORD = "bad_record", "a record contradicts the format"
    BAD_RECORD_CRC = "bad_record_crc", "a record inside a compressed set does not match its own checksum"
    BAD_TIMESTAMP = "bad_timestamp", "the largest timestamp of a batch is not that of its records"
    UNCHECKED_RECORDS = (
        "unchecked_records",
        "the records of a batch need more memory to check than is allowed",
    )
    BAD_PRODUCER = "bad_producer", "a batch cannot follow what its producer wrote before"

    @property
    def is_harmless(self) -> bool:
        """Whether no record is lost: reserved space, or records too large to check."""
        return self in (DamageKind.ZERO_TAIL, DamageKind.UNCHECKED_RECORDS)


TRUNCATIONS = (DamageKind.TRUNCATED_HEADER, DamageKind.TRUNCATED_BATCH)


_MOST_BYTES_SHOWN = 16


class FieldBytes(NamedTuple):
    """A field that a check looked at: its name, its position in the file, its bytes."""

    name: str
    position: int
    raw: bytes

    def __str__(self) -> str:
        shown = self.raw[:_MOST_BYTES_SHOWN].hex(" ") + (" …" if len(self.raw) > _MOST_BYTES_SHOWN else "")
        return f"the {self.name} at byte {self.position}: {shown}"


class Damage(NamedTuple):
    """One fault, from the byte at `position` on.

    `size_bytes` are affected; `skipped_bytes` of them belong to no entry that a scan yields. If there are
    none, the damage is about the entry at `position`, which the scan yielded just before. `offset` is what
    the header of the entry says. `next_position` is where the next valid entry begins, None without one.
    """

    kind: DamageKind
    position: int
    size_bytes: int
    message: str
    skipped_bytes: int = 0
    offset: int | None = None
    field: FieldBytes | None = None
    expected: int | str | None = None
    found: int | str | None = None
    next_position: int | None = None

    @property
    def is_harmless(self) -> bool:
        return self.kind.is_harmless

    @property
    def what_follows(self) -> str:
        """What the file holds behind the damage, for people."""
        if self.kind is DamageKind.ZERO_TAIL:
            return "nothing follows"
        if self.next_position is None:
            return "no valid batch follows"
        if self.skipped_bytes:
            between = self.next_position - self.position
            return f"{between} bytes on, the next valid batch begins at position {self.next_position}"
        return f"the file goes on with the batch at position {self.next_position}"

    def lines(self, path: str) -> Iterator[str]:
        where = f"`{path}`, byte {self.position}"
        if self.offset is not None:
            where += f", offset {self.offset}"
        yield f"{'note' if self.is_harmless else 'damage'}: {where}: {self.message}"
        yield f"  {self.kind.value}: {self.kind.meaning}"
        if self.expected is not None:
            looked_at = "" if self.field is None else f" ({self.field})"
            yield f"  expected {self.expected}, found {self.found}{looked_at}"
        if self.skipped_bytes:
            yield f"  {self.skipped_bytes} bytes belong to no batch; {self.what_follows}"
        else:
            yield f"  {self.size_bytes} bytes are affected; {self.what_follows}"

    def document(self) -> dict[str, object]:
        field = self.field
        return {
            "kind": self.kind.value,
            "position": self.position,
            "offset": self.offset,
            "size_bytes": self.size_bytes,
            "skipped_bytes": self.skipped_bytes,
            "is_harmless": self.is_harmless,
            "message": self.message,
            "meaning": self.kind.meaning,
            "expected": self.expected,
            "found": self.found,
            "field": None
            if field is None
            else {"name": field.name, "position": field.position, "bytes": field.raw.hex()},
            "next_position": self.next_position,
        }
