"""Java properties files: `key=value` lines with comments, escapes and continuation lines.

The grammar of Java's `Properties.load`: a line that starts with `#` or `!` is a comment; a key ends at the
first `=`, `:` or white space without a backslash before it; a line that ends with an odd number of
backslashes continues in the next, whose leading white space is dropped; `\\t \\n \\r \\f \\uXXXX` are
characters, and before any other character a backslash is dropped. The last value of a repeated key counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

from kcli.errors import UsageError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file in order; raise `UsageError` if it cannot be read or is malformed."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read `{path}`: not UTF-8 text") from error
    try:
        return parse_properties(text)
    except ValueError as error:
        raise UsageError(f"cannot read `{path}`: {error}") from error


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of a text; raise `ValueError` for a malformed `\\u` escape."""
    return dict(_split(line) for line in _logical_lines(text))


def format_properties(properties: Mapping[str, str]) -> str:
    """Return a text of one line per property, in ASCII: Java and kcli read other letters differently."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    units = value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    numbers = [int.from_bytes(units[start : start + 2], "big") for start in range(0, len(units), 2)]
    text = "".join(chr(each) if 0x20 <= each < 0x7F else f"\\u{each:04x}" for each in numbers)
    return f"\\{text}" if text.startswith(" ") else text


def _logical_lines(text: str) -> Iterator[str]:
    """Join continuation lines; leave out comments and blank lines."""
    pending: str | None = None
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        if _ends_with_open_backslash(line):
            pending = line[:-1]
        else:
            pending = None
            yield line
    if pending:
        yield pending


def _ends_with_open_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in {"=", ":"}:
        value = value[1:].lstrip(_BLANKS)
    return _unescape(line[:end]), _unescape(value)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    pieces = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            pieces.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            pieces.append(_code_unit(text[position : position + 4]))
            position += 4
        else:
            pieces.append(_ESCAPES.get(escaped, escaped))
    # Characters beyond 16 bits are two escaped surrogates.
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16")


def _code_unit(digits: str) -> str:
    if len(digits) != 4:
        raise ValueError(f"malformed escape `\\u{digits}`")
    try:
        return chr(int(digits, 16))
    except ValueError:
        raise ValueError(f"malformed escape `\\u{digits}`") from None
