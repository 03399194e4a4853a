"""Harms: what may happen to the bytes of a file, at every place that its structure has.

The layouts are written down here once more, so that the tests of damage do not ask the code that they test.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Field = tuple[str, int, int]
"""Its name, where it stands in an entry, and how many bytes it takes."""

BATCH_FIELDS: tuple[Field, ...] = (
    ("offset", 0, 8),
    ("size", 8, 4),
    ("leader epoch", 12, 4),
    ("magic", 16, 1),
    ("crc", 17, 4),
    ("attributes", 21, 2),
    ("last offset delta", 23, 4),
    ("base timestamp", 27, 8),
    ("max timestamp", 35, 8),
    ("producer id", 43, 8),
    ("producer epoch", 51, 2),
    ("base sequence", 53, 4),
    ("count", 57, 4),
)
LEGACY_FIELDS: tuple[tuple[Field, ...], ...] = (
    (
        ("offset", 0, 8),
        ("size", 8, 4),
        ("crc", 12, 4),
        ("magic", 16, 1),
        ("attributes", 17, 1),
        ("key length", 18, 4),
    ),
    (
        ("offset", 0, 8),
        ("size", 8, 4),
        ("crc", 12, 4),
        ("magic", 16, 1),
        ("attributes", 17, 1),
        ("timestamp", 18, 8),
        ("key length", 26, 4),
    ),
)
CONTENT = "content"
OVERHEAD = 12
MAGIC_AT = 16
_OFFSET_AND_SIZE = Struct(">qi")


@dataclass(frozen=True, slots=True)
class Entry:
    """A batch, an older message, or an entry of an index: where it is, and its fields."""

    start: int
    size: int
    fields: tuple[Field, ...]

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.start + self.size


@dataclass(frozen=True, slots=True)
class Harm:
    """What was done, where, to which entry, and the bytes that came of it."""

    verb: str
    entry: int
    field: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.verb} {self.field} of entry {self.entry}"


def entries_of_log(data: bytes) -> list[Entry]:
    """The entries of a sound log."""
    found, start = [], 0
    while start < len(data):
        _, length = _OFFSET_AND_SIZE.unpack_from(data, start)
        magic = data[start + MAGIC_AT]
        fields = BATCH_FIELDS if magic == 2 else LEGACY_FIELDS[magic]
        _, at, width = fields[-1]
        rest = OVERHEAD + length - at - width
        content: tuple[Field, ...] = ((CONTENT, at + width, rest),) if rest else ()
        found.append(Entry(start, OVERHEAD + length, (*fields, *content)))
        start += OVERHEAD + length
    return found


def entries_of_table(data: bytes, fields: tuple[Field, ...], start: int = 0) -> list[Entry]:
    """The entries of a file of rows of equal size."""
    size = sum(width for _, _, width in fields)
    return [Entry(at, size, fields) for at in range(start, len(data), size)]


def field_harms(data: bytes, entries: list[Entry]) -> Iterator[Harm]:
    """Every verb at every field of every entry, but for those that change nothing."""
    for number, entry in enumerate(entries):
        for name, at, width in entry.fields:
            start = entry.start + at
            end = start + width
            field, before, behind = data[start:end], data[:start], data[end:]
            changed = {
                "flip the first bit of": bytes((field[0] ^ 0x80,)) + field[1:],
                "flip the last bit of": field[:-1] + bytes((field[-1] ^ 1,)),
                "zero": bytes(width),
                "duplicate": field + field,
                "insert before": b"\xa5\x5a\x00" + field,
                "swap the halves of": field[width // 2 :] + field[: width // 2],
            }
            for verb, instead in changed.items():
                if instead != field:
                    yield Harm(verb, number, name, before + instead + behind)
            yield Harm("cut before", number, name, before)
            yield Harm("cut inside", number, name, data[: start + (width + 1) // 2])


def entry_harms(data: bytes, entries: list[Entry]) -> Iterator[Harm]:
    """Every verb at whole entries."""
    for number, entry in enumerate(entries):
        whole = data[entry.start : entry.end]
        before, behind = data[: entry.start], data[entry.end :]
        yield Harm("zero", number, "all", before + bytes(len(whole)) + behind)
        yield Harm("duplicate", number, "all", before + whole + whole + behind)
        yield Harm("insert before", number, "all", before + b"\x5a" * 40 + whole + behind)
        if number + 1 < len(entries):
            following = entries[number + 1]
            swapped = data[following.start : following.end] + whole
            yield Harm("swap", number, "all", before + swapped + data[following.end :])


def first_difference(one: bytes, other: bytes) -> int:
    """Where two files begin to differ: at the latest where the shorter one ends."""
    shortest = min(len(one), len(other))
    return next((at for at in range(shortest) if one[at] != other[at]), shortest)


def entry_at(entries: list[Entry], position: int) -> int:
    """Where the entry that holds a position begins; behind the last one, where that ends."""
    found = [entry.start for entry in entries if entry.start <= position < entry.end]
    return found[0] if found else entries[-1].end
