"""Serializers and deserializers of `produce` and `consume`, by short name or Java class name.

The bytes are those of the Java classes `org.apache.kafka.common.serialization.*`: numbers big-endian, a UUID
as its 36 characters, a boolean as one byte. The text is how Java prints the value. `string` and `bytes` leave
the bytes as they are.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import NamedTuple

from kcli.commands.shared.java import java_text, shortest_single
from kcli.errors import KcliError, UsageError

Convert = Callable[[bytes], bytes]
Decode = Callable[[bytes], object]

JAVA_PREFIX = "org.apache.kafka.common.serialization."
JAVA_NAMES = {"integer": "int", "bytearray": "bytes", "bytebuffer": "bytes"}


class Serde(NamedTuple):
    """How values of one type become bytes, and bytes values. Both raise `ValueError` for invalid input."""

    encode: Callable[[str], bytes]
    decode: Decode


def number(layout: str, parse: Callable[[str], int | float]) -> Serde:
    packer = struct.Struct(layout)

    def decode(data: bytes) -> object:
        if len(data) != packer.size:
            raise ValueError(f"{packer.size} bytes are expected")
        return packer.unpack(data)[0]

    return Serde(lambda text: packer.pack(parse(text)), decode)


def decode_single(data: bytes) -> object:
    """Return a single-precision number with its own shortest digits, not those of its double."""
    return float(shortest_single(float(str(number(">f", float).decode(data)))))


def refuse(_: object) -> bytes:
    """Refuse a value: the only value of this type is null."""
    raise ValueError("only null is expected")


SERDES = {
    "short": number(">h", int),
    "int": number(">i", int),
    "long": number(">q", int),
    "float": Serde(number(">f", float).encode, decode_single),
    "double": number(">d", float),
    "uuid": Serde(lambda text: str(uuid.UUID(text)).encode(), lambda data: str(uuid.UUID(data.decode()))),
    "boolean": Serde(
        lambda text: bytes([("false", "true").index(text.strip().lower())]),
        lambda data: bool((b"\x00", b"\x01").index(data)),
    ),
    "void": Serde(refuse, refuse),
}


def find(name: str, suffix: str) -> tuple[str, Serde | None]:
    """Return a type's short name, and its serde, None for `string` and `bytes`."""
    short = name.removeprefix(JAVA_PREFIX).removesuffix(suffix).lower()
    short = JAVA_NAMES.get(short, short)
    if short not in ("string", "bytes", *SERDES):
        raise UsageError(
            f"there is no {suffix.lower()} `{name}`", hint=", ".join(("string", "bytes", *SERDES))
        )
    return short, SERDES.get(short)


def serializer(name: str) -> Convert | None:
    """Return the function from a line's text to a record's bytes, None if they are the same."""
    short, serde = find(name, "Serializer")
    if serde is None:
        return None
    encode = serde.encode

    def serialize(text: bytes) -> bytes:
        try:
            return encode(text.decode())
        except (ValueError, OverflowError, struct.error):
            raise KcliError(
                f"not a value of type {short}: {text.decode('utf-8', 'backslashreplace')}"
            ) from None

    return serialize


def decoder(name: str) -> Decode | None:
    """Return the function from a record's bytes to a value, None if bytes stay bytes."""
    short, serde = find(name, "Deserializer")
    if serde is None:
        return None
    decode = serde.decode

    def deserialize(data: bytes) -> object:
        try:
            return decode(bytes(data))
        except ValueError:
            raise KcliError(
                f"not a value of type {short}: {len(data)} bytes {bytes(data[:32]).hex()}"
            ) from None

    return deserialize


def deserializer(name: str) -> Convert | None:
    """Return the function from a record's bytes to text, None if they are the same."""
    decode = decoder(name)
    return None if decode is None else lambda data: java_text(decode(data)).encode()
