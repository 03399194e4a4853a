"""The checks of the head of an entry of any format: whether it is possible, and if not, which field fails.

| at | batch (magic 2)     | at | older entry (magic 0, 1)  |
|----|---------------------|----|---------------------------|
| 0  | base offset         | 0  | offset                    |
| 8  | size of the rest    | 8  | size of the rest          |
| 12 | leader epoch        | 12 | CRC-32 of 16 to the end   |
| 16 | magic               | 16 | magic                     |
| 17 | CRC-32C of 21 to the end | 17 | attributes           |
| 21 | attributes          | 18 | timestamp (magic 1)       |
| 23 | last offset delta   |    |                           |
| 57 | record count        |    |                           |
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.entries.batch_run import BATCH_BITS, LAST_CODEC
from kcli.forensics.entries.damage import DamageKind
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MAX_OFFSET,
    MIN_BATCH_LENGTH,
    MIN_LENGTHS,
    MIN_RECORD_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHead,
)

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer

HEADER_SIZES = (18, 26, HEADER_SIZE)
"""Bytes up to the key or the records, by magic."""

TORN_BYTES = MAGIC_POSITION + 1
"""So few bytes at the end of a file count as the beginning of an entry, even zeros: offsets begin so."""

LEGACY_BITS = (CODEC_MASK, CODEC_MASK | TIMESTAMP_TYPE_BIT)

FIELDS_OF_ALL = {"offset": (0, 8), "size": (8, 4), "magic": (16, 1)}
FIELDS_OF_BATCH = {
    **FIELDS_OF_ALL,
    "leader epoch": (12, 4),
    "crc": (17, 4),
    "attributes": (21, 2),
    "last offset delta": (23, 4),
    "max timestamp": (35, 8),
    "record count": (57, 4),
}
FIELDS_OF_LEGACY = {**FIELDS_OF_ALL, "crc": (12, 4), "attributes": (17, 1), "timestamp": (18, 8)}

_LEGACY = Struct(">qiIbB")
_LENGTH = Struct(">i")


class HeadProblem(NamedTuple):
    """The first field of a head that is impossible."""

    kind: DamageKind
    field: str
    expected: int | str
    found: int | str
    message: str


def fields_of(magic: int) -> dict[str, tuple[int, int]]:
    """Return position and size of each field by name, for an entry of that magic."""
    return FIELDS_OF_LEGACY if magic in (0, 1) else FIELDS_OF_BATCH


def structural_problem(head: Buffer, available: int) -> HeadProblem | None:
    """Return why no entry of at most `available` bytes can begin with `head`, None if one can."""
    if available <= TORN_BYTES:
        message = f"the file ends {available} bytes into an entry"
        return HeadProblem(DamageKind.TRUNCATED_HEADER, "magic", TORN_BYTES + 1, available, message)
    (length,) = _LENGTH.unpack_from(head, 8)
    magic = head[MAGIC_POSITION]
    if magic > 2:
        return HeadProblem(DamageKind.BAD_MAGIC, "magic", "0, 1 or 2", magic, f"unknown magic {magic}")
    if length < MIN_LENGTHS[magic]:
        least = MIN_LENGTHS[magic]
        message = f"size {length} is below {least}, the least for magic {magic}"
        return HeadProblem(DamageKind.BAD_SIZE, "size", f"{least} or more", length, message)
    claimed = LOG_OVERHEAD + length
    if claimed > available:
        has_header = available >= HEADER_SIZES[magic]
        kind = DamageKind.TRUNCATED_BATCH if has_header else DamageKind.TRUNCATED_HEADER
        message = f"{available} bytes are left of the {claimed} that the header claims"
        return HeadProblem(kind, "size", claimed, available, message)
    return None


def header_problem(head: Buffer) -> HeadProblem | None:
    """Return the contradiction in a complete header of a possible size, None without one."""
    if head[MAGIC_POSITION] < 2:
        return _legacy_problem(head)
    fields = HEADER.unpack_from(head)
    base_offset, length, attributes, delta, count = fields[0], fields[1], fields[5], fields[6], fields[12]
    if attributes & CODEC_MASK > LAST_CODEC or attributes & ~BATCH_BITS:
        why = "no codec has that number" if attributes & CODEC_MASK > LAST_CODEC else "unknown bits are set"
        wanted, message = f"codec 0 to 4, bits within {BATCH_BITS:#x}", f"attributes {attributes:#x}: {why}"
        return HeadProblem(DamageKind.BAD_ATTRIBUTES, "attributes", wanted, attributes, message)
    if base_offset < 0 or base_offset > MAX_OFFSET - max(delta, 0):
        message = f"impossible offset {base_offset}"
        return HeadProblem(DamageKind.BAD_OFFSET, "offset", "0 or more", base_offset, message)
    if delta < 0:
        message = f"last offset delta {delta} is negative"
        return HeadProblem(DamageKind.BAD_OFFSET_DELTA, "last offset delta", "0 or more", delta, message)
    most = delta + 1
    if attributes & CODEC_MASK == 0:
        most = min(most, (length - MIN_BATCH_LENGTH) // MIN_RECORD_BYTES)
    if not 0 <= count <= most:
        message = f"the batch cannot hold {count} records"
        return HeadProblem(DamageKind.BAD_COUNT, "record count", f"0 to {most}", count, message)
    return None


def _legacy_problem(head: Buffer) -> HeadProblem | None:
    offset, _, _, magic, attributes = _LEGACY.unpack_from(head)
    if attributes & CODEC_MASK > Codec.LZ4 or attributes & ~LEGACY_BITS[magic]:
        wanted = f"codec 0 to 3, bits within {LEGACY_BITS[magic]:#x}"
        message = f"attributes {attributes:#x} are impossible with magic {magic}"
        return HeadProblem(DamageKind.BAD_ATTRIBUTES, "attributes", wanted, attributes, message)
    if offset < 0:
        message = f"impossible offset {offset}"
        return HeadProblem(DamageKind.BAD_OFFSET, "offset", "0 or more", offset, message)
    return None


def plausible_head(head: Buffer, at: int, position: int, end: int) -> BatchHead | None:
    """Return the head at `head[at]`, byte `position` of a file that ends at `end`; None if impossible."""
    view = memoryview(head)[at : at + HEADER_SIZE]
    if structural_problem(view, end - position) or header_problem(view):
        return None
    magic = view[MAGIC_POSITION]
    if magic == MAGIC:
        return BatchHead.at(view, 0, position)
    key_at = HEADER_SIZES[magic]
    if len(view) < key_at + _LENGTH.size:
        return None
    found = BatchHead.at(view, 0, position)
    (key_size,) = _LENGTH.unpack_from(view, key_at)
    # A wrapper has no key. The length of the value follows the key, and both must fit.
    room = found.size_in_bytes - key_at - 2 * _LENGTH.size
    if not -1 <= key_size <= room or (found.attributes & CODEC_MASK and key_size > 0):
        return None
    return found


def crc_of_head(head: Buffer, magic: int) -> int:
    position, size = fields_of(magic)["crc"]
    return int.from_bytes(head[position : position + size], "big")
