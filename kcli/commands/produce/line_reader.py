"""The input of `produce`: files or standard input (`Input`), cut into lines, parsed by `LineReader`.

A line is `headers <delimiter> key <separator> value`, with the properties of Kafka's console producer;
headers and key exist only with `parse.headers` and `parse.key`. Bytes are kept as they are, only header keys
are decoded. A line ends at a line feed, with or without a carriage return before it. Input is read in large
chunks, without blocking other tasks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import trio

from kcli.commands.shared.arguments import flag
from kcli.commands.shared.serdes import Convert, serializer
from kcli.errors import KcliError, UsageError

Header = tuple[str, bytes | None]
Parsed = tuple[bytes | None, bytes | None, tuple[Header, ...]]
"""Key, value, headers."""
Placed = tuple[bytes | None, bytes | None, tuple[Header, ...], int | None, int | None] | None
"""Key, value, headers, and the partition and the timestamp if the record has its own; None is no record."""

SEPARATORS = {
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
FLAGS = ("parse.key", "parse.headers", "ignore.error")
DIFFERENT = (
    ("headers.delimiter", "headers.separator"),
    ("headers.delimiter", "headers.key.separator"),
    ("headers.separator", "headers.key.separator"),
)


class ReaderFormat(NamedTuple):
    """The checked reader properties."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    ignore_error: bool = False
    null_marker: bytes | None = None
    key_serializer: Convert | None = None
    value_serializer: Convert | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ReaderFormat:
        known = {*SEPARATORS, *FLAGS, "null.marker", "key.serializer", "value.serializer", "topic"}
        for name in properties:
            if name not in known:
                raise UsageError(f"there is no reader property `{name}`", hint=", ".join(sorted(known)))
        values = {**SEPARATORS, **properties}
        marker = properties.get("null.marker")
        for first, second in DIFFERENT:
            if values[first] == values[second]:
                raise UsageError(f"`{first}` and `{second}` may not be equal: {values[first]}")
        for name in SEPARATORS:
            if not values[name]:
                raise UsageError(f"`{name}` may not be empty")
            if values[name] == marker:
                raise UsageError(f"`null.marker` and `{name}` may not be equal: {marker}")
        return cls(
            flag(values, "parse.key"),
            values["key.separator"].encode(),
            flag(values, "parse.headers"),
            values["headers.delimiter"].encode(),
            values["headers.separator"].encode(),
            values["headers.key.separator"].encode(),
            flag(values, "ignore.error"),
            None if marker is None else marker.encode(),
            serializer(values.get("key.serializer", "bytes")),
            serializer(values.get("value.serializer", "bytes")),
        )

    @property
    def is_plain(self) -> bool:
        """Whether the bytes of a line are the value."""
        return not (self.parse_key or self.parse_headers or self.null_marker or self.value_serializer)


class LineReader:
    """Parses lines, and counts them for its error messages."""

    def __init__(self, line_format: ReaderFormat) -> None:
        self.format = line_format
        self.line_number = 0

    @property
    def is_plain(self) -> bool:
        """Whether the bytes of a line are the value."""
        return self.format.is_plain

    def begin(self, source: str | None) -> None:
        """Go on with another input: the lines of all inputs are counted together, as in Kafka's tool."""

    def records(self, lines: Iterable[bytes]) -> Iterator[Placed]:
        """Yield a record for each line; raise `KcliError` for one that cannot be parsed."""
        parse = self.parse
        for line in lines:
            self.line_number += 1
            yield (*parse(line), None, None)

    def parse(self, line: bytes) -> Parsed:
        form = self.format
        start, headers, key = 0, None, None
        if form.parse_headers:
            headers, start = self._until(line, start, form.headers_delimiter, "headers delimiter")
        if form.parse_key:
            key, start = self._until(line, start, form.key_separator, "key separator")
        value = line[start:] if start else line
        return (
            self._field(key, form.key_serializer),
            self._field(value, form.value_serializer),
            () if headers is None or headers == form.null_marker else self._headers(headers),
        )

    def _until(self, line: bytes, start: int, separator: bytes, name: str) -> tuple[bytes | None, int]:
        """Return the part before a separator and the start of the rest; None and `start` without one."""
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end], end + len(separator)
        if self.format.ignore_error:
            return None, start
        raise KcliError(
            f"no {name} found on line {self.line_number}: {line.decode('utf-8', 'backslashreplace')}",
            hint="`--reader-property ignore.error=true` sends such a line as a value",
        )

    def _field(self, data: bytes | None, serialize: Convert | None) -> bytes | None:
        """Return a serialized key or value; the null marker is null."""
        if data is None or data == self.format.null_marker:
            return None
        if serialize is None:
            return data
        try:
            return serialize(data)
        except KcliError as error:
            raise KcliError(f"line {self.line_number}: {error.message}", hint=error.hint) from None

    def _headers(self, text: bytes) -> tuple[Header, ...]:
        form = self.format
        headers: list[Header] = []
        for pair in text.split(form.headers_separator):
            name, separator, value = pair.partition(form.headers_key_separator)
            if not separator and not form.ignore_error:
                raise KcliError(
                    f"no header key separator found on line {self.line_number}: "
                    f"{pair.decode('utf-8', 'backslashreplace')}"
                )
            if name == form.null_marker:
                raise KcliError(f"a header key is the null marker on line {self.line_number}")
            is_null = not separator or value == form.null_marker
            headers.append((name.decode("utf-8", "replace"), None if is_null else value))
        return tuple(headers)


