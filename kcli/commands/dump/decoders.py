"""Decoders: keys and values of a dump as text, and as values for JSON.

Here are those that read a key or a value by itself; `coordinator_decoders` has those that need both. What
cannot be decoded is shown as it is, with a note; how often that happened is counted.
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
"""Kafka's own decoder classes, of whichever package. Its `DefaultDecoder` prints where a Java array lies."""


class Decoder(Protocol):
    """Reads the key and the value of a record."""

    failures: int
    """How many keys and values were not what the decoder reads."""

    is_plain: bool
    """Whether all that it does is to take bytes for text."""

    def texts(self, record: DumpedRecord) -> tuple[str | None, str | None]:
        """Return key and value as Kafka's tool prints them; None is not printed at all."""
        ...

    def values(self, record: DumpedRecord) -> tuple[object, object]:
        """Return key and value for JSON."""
        ...


class PlainDecoder:
    """Reads key and value each by a decoder of its own."""

    def __init__(self, key: str = "string", value: str = "string") -> None:
        self.failures = 0
        self.is_plain = key == value == "string"
        self._key = field_decoder(key)
        self._value = field_decoder(value)

    def texts(self, record: DumpedRecord) -> tuple[str | None, str | None]:
        """Return key and value; a null is None."""
        return self._text(record.key, self._key), self._text(record.value, self._value)

    def values(self, record: DumpedRecord) -> tuple[object, object]:
        """Return key and value; bytes that are no text are an object that says so."""
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
        # A decoder may be the user's own function: whatever it raises is about this record alone.
        except Exception as error:
            self.failures += 1
            reason = str(error) or type(error).__name__
            return {"error": reason, "base64": base64(data)}


def text_or_base64(data: bytes) -> object:
    """Return the text of bytes, or an object with their base64 if they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64(data)}


def base64(data: bytes) -> str:
    """Return the base64 of bytes."""
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
    """Return the decoder of this name; None takes bytes for text. Raises `UsageError`."""
    if name.startswith(PYTHON_PREFIX):
        return python_function(name.removeprefix(PYTHON_PREFIX))
    short = JAVA_DECODERS.get(name.rpartition(".")[2], name)
    if short not in FIELD_DECODERS:
        known = ", ".join([*FIELD_DECODERS, f"{PYTHON_PREFIX}module.function"])
        raise UsageError(f"there is no decoder `{name}`", hint=known)
    return FIELD_DECODERS[short]


def python_function(path: str) -> Decode:
    """Return the function `module.function`, the module being looked for in the working directory too."""
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
        raise UsageError(f"the decoder is no function: `{path}`")
    decode: Decode = function
    return decode
