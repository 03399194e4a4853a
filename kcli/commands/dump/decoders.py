"""Decoders: turn the keys and values of a dump into text, and into values for JSON.

These decode a key or a value by itself; `coordinator_decoders` needs both. A key or value that cannot be
decoded is shown undecoded with a note, and counted.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from kcli.commands.shared.java import java_utf8
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.forensics.entries.scanned_entry import DumpedRecord

Decode = Callable[[bytes], object]

_INT = Struct(">i")
_LONG = Struct(">q")
PYTHON_PREFIX = "python:"

JAVA_DECODERS = {
    "StringDecoder": "string",
    "DefaultDecoder": "hex",
    "IntegerDecoder": "int",
    "LongDecoder": "long",
}
"""Kafka's own decoder classes, of any package. Its `DefaultDecoder` prints the address of a Java array."""


class Decoder(Protocol):
    """Decodes the key and the value of a record."""

    failures: int
    """How many keys and values could not be decoded."""

    is_plain: bool
    """Whether it only decodes bytes as text."""

    def texts(self, record: DumpedRecord) -> tuple[str | None, str | None]:
        """Return key and value as Kafka's tool prints them; None is not printed."""
        ...

    def values(self, record: DumpedRecord) -> tuple[object, object]:
        """Return key and value for JSON."""
        ...


class PlainDecoder:
    """Decodes key and value separately."""

    def __init__(self, key: str = "string", value: str = "string") -> None:
        self.failures = 0
        self.is_plain = key == value == "string"
        self._key = field_decoder(key)
        self._value = field_decoder(value)

    def texts(self, record: DumpedRecord) -> tuple[str | None, str | None]:
        return self._text(record.key, self._key), self._text(record.value, self._value)

    def values(self, record: DumpedRecord) -> tuple[object, object]:
        return self._decoded(record.key, self._key), self._decoded(record.value, self._value)

    def _text(self, data: bytes | None, decode: Decode | None) -> str | None:
        if data is None:
            return None
        if decode is None:
            return java_utf8(data)
        decoded = self._decoded(data, decode)
        if isinstance(decoded, str):
            return decoded
        from json import dumps

        return dumps(decoded, ensure_ascii=False, separators=(",", ":"), default=str)

    def _decoded(self, data: bytes | None, decode: Decode | None) -> object:
        if data is None:
            return None
        if decode is None:
            return text_or_base64(data)
        try:
            return decode(data)
        # A decoder may be the user's function: any exception is about this record only.
        except Exception as error:
            self.failures += 1
            reason = str(error) or type(error).__name__
            return {"error": reason, "base64": base64(data)}


def text_or_base64(data: bytes) -> object:
    """Return bytes as text if they are UTF-8, else as an object with their base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64(data)}


def base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def json(data: bytes) -> object:
    """Return the JSON document in bytes. Raises `ValueError`."""
    from json import loads

    return loads(data)


def unpack(packer: Struct, data: bytes) -> object:
    """Return the number in bytes of exactly its size. Raises `ValueError`."""
    if len(data) != packer.size:
        raise ValueError(f"{len(data)} bytes, not {packer.size}")
    return packer.unpack(data)[0]


FIELD_DECODERS: dict[str, Decode | None] = {
    "string": None,
    "hex": bytes.hex,
    "base64": base64,
    "json": json,
    "int": lambda data: unpack(_INT, data),
    "long": lambda data: unpack(_LONG, data),
}


def field_decoder(name: str) -> Decode | None:
    """Return the decoder of that name; None decodes bytes as text. Raises `UsageError`."""
    if name.startswith(PYTHON_PREFIX):
        return python_function(name.removeprefix(PYTHON_PREFIX))
    short = JAVA_DECODERS.get(name.rpartition(".")[2], name)
    if short not in FIELD_DECODERS:
        known = ", ".join([*FIELD_DECODERS, f"{PYTHON_PREFIX}module.function"])
        raise UsageError(f"unknown decoder `{name}`", hint=known)
    return FIELD_DECODERS[short]


def python_function(path: str) -> Decode:
    """Return the function `module.function`; the module may be in the working directory."""
    import sys

    module_name, _, function_name = path.replace(":", ".").rpartition(".")
    if "" not in sys.path:
        sys.path.append("")
    try:
        function = getattr(import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"cannot load the decoder `{path}`: {error}", hint="python:module.function"
        ) from error
    if not callable(function):
        raise UsageError(f"the decoder is not a function: `{path}`")
    decode: Decode = function
    return decode
