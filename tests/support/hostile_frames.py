"""Hostile frames: requests cut short, flipped, stretched, and lying about what they hold.

Two ways to make them: `damaged` does random harm to any frame; `length_fields` finds every length and count
of a message by encoding it twice, so that each can be made to lie, or its array stuffed with millions of the
smallest elements.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.protocol.frames import RequestHeader, encode_request
from kcli.protocol.schema.declaration import codec, message_info
from kcli.protocol.schema.fields import Field, fields_of
from kcli.protocol.schema.unsigned_varint import encode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

CORRELATION_ID = 77
SIZE = struct.Struct(">i")

SIZE_LIES = (-(2**31), -5, -1, 0, 1, 7, 200_000_000, 2**31 - 1)
INTEGER_LIES = {
    2: tuple(struct.pack(">h", number) for number in (-(2**15), -2, -1, 2**15 - 1)),
    4: tuple(struct.pack(">i", number) for number in (-(2**31), -2, -1, 100_000_000, 2**31 - 1)),
}
VARINT_LIES = (
    b"\x00",
    b"\x7f",
    b"\xff\x7f",
    b"\x81\x80\x80\x30",  # 100,663,297: plausible to whoever only looks at the limit of a request
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
)


def sized(body: bytes | bytearray) -> bytes:
    """A frame: the size, then the body."""
    return SIZE.pack(len(body)) + body


def header(request_class: type[Any], version: int) -> bytes:
    """The request header that goes before a body of this class, without the size."""
    key = message_info(request_class).key
    whole = encode_request(
        RequestHeader(key, version, CORRELATION_ID, "raw"), minimal(request_class, version)
    )
    body = codec(request_class, version).encode(minimal(request_class, version))
    return whole[SIZE.size : len(whole) - len(body)]


# --- random harm -------------------------------------------------------------------------------------


def damaged(frame: bytes, random: Random) -> Iterator[bytes]:
    """A dozen ways to spoil one frame; some of them may leave it valid."""
    body = frame[SIZE.size :]
    cut = random.randrange(len(frame))
    yield frame[:cut]
    yield sized(body[: random.randrange(len(body))])
    yield sized(body[: random.randrange(len(body))] + body[random.randrange(len(body)) :])
    for flips in (1, 1, 2, 8):
        yield sized(flipped(body, random, flips))
    for width in (1, 2, 4, 8):
        yield sized(planted(body, random, width))
    yield SIZE.pack(random.choice(SIZE_LIES)) + body
    yield SIZE.pack(len(body) + random.choice((-3, -1, 1, 9))) + body
    yield frame + random.randbytes(random.randrange(1, 40))
    yield sized(body + random.randbytes(random.randrange(1, 40)))


def flipped(body: bytes, random: Random, count: int) -> bytes:
    """`body` with some bits the other way round."""
    spoiled = bytearray(body)
    for _ in range(count):
        spoiled[random.randrange(len(spoiled))] ^= 1 << random.randrange(8)
    return bytes(spoiled)


def planted(body: bytes, random: Random, width: int) -> bytes:
    """`body` with an extreme number of `width` bytes somewhere."""
    number = random.choice(
        (b"\xff" * width, b"\0" * width, b"\x7f" + b"\xff" * (width - 1), b"\x80".ljust(width, b"\0"))
    )
    position = random.randrange(max(1, len(body) - width))
    return body[:position] + number + body[position + width :]


# --- lengths and counts ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LengthField:
    """Where the length or count of one field stands in a body, and what the body looks like.

    For an array, `empty` is the body without elements, and `element` the smallest one.
    """

    name: str
    body: bytes
    position: int
    width: int
    is_varint: bool
    empty: bytes = b""
    element: bytes = b""

    def lies(self) -> Iterator[bytes]:
        """The body with each impossible length, as it is and with plenty of zeros behind it to read."""
        end = self.position + self.width
        for lie in VARINT_LIES if self.is_varint else INTEGER_LIES[self.width]:
            lying = self.body[: self.position] + lie + self.body[end:]
            yield lying
            yield lying + bytes(10_000)

    def stuffed(self, count: int) -> bytes:
        """The body with an array of `count` smallest elements."""
        length = encode_unsigned_varint(count + 1) if self.is_varint else struct.pack(">i", count)
        rest = self.empty[self.position + self.width :]
        return b"".join((self.empty[: self.position], length, self.element * count, rest))


def minimal(struct_class: type[Any], version: int) -> Any:
    """A message in which every array has one element and every text one letter; nothing is null."""
    return _made(struct_class, version, _one)


def smallest(struct_class: type[Any], version: int) -> Any:
    """A message of the fewest bytes: empty arrays and texts, null where a struct may be."""
    return _made(struct_class, version, _least)


def length_fields(request_class: type[Any], version: int) -> list[LengthField]:
    """Every length and count of a request, nested ones included, tagged ones not."""
    return list(_LengthFinder(request_class, version).find())


class _LengthFinder:
    """Walks one minimal request, changing one value at a time to see where its length stands."""

    def __init__(self, request_class: type[Any], version: int) -> None:
        self._version = version
        self._flexible = message_info(request_class).is_flexible(version)
        self._codec = codec(request_class, version)
        self._request = minimal(request_class, version)
        self._body = self._codec.encode(self._request)

    def find(self) -> Iterator[LengthField]:
        yield from self._visit(self._request, "")

    def _visit(self, owner: Any, path: str) -> Iterator[LengthField]:
        for field in fields_of(type(owner)):
            if self._version not in field.versions or field.is_tagged(self._version):
                continue
            name, value = path + field.name, getattr(owner, field.name)
            if field.is_array:
                yield self._array(owner, field, name)
            has_length = field.wire is not None and not field.wire.format
            if has_length:
                yield self._blob(owner, field, name)
            elif field.struct is not None:
                yield from self._visit(value[0] if field.is_array else value, name + ".")

    def _array(self, owner: Any, field: Field, name: str) -> LengthField:
        empty = self._with(owner, field, [])
        single = self._with(owner, field, [_item(field, self._version, _least)])
        low = _first_difference(empty, single)
        element = single[low + 1 : low + 1 + len(single) - len(empty)]
        return self._field(name, low, 4, empty, element)

    def _blob(self, owner: Any, field: Field, name: str) -> LengthField:
        longer = _item(field, self._version, _one) * 2
        body = self._with(owner, field, [longer] if field.is_array else longer)
        assert field.wire is not None
        return self._field(name, _first_difference(self._body, body), 2 if field.wire.kind == "string" else 4)

    def _field(
        self, name: str, low: int, width: int, empty: bytes = b"", element: bytes = b""
    ) -> LengthField:
        width = 1 if self._flexible else width
        return LengthField(name, self._body, low + 1 - width, width, self._flexible, empty, element)

    def _with(self, owner: Any, field: Field, value: object) -> bytes:
        kept = getattr(owner, field.name)
        setattr(owner, field.name, value)
        body = self._codec.encode(self._request)
        setattr(owner, field.name, kept)
        return body


def _first_difference(one: bytes, other: bytes) -> int:
    return next(index for index, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)


def _made(struct_class: type[Any], version: int, make: Callable[[Field, int], object]) -> Any:
    values = {
        field.name: make(field, version)
        if version in field.versions and not field.is_tagged(version)
        else field.make_default()
        for field in fields_of(struct_class)
    }
    return struct_class(**values)


def _one(field: Field, version: int) -> object:
    one = _item(field, version, _one)
    return [one] if field.is_array else one


def _least(field: Field, version: int) -> object:
    if field.is_array:
        return []
    if field.struct is not None and version in field.nullable:
        return None
    return _item(field, version, _least)


def _item(field: Field, version: int, make: Callable[[Field, int], object]) -> Any:
    """The value of a field, or one element of its array."""
    if field.struct is not None:
        return _made(field.struct, version, make)
    assert field.wire is not None
    if make is _one:
        return {"string": "a", "bytes": b"a", "records": b"a"}.get(field.wire.kind, field.wire.default)
    return field.wire.default
