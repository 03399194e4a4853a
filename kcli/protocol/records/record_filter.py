"""What compaction does with the records of a batch, without an object for each.

Their keys enter a map, some records are selected, and selected ones get another base timestamp.

Records are found by their positions. Keys of more than `short_key_bytes` stand in the map as what `digest`
makes of them. The functions check what they read, and raise `CorruptRecord`; they never read outside of the
records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.varints import encode_varint, read_varint, read_varlong, wrap_int64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.protocol.corruption import Buffer


class KeyForm(NamedTuple):
    """How keys stand in a map: those up to `short_bytes` as they are, the others as their digest."""

    short_bytes: int
    digest: Callable[[bytes], bytes]


class Selection(NamedTuple):
    """The records of a batch that stay: `runs` has start and end of each run of neighbours, flat.

    The deltas are those of timestamps: of the first record that stays, and the largest; 0 if none stays.
    """

    runs: list[int]
    kept: int
    superseded: int
    keyless: int
    tombstones: int
    """Tombstones that were dropped."""
    has_tombstone: bool
    """Whether a record that stays has no value."""
    first_delta: int
    max_delta: int


def index_keys(
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    offsets: dict[bytes, int],
    limits: tuple[int, int, int],
    key_form: KeyForm,
) -> int:
    """Enter the last offset of each key into a map; return the room left, -1 if a new key does not fit.

    `limits` are the first offset that counts, the room in bytes, and what an entry takes besides its key.
    """
    first_offset, room, entry_bytes = limits
    short_bytes, digest = key_form
    end = len(data)
    for _ in range(count):
        position, record_end = _record_at(data, position, end)
        try:
            while data[position] >= 0x80:
                position += 1
            position += 1
            byte = data[position]
            if byte < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                delta, position = read_varint(data, position)
            byte = data[position]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                length, position = read_varint(data, position)
        except IndexError:
            raise _bad_record() from None
        if length >= 0:
            key_end = position + length
            if key_end > record_end:
                raise _bad_record()
            offset = base_offset + delta
            if offset >= first_offset:
                key = data[position:key_end]
                if length > short_bytes:
                    key = digest(key)
                if key not in offsets:
                    room -= entry_bytes + len(key)
                    if room < 0:
                        return -1
                offsets[key] = offset
        position = record_end
    if position != end:
        raise CorruptRecord("a record batch holds more than the records it declares")
    return room


def select_records(
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    offsets: dict[bytes, int],
    limits: tuple[int, bool],
    key_form: KeyForm,
) -> Selection:
    """Return the records that stay: those that no later record of the key in the map replaces.

    `limits` are the offset from which on all records stay, and whether tombstones go.
    """
    end_offset, drop_tombstones = limits
    short_bytes, digest = key_form
    end = len(data)
    runs: list[int] = []
    run_start = run_end = -1
    kept = superseded = keyless = tombstones = 0
    has_tombstone = False
    first_delta = max_delta = 0
    for _ in range(count):
        start = position
        position, record_end = _record_at(data, position, end)
        try:
            byte = data[position]
            if byte < 0x80:
                timestamp = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                timestamp, position = read_varlong(data, position)
            byte = data[position]
            if byte < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                delta, position = read_varint(data, position)
            byte = data[position]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                length, position = read_varint(data, position)
            key_start = position
            if length > 0:
                position += length
            byte = data[position]
            is_null = byte == 1
        except IndexError:
            raise _bad_record() from None
        if position >= record_end:
            raise _bad_record()
        offset = base_offset + delta
        position = record_end
        if offset < end_offset:
            if length < 0:
                keyless += 1
                continue
            key = data[key_start : key_start + length]
            found = offsets.get(key if length <= short_bytes else digest(key), -1)
            if offset < found:
                superseded += 1
                continue
            if is_null and drop_tombstones:
                tombstones += 1
                continue
        if is_null:
            has_tombstone = True
        if kept:
            if timestamp > max_delta:
                max_delta = timestamp
        else:
            first_delta = max_delta = timestamp
        kept += 1
        if run_end != start:
            if run_end >= 0:
                runs += (run_start, run_end)
            run_start = start
        run_end = record_end
    if run_end >= 0:
        runs += (run_start, run_end)
    if position != end:
        raise CorruptRecord("a record batch holds more than the records it declares")
    return Selection(runs, kept, superseded, keyless, tombstones, has_tombstone, first_delta, max_delta)


def rebase_records(data: bytes, runs: Sequence[int], shift: int, constant: int | None) -> bytes:
    """Return the records of runs with `shift` added to their timestamp deltas, or all with one delta."""
    parts: list[bytes] = []
    same = None if constant is None else encode_varint(wrap_int64(constant))
    for slot in range(0, len(runs), 2):
        position, run_end = runs[slot], runs[slot + 1]
        while position < run_end:
            position, record_end = _record_at(data, position, run_end)
            attributes = data[position - 1 : position]
            try:
                old, position = read_varlong(data, position)
            except IndexError:
                raise _bad_record() from None
            if position > record_end:
                raise _bad_record()
            delta = encode_varint(wrap_int64(old + shift)) if same is None else same
            parts += (
                encode_varint(1 + len(delta) + record_end - position),
                attributes,
                delta,
                data[position:record_end],
            )
            position = record_end
    return b"".join(parts)


def _record_at(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """Return the position behind the attributes of the record at a position, and that behind the record."""
    if position >= end:
        raise CorruptRecord("a record batch holds fewer records than it declares")
    length = data[position]
    if length < 0x80:
        record_end = position + 1 + ((length >> 1) ^ -(length & 1))
        position += 2
    else:
        length, position = read_varint(data, position)
        record_end = position + length
        position += 1
    if record_end > end or position >= record_end:
        raise _bad_record()
    return position, record_end


def _bad_record() -> CorruptRecord:
    return CorruptRecord("a record does not fit its batch")
