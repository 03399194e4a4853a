"""Serializers and deserializers of `produce` and `consume`, by short name or Java class name.

Bytes are those of the Java classes `org.apache.kafka.common.serialization.*`: numbers big-endian, a UUID as
its 36 characters, a boolean as one byte. Text is how Java prints the value. `string` and `bytes` leave the
bytes as they are.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from kcli.errors import KcliError, UsageError

Convert = Callable[[bytes], bytes]
Decode = Callable[[bytes], object]

JAVA_PREFIX = "org.apache.kafka.common.serialization."
JAVA_NAMES = {"integer": "int", "bytearray": "bytes", "bytebuffer": "bytes"}


class Serde(NamedTuple):
    """How values of one type become bytes and come back. Both raise ValueError for what they cannot take."""

    encode: Callable[[str], bytes]
    decode: Decode


def number(layout: str, parse: Callable[[str], int | float]) -> Serde:
    """Return the serde of a number of a fixed size."""
    packer = struct.Struct(layout)

    def decode(data: bytes) -> object:
        if len(data) != packer.size:
            raise ValueError(f"{packer.size} bytes are expected")
        return packer.unpack(data)[0]

    return Serde(lambda text: packer.pack(parse(text)), decode)


def decode_single(data: bytes) -> object:
    """Return a single-precision number with the digits that name it, not those of its double."""
    return float(shortest_single(float(str(number(">f", float).decode(data)))))


def encode_boolean(text: str) -> bytes:
    """Return one byte for `true` or `false`."""
    return bytes([("false", "true").index(text.strip().lower())])


def decode_boolean(data: bytes) -> object:
    """Return the boolean of one byte."""
    return bool((b"\x00", b"\x01").index(data))


def refuse(_: object) -> bytes:
    """Refuse a value: this type is null alone."""
    raise ValueError("only null is expected")


SERDES = {
    "short": number(">h", int),
    "int": number(">i", int),
    "long": number(">q", int),
    "float": Serde(number(">f", float).encode, decode_single),
    "double": number(">d", float),
    "uuid": Serde(lambda text: str(uuid.UUID(text)).encode(), lambda data: str(uuid.UUID(data.decode()))),
    "boolean": Serde(encode_boolean, decode_boolean),
    "void": Serde(refuse, refuse),
}


def find(name: str, suffix: str) -> tuple[str, Serde | None]:
    """Return a type's short name, and its serde unless bytes stay as they are."""
    short = name.removeprefix(JAVA_PREFIX).removesuffix(suffix).lower()
    short = JAVA_NAMES.get(short, short)
    if short not in ("string", "bytes", *SERDES):
        raise UsageError(
            f"there is no {suffix.lower()} `{name}`", hint=", ".join(("string", "bytes", *SERDES))
        )
    return short, SERDES.get(short)


def serializer(name: str) -> Convert | None:
    """Return the function that turns a line's text into a record's bytes; None if they are the same."""
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
    """Return the function that turns a record's bytes into a value; None if bytes stay bytes."""
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
    """Return the function that turns a record's bytes into text; None if they are the same."""
    decode = decoder(name)
    return None if decode is None else lambda data: java_text(decode(data)).encode()


def java_text(value: object) -> str:
    """Return a value as Java prints it."""
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
    """Return sign, shortest significant digits, and the power of ten of the first of them."""
    text, _, exponent = repr(value).partition("e")
    sign = "-" if text.startswith("-") else ""
    whole, _, fraction = text.lstrip("-").partition(".")
    fraction = fraction.rstrip("0")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + (len(whole) - 1 if whole != "0" else len(digits) - len(fraction) - 1)
    return sign, digits.rstrip("0") or "0", power if digits else 0


def shortest_single(value: float) -> str:
    """Return the fewest digits that name a single-precision number."""
    packed = struct.pack(">f", value)
    for precision in range(1, 9):
        digits = f"{value:.{precision}g}"
        with suppress(OverflowError):  # the largest ones round up to what no single can hold
            if struct.pack(">f", float(digits)) == packed:
                return digits
    return f"{value:.9g}"
