"""Damage: what is wrong in a log file: where, which check, which bytes, and what follows.

A scan of a segment (`batch_scan`) accounts for every byte: each belongs to one entry that it yields, or to
the `skipped_bytes` of one damage. The checks of the records inside (`record_checks`) use the same words.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class DamageKind(Enum):
    """Which check failed. The texts of `meaning` are for people."""

    TRUNCATED_HEADER = "truncated_header"
    TRUNCATED_BATCH = "truncated_batch"
    BAD_SIZE = "bad_size"
    BAD_MAGIC = "bad_magic"
    BAD_CRC = "bad_crc"
    BAD_ATTRIBUTES = "bad_attributes"
    BAD_COUNT = "bad_count"
    BAD_OFFSET = "bad_offset"
    BAD_OFFSET_DELTA = "bad_offset_delta"
    OFFSET_GOING_BACK = "offset_going_back"
    ZEROS = "zeros"
    ZERO_TAIL = "zero_tail"
    GARBAGE = "garbage"
    GARBAGE_TAIL = "garbage_tail"
    UNDECODABLE_RECORDS = "undecodable_records"
    BAD_RECORD = "bad_record"
    BAD_RECORD_CRC = "bad_record_crc"
    BAD_TIMESTAMP = "bad_timestamp"
    BAD_PRODUCER = "bad_producer"
    UNCHECKED_RECORDS = "unchecked_records"

    @property
    def meaning(self) -> str:
        """One sentence for people: what the bytes are, not what to do."""
        return _MEANINGS[self]

    @property
    def is_harmless(self) -> bool:
        """Whether nothing is lost: space reserved for records, or records too large to be checked."""
        return self in (DamageKind.ZERO_TAIL, DamageKind.UNCHECKED_RECORDS)


_MEANINGS = {
    DamageKind.TRUNCATED_HEADER: "the file ends inside the header of its last batch",
    DamageKind.TRUNCATED_BATCH: "the end of a batch is missing",
    DamageKind.BAD_SIZE: "the size in the header of a batch is not the size of the batch",
    DamageKind.BAD_MAGIC: "the format number of a batch is not 0, 1 or 2, or not that of its bytes",
    DamageKind.BAD_CRC: "the bytes of a batch are not those its checksum was made of",
    DamageKind.BAD_ATTRIBUTES: "the attributes of a batch name no codec, or say what no broker writes",
    DamageKind.BAD_COUNT: "a batch does not hold as many records as its header says",
    DamageKind.BAD_OFFSET: "the offset of a batch lies outside its segment, or does not fit its neighbours",
    DamageKind.BAD_OFFSET_DELTA: "the offsets inside a batch do not increase, or pass its last offset",
    DamageKind.OFFSET_GOING_BACK: "a batch begins at or below the last offset of the batch before it",
    DamageKind.ZEROS: "zeros stand where a batch should begin, and more follows",
    DamageKind.ZERO_TAIL: "the file ends with zeros: space reserved for records to come",
    DamageKind.GARBAGE: "bytes that are no batch stand between batches",
    DamageKind.GARBAGE_TAIL: "the file ends with bytes that are no batch",
    DamageKind.UNDECODABLE_RECORDS: "the records of a batch cannot be decompressed",
    DamageKind.BAD_RECORD: "a record contradicts the format",
    DamageKind.BAD_RECORD_CRC: "a record inside a compressed set does not match its own checksum",
    DamageKind.BAD_TIMESTAMP: "the largest timestamp of a batch is not that of its records",
    DamageKind.BAD_PRODUCER: "a batch cannot come from its producer after what that wrote before",
    DamageKind.UNCHECKED_RECORDS: "the records of a batch take more memory to check than there is to be used",
}


class FieldBytes(NamedTuple):
    """The bytes in the file that a check looked at: the field's name, where it stands, what it holds."""

    name: str
    position: int
    raw: bytes


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
