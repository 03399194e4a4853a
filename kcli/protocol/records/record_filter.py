"""What compaction does with the records of a batch, without an object for each.

Their keys enter a map, some records are selected, and selected ones get other timestamp deltas. Records are
found by their positions. Keys of more than `short_bytes` stand in the map as what `digest` makes of them. The
functions check what they read, raise `CorruptRecord`, and never read outside of the records.

They are the optional extension module `_record_walk` where it was built, and the functions `…_in_python`
elsewhere: slower, with the same results and errors. Other threads get their turn in the middle of a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.varints import encode_varint, read_varint, read_varlong, wrap_int64

if TYPE_CHECKING:
    from collections.abc import Callable


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


def index_keys_in_python(
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    offsets: dict[bytes, int],
    limits: tuple[int, int, int],
    key_form: tuple[int, Callable[[bytes], bytes]],
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
            if data[position] < 0x80:
                position += 1
            elif data[position + 1] < 0x80:
                position += 2
            else:
                _, position = read_varlong(data, position)
            delta, position = _short_number(data, position)
            length, position = _short_number(data, position)
        except (IndexError, CorruptRecord):
            raise _bad_record() from None
        if length < -1 or position + length > record_end or position > record_end:
            raise _bad_record()
        offset = base_offset + delta
        if length >= 0 and offset >= first_offset:
            key = data[position : position + length]
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


def select_records_in_python(
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    offsets: dict[bytes, int],
    limits: tuple[int, bool],
    key_form: tuple[int, Callable[[bytes], bytes]],
) -> tuple[list[int], int, int, int, int, bool, int, int]:
    """Return the fields of the `Selection` of records that no later record of the key in the map replaces.

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
            delta, position = _short_number(data, position)
            length, position = _short_number(data, position)
            key_start = position
            if length > 0:
                position += length
            value_length, position = _short_number(data, position)
        except (IndexError, CorruptRecord):
            raise _bad_record() from None
        if length < -1 or value_length < -1 or position > record_end:
            raise _bad_record()
        is_tombstone = value_length < 0
        offset = base_offset + delta
        position = record_end
        if offset < end_offset:
            if length < 0:
                keyless += 1
                continue
            key = data[key_start : key_start + length]
            if offset < offsets.get(key if length <= short_bytes else digest(key), -1):
                superseded += 1
                continue
            if is_tombstone and drop_tombstones:
                tombstones += 1
                continue
        if is_tombstone:
            has_tombstone = True
        if not kept:
            first_delta = max_delta = timestamp
        elif timestamp > max_delta:
            max_delta = timestamp
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
    return runs, kept, superseded, keyless, tombstones, has_tombstone, first_delta, max_delta


def rebase_records_in_python(data: bytes, runs: list[int], shift: int, same: int | None) -> bytes:
    """Return the records of runs with `shift` added to their timestamp deltas, or with the delta `same`."""
    parts: list[bytes] = []
    delta = b"" if same is None else encode_varint(same)
    for slot in range(0, len(runs), 2):
        position, run_end = runs[slot], runs[slot + 1]
        while position < run_end:
            position, record_end = _record_at(data, position, run_end)
            attributes = data[position - 1 : position]
            try:
                old, position = read_varlong(data, position)
            except CorruptRecord:
                raise _bad_record() from None
            if position > record_end:
                raise _bad_record()
            if same is None:
                delta = encode_varint(wrap_int64(old + shift))
            size = 1 + len(delta) + record_end - position
            parts += (encode_varint(size), attributes, delta, data[position:record_end])
            position = record_end
    return b"".join(parts)


def _record_at(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return the position behind the attributes of the record at a position, and that behind the record."""
    if position >= end:
        raise CorruptRecord("a record batch holds fewer records than it declares")
    try:
        length, position = _short_number(data, position)
    except (IndexError, CorruptRecord):
        raise _bad_record() from None
    if length < 2 or position + length > end:
        raise _bad_record()
    return position + 1, position + length


def _short_number(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, mostly of one or two bytes, and the position behind it."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        folded = byte & 0x7F | second << 7
        return (folded >> 1) ^ -(folded & 1), position + 2
    return read_varint(data, position)


def _bad_record() -> CorruptRecord:
    return CorruptRecord("a record does not fit its batch")


_Form = tuple[int, "Callable[[bytes], bytes]"]
index_keys: Callable[[bytes, int, int, int, dict[bytes, int], tuple[int, int, int], _Form], int]
select_records: Callable[
    [bytes, int, int, int, dict[bytes, int], tuple[int, bool], _Form],
    tuple[list[int], int, int, int, int, bool, int, int],
]
rebase_records: Callable[[bytes, list[int], int, int | None], bytes]
try:
    from kcli.protocol.records._record_walk import index_keys, rebase_records, select_records
except ImportError:
    index_keys = index_keys_in_python
    rebase_records = rebase_records_in_python
    select_records = select_records_in_python
