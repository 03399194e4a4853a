"""The entries of a buffer: batches and older entries, each whole and with the right checksum.

A sound entry is a `BatchHead` whose `position` is its place in the buffer. `CorruptBatch` is an entry that
cannot be read; `next_entry` finds where reading can go on behind it.
"""

from __future__ import annotations

import re
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MAX_OFFSET,
    MIN_LENGTHS,
    SIZE_POSITION,
    BatchHead,
    crc32c,
)
from kcli.protocol.records.message_set import LegacyEntry

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer

_LENGTH = Struct(">i")
_OFFSET = Struct(">q")


def first_offset(head: BatchHead) -> int:
    """Return the first offset of an entry, -1 for a compressed older one: only its records tell."""
    return head.base_offset if head.count >= 0 else -1


def size_at(view: memoryview, at: int, stop: int) -> int:
    """Return the size that an entry claims, 0 if too few bytes are there.

    Raises `CorruptRecord` for an unknown magic and an impossible size.
    """
    if stop - at <= MAGIC_POSITION:
        return 0
    (length,) = _LENGTH.unpack_from(view, at + SIZE_POSITION)
    magic = view[at + MAGIC_POSITION]
    if magic > MAGIC:
        raise CorruptRecord(f"unknown magic: {magic}")
    if length < MIN_LENGTHS[magic]:
        raise CorruptRecord(f"an entry cannot be as short as {LOG_OVERHEAD + length} bytes")
    return LOG_OVERHEAD + int(length)


def entry_at(view: memoryview, at: int, size: int) -> BatchHead:
    """Return the head of an entry, all of whose bytes are there; raises `CorruptRecord`."""
    if view[at + MAGIC_POSITION] != MAGIC:
        return _legacy_head(view, at)
    head: BatchHead = tuple.__new__(BatchHead, (at, *HEADER.unpack_from(view, at)))
    found = crc32c(view[at + CRC_START : at + size])
    if found != head.crc:
        raise CorruptRecord(f"its checksum is {found:#010x}, its header says {head.crc:#010x}")
    delta = head.last_offset_delta
    if head.base_offset < 0 or not 0 <= delta <= MAX_OFFSET - head.base_offset:
        raise CorruptRecord(f"offsets that cannot be: {head.base_offset} and {delta} more")
    if not 0 <= head.count <= delta + 1:
        raise CorruptRecord(f"{head.count} records cannot be in there")
    if head.attributes & CODEC_MASK > Codec.ZSTD:
        raise CorruptRecord(f"unknown compression codec: {head.attributes & CODEC_MASK}")
    return head


def _legacy_head(view: memoryview, at: int) -> BatchHead:
    entry = LegacyEntry(view, at)
    if not entry.is_valid_crc():
        raise CorruptRecord(f"its checksum is not the one in its header: {entry.crc:#010x}")
    if entry.offset < 0:
        raise CorruptRecord(f"an offset that cannot be: {entry.offset}")
    Codec.of_attributes(entry.attributes)
    return entry.head()


def offset_at(view: memoryview, at: int, stop: int) -> int | None:
    """Return the offset that an entry claims, -1 if none can begin there, None if it is incomplete."""
    try:
        if not size_at(view, at, stop):
            return None
    except CorruptRecord:
        return -1
    return int(_OFFSET.unpack_from(view, at)[0])


def claimed_offsets(view: Buffer, at: int, stop: int) -> tuple[int, int]:
    """Return the first and last offset that a damaged header claims, (-1, -1) without a header."""
    if stop - at < HEADER_SIZE or view[at + MAGIC_POSITION] != MAGIC:
        return -1, -1
    fields = HEADER.unpack_from(view, at)
    return (fields[0], fields[0] + fields[6]) if fields[0] >= 0 <= fields[6] else (-1, -1)


class CorruptBatch(KcliError):
    """The entry at `position` cannot be read.

    `size` is what its header claims, 0 if unknown. `first` and `last` are the offsets that the header claims,
    -1 without a header.
    """

    def __init__(
        self, where: str, position: int, reason: str, *, size: int = 0, first: int = -1, last: int = -1
    ) -> None:
        offsets = f", offsets {first} to {last}" if first >= 0 else ""
        super().__init__(
            f"corrupt batch in {where} at position {position}{offsets}: {reason}",
            hint="`--on-corrupt skip` exports what can be read, and records what is missing",
        )
        self.where = where
        self.position = position
        self.reason = reason
        self.size = size
        self.first = first
        self.last = last

    def __reduce__(self) -> tuple[partial[CorruptBatch], tuple[()]]:
        """Pickle the arguments, not the message."""
        fields = {"size": self.size, "first": self.first, "last": self.last}
        return partial(type(self), self.where, self.position, self.reason, **fields), ()


# The beginning of an entry up to its magic: an offset below 2^56, a size below 2^24, a known magic.
_HEAD = re.compile(rb"(?=\x00.{7}\x00.{7}[\x00-\x02])", re.DOTALL)


def next_entry(view: memoryview, damage: CorruptBatch, at: int) -> int:
    """Return where an entry with the right checksum begins behind the damage at `at`, else the end.

    The size that the damaged entry claims is tried first.
    """
    stop = len(view)
    behind = at + damage.size
    if damage.size and (behind == stop or (behind < stop and is_entry(view, behind))):
        return behind
    for match in _HEAD.finditer(view, at + 1):
        if is_entry(view, match.start()):
            return match.start()
    return stop


def is_entry(view: memoryview, at: int) -> bool:
    try:
        size = size_at(view, at, len(view))
        if not size or at + size > len(view):
            return False
        entry_at(view, at, size)
    except CorruptRecord:
        return False
    return True
