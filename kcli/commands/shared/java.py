"""How Java prints things, so that kcli prints the text of Kafka's tools byte for byte.

* The order of a `HashMap`: by bucket, which is the folded hash of the key modulo the size of a table that
  doubles when it is three quarters full.
* Columns of `printf`: the length of a string is its number of UTF-16 units.
* Numbers: `Double.toString`.
* Bytes as text: `new String(bytes, "UTF-8")`. Java and Python replace invalid bytes alike, except for a
  surrogate in three bytes: Java replaces it whole, or as much of it as is there, Python each byte.
* JSON: Jackson's `JsonNode.toString()`.
"""

from __future__ import annotations

import codecs
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from math import isfinite
from typing import NamedTuple, TypeVar

from kcli.protocol.java import string_hash

Key = TypeVar("Key")

SMALLEST_TABLE = 16


def partition_hash(topic_partition: tuple[str, int]) -> int:
    """Return `TopicPartition.hashCode()` as an unsigned 32-bit number."""
    topic, partition = topic_partition
    return (31 * (31 + partition) + string_hash(topic)) & 0xFFFFFFFF


def hash_map_order(keys: Collection[Key], hash_code: Callable[[Key], int]) -> list[Key]:
    """Return `keys`, given in the order they are put, as a `HashMap` of default size lists them."""
    return _by_bucket(keys, hash_code, len(keys))


def computed_map_order(
    keys: Collection[Key], hash_code: Callable[[Key], int], *, asked_again: bool
) -> list[Key]:
    """Return `keys` as a `HashMap` lists them that was filled by `computeIfAbsent`.

    It puts a key in front of its bucket, and the table grows only at the next call: `asked_again` says
    whether there was a call after the last key was put.
    """
    return _by_bucket(list(keys)[::-1], hash_code, len(keys) - (not asked_again))


def _by_bucket(keys: Collection[Key], hash_code: Callable[[Key], int], size: int) -> list[Key]:
    table = SMALLEST_TABLE
    while size > table * 3 // 4:
        table *= 2

    def bucket(key: Key) -> int:
        code = hash_code(key)
        return (code ^ code >> 16) & (table - 1)

    return sorted(keys, key=bucket)


def java_length(text: str) -> int:
    """Return `String.length()`."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def widest(least: int, texts: Iterable[str]) -> int:
    """Return the length of the longest text, at least `least`."""
    return max((least, *map(java_length, texts)))


class Column(NamedTuple):
    """A column of Kafka's tools: `printf` pads cells to `width`, or to the longest if it `grows`."""

    name: str
    width: int
    grows: bool = False


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Return a heading and rows as Kafka's tools print them, with a dash for None."""
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [
        widest(column.width, (row[index] for row in texts)) if column.grows else column.width
        for index, column in enumerate(columns)
    ]
    for cells in ([column.name for column in columns], *texts):
        padded = (text + " " * (width - java_length(text)) for width, text in zip(widths, cells, strict=True))
        yield " ".join(padded)


def tabbed_lines(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Return a heading and rows as Kafka's `ToolsUtils` prints them: a tab after each padded cell.

    The text of a cell that is None is `None`.
    """
    texts = [names, *([str(cell) for cell in row] for row in rows)]
    widths = [widest(0, column) for column in zip(*texts, strict=True)]
    for cells in texts:
        yield "".join(
            f"{text}{' ' * (width - java_length(text))}\t" for width, text in zip(widths, cells, strict=True)
        )


def java_text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case _:
            return str(value)


def java_double(value: float) -> str:
    """Return a number as `Double.toString` prints it: the shortest digits, E below 10^-3 and from 10^7 on."""
    special = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    if repr(value) in special:
        return special[repr(value)]
    sign, digits, exponent = decimal_digits(value)
    if value != 0 and not -3 <= exponent < 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction or '0'}"


def decimal_digits(value: float) -> tuple[str, str, int]:
    """Return the sign, the shortest significant digits, and the power of ten of the first digit."""
    text, _, exponent = repr(value).partition("e")
    sign = "-" if text.startswith("-") else ""
    whole, _, fraction = text.lstrip("-").partition(".")
    fraction = fraction.rstrip("0")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + (len(whole) - 1 if whole != "0" else len(digits) - len(fraction) - 1)
    return sign, digits.rstrip("0") or "0", power if digits else 0


def shortest_single(value: float) -> str:
    """Return the fewest digits that identify a single-precision number."""
    packed = struct.pack(">f", value)
    for precision in range(1, 9):
        digits = f"{value:.{precision}g}"
        with suppress(OverflowError):  # the largest ones round up beyond the range of a single
            if struct.pack(">f", float(digits)) == packed:
                return digits
    return f"{value:.9g}"


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SURROGATE = rb"\xed[\xa0-\xbf][\x80-\xbf]?"
_HANDLER = "kcli.java"


def java_utf8(data: bytes) -> str:
    """Return the text of bytes; invalid UTF-8 becomes replacement characters as in Java."""
    return data.decode("utf-8", _HANDLER)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    surrogate = re.compile(_SURROGATE).match(error.object, error.start)
    return _REPLACEMENT, error.end if surrogate is None else surrogate.end()


codecs.register_error(_HANDLER, _replace)


_ESCAPE = r"(?s:\\(?:u([0-9a-f]{4})|.))"


def java_json(value: object) -> str:
    """Return a document as Jackson writes it: on one line, without blanks, fields in their order."""
    match value:
        case dict():
            return "{" + ",".join(f"{quoted(name)}:{java_json(item)}" for name, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(java_json, value)) + "]"
        case str():
            return quoted(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value) if isfinite(value) else quoted(java_double(value))
        case _:
            return str(value)


def quoted(text: str) -> str:
    """Return a string in quotes; escapes have upper-case hexadecimal digits."""
    # A dump of batches needs the order of a map and no JSON.
    from json.encoder import encode_basestring

    shown = encode_basestring(text)
    if "\\u" not in shown:
        return shown
    return re.sub(_ESCAPE, lambda found: f"\\u{found[1].upper()}" if found[1] else found[0], shown)
