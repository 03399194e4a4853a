"""The order in which a Java `HashMap` lists its keys.

Some of Kafka's tools print maps as they come. To print the same text, kcli orders the same way: by bucket,
which is the key's hash, folded, modulo a table that doubles whenever it is three quarters full.

Columns as Java's `printf` fills them: the length of a string is that of its UTF-16 units.

Bytes as text, as Java reads them: `new String(bytes, "UTF-8")`.

Where bytes are no UTF-8, Java and Python put the same replacement characters, but for a surrogate that stands
for itself in three bytes: Java replaces it whole, or as much of it as is there, Python each of its bytes.

JSON as Kafka's tools print it: the text of Jackson's `JsonNode.toString()`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterable
from json.encoder import encode_basestring
from math import isfinite
from typing import TypeVar

from kcli.commands.shared.serdes import java_double
from kcli.protocol.topics import string_hash

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

    That puts a key in front of its bucket, and lets the table grow when it is called the next time only:
    `asked_again` says whether it was called after the last key was put.
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
    """Return the length of the longest text, or `least` if that is more."""
    return max((least, *map(java_length, texts)))


def columns(widths: Iterable[int], cells: Iterable[object]) -> str:
    """Return cells in one line with a blank between, each filled to its width; 0 fills nothing.

    What is missing is a dash, as in Kafka's tools.
    """
    texts = ("-" if cell is None else str(cell) for cell in cells)
    return " ".join(
        text + " " * (width - java_length(text)) for width, text in zip(widths, texts, strict=True)
    )


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_HANDLER = "kcli.java"


def java_utf8(data: bytes) -> str:
    """Return the text of bytes, whatever they hold."""
    return data.decode("utf-8", _HANDLER)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    surrogate = _SURROGATE.match(error.object, error.start)
    return _REPLACEMENT, error.end if surrogate is None else surrogate.end()


codecs.register_error(_HANDLER, _replace)


_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|.)", re.DOTALL)


def java_json(value: object) -> str:
    """Return a document on one line, without blanks and with its fields in their order."""
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
    """Return a string in quotes; hexadecimal digits of escapes are in upper case."""
    shown = encode_basestring(text)
    if "\\u" not in shown:
        return shown
    return _ESCAPE.sub(lambda found: f"\\u{found[1].upper()}" if found[1] else found[0], shown)
