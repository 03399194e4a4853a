"""Damage: what is wrong in a log file: where, which check, which bytes, and what follows.

A scan of a segment (`batch_scan`) accounts for every byte: each belongs to one entry that it yields, or to
the `skipped_bytes` of one damage. The checks of the records inside (`record_checks`) use the same words.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class DamageKind(Enum):
    """Which check failed. `meaning` is one sentence for people: what the bytes are, not what to do."""

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
    BAD_CRC = "bad_crc", "the bytes of a batch are not those its checksum was made of"
    BAD_ATTRIBUTES = "bad_attributes", "the attributes of a batch name no codec, or say what no broker writes"
    BAD_COUNT = "bad_count", "a batch does not hold as many records as its header says"
    BAD_OFFSET = (
        "bad_offset",
        "the offset of a batch lies outside its segment, or does not fit its neighbours",
    )
    BAD_OFFSET_DELTA = (
        "bad_offset_delta",
        "the offsets inside a batch do not increase, or pass its last offset",
    )
    OFFSET_GOING_BACK = (
        "offset_going_back",
        "a batch begins at or below the last offset of the batch before it",
    )
    ZEROS = "zeros", "zeros stand where a batch should begin, and more follows"
    ZERO_TAIL = "zero_tail", "the file ends with zeros: space reserved for records to come"
    GARBAGE = "garbage", "bytes that are no batch stand between batches"
    GARBAGE_TAIL = "garbage_tail", "the file ends with bytes that are no batch"
    UNDECODABLE_RECORDS = "undecodable_records", "the records of a batch cannot be decompressed"
    BAD_RECORD = "bad_record", "a record contradicts the format"
    BAD_RECORD_CRC = "bad_record_crc", "a record inside a compressed set does not match its own checksum"
    BAD_TIMESTAMP = "bad_timestamp", "the largest timestamp of a batch is not that of its records"
    UNCHECKED_RECORDS = (
        "unchecked_records",
        "the records of a batch take more memory to check than there is to be used",
    )
    BAD_PRODUCER = "bad_producer", "a batch cannot come from its producer after what that wrote before"

    @property
    def is_harmless(self) -> bool:
        """Whether nothing is lost: space reserved for records, or records too large to be checked."""
        return self in (DamageKind.ZERO_TAIL, DamageKind.UNCHECKED_RECORDS)


TRUNCATIONS = (DamageKind.TRUNCATED_HEADER, DamageKind.TRUNCATED_BATCH)


_MOST_BYTES_SHOWN = 16


class FieldBytes(NamedTuple):
    """The bytes in the file that a check looked at: the field's name, where it stands, what it holds."""

    name: str
    position: int
    raw: bytes

    def __str__(self) -> str:
        shown = self.raw[:_MOST_BYTES_SHOWN].hex(" ") + (" …" if len(self.raw) > _MOST_BYTES_SHOWN else "")
        return f"the {self.name} at byte {self.position}: {shown}"


class Damage(NamedTuple):
    """One thing that is wrong, from the byte at `position` on.

    `size_bytes` are affected; `skipped_bytes` of them belong to no entry that a scan yields. Without those
    the damage is that of the entry at `position`, which came just before. `offset` is that of the entry, as
    far as its header tells. `next_position` is where the next valid entry begins, None if none does.
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
        """Whether nothing is lost by it."""
        return self.kind.is_harmless

    @property
    def what_follows(self) -> str:
        """What comes behind the damage, for people."""
        if self.kind is DamageKind.ZERO_TAIL:
            return "nothing follows"
        if self.next_position is None:
            return "no valid batch follows"
        if self.skipped_bytes:
            between = self.next_position - self.position
            return f"{between} bytes on, the next valid batch begins at position {self.next_position}"
        return f"the file goes on with the batch at position {self.next_position}"

    def lines(self, path: str) -> Iterator[str]:
        """Yield the lines that explain it."""
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
        """Return the fields as JSON has them."""
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