class LineSplitter:
    """Cuts chunks of an input into lines, and keeps the unfinished line for the next chunk."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._text = b""
        self._count = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk finishes."""
        end = chunk.rfind(b"\n") + 1
        self._rest.append(chunk[:end] or chunk)
        if not end:
            self._count = 0
            return []
        self._text = b"".join(self._rest)
        lines = self._text.split(b"\n")
        lines.pop()
        self._count = len(lines)
        self._rest = [chunk[end:]] if end < len(chunk) else []
        if b"\r" in chunk or lines[0].endswith(b"\r"):
            return [line.removesuffix(b"\r") for line in lines]
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line if it has no line feed."""
        self._text = rest = b"".join(self._rest)
        self._rest = []
        self._count = 1 if rest else 0
        return [rest.removesuffix(b"\r")] if rest else []

    def size_of(self, count: int) -> int:
        """Return the size of the first `count` lines that were returned last, line feeds included."""
        if count == self._count:
            return len(self._text) if count else 0
        position = 0
        for _ in range(count):
            position = self._text.index(b"\n", position) + 1
        return position


CHUNK_BYTES = 1 << 20
STDIN = 0


class Input:
    """An open file or standard input."""

    def __init__(self, path: Path | None) -> None:
        """Open a file; None and `-` mean standard input."""
        is_stdin = path is None or str(path) == "-"
        self.name = None if is_stdin else str(path)
        try:
            self.descriptor = STDIN if is_stdin else os.open(path or "-", os.O_RDONLY)
            status = os.fstat(self.descriptor)
        except OSError as error:
            raise UsageError(f"cannot read `{path or 'standard input'}`: {error.strerror}") from error
        if stat.S_ISDIR(status.st_mode):
            raise UsageError(f"cannot read `{path}`: it is a directory")
        self.is_regular = stat.S_ISREG(status.st_mode)
        self.size = status.st_size if self.is_regular else None
        self.is_terminal = is_stdin and os.isatty(STDIN)
        self._may_wait = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or self.is_terminal

    async def read(self) -> bytes:
        """Return the next bytes, up to 1 MiB, none at the end."""
        if self._may_wait:
            await trio.lowlevel.wait_readable(self.descriptor)
        else:
            await trio.lowlevel.checkpoint()
        return os.read(self.descriptor, CHUNK_BYTES)

    def close(self) -> None:
        if self.descriptor != STDIN:
            os.close(self.descriptor)


def open_inputs(files: Sequence[Path]) -> list[Input]:
    """Open all files before the first is read, so that a missing one fails at once."""
    return [Input(path) for path in files] or [Input(None)]


def total_size(inputs: Sequence[Input]) -> int | None:
    """Return the size of all inputs together, None if one is unknown."""
    sizes = [source.size for source in inputs]
    return None if None in sizes else sum(size or 0 for size in sizes)
