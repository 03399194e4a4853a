"""Why bytes are no message: a slow walk over them, in the words of Kafka's generated classes.

Decoders raise Python's own errors for malformed bytes, whose words mean nothing to users. Only then the bytes
are walked again, field by field (Kafka's `ByteBufferAccessor` and the `read` that its generator writes).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.protocol.schema.fields import Field, fields_of
from kcli.protocol.schema.json_document import json_name
from kcli.protocol.schema.unsigned_varint import decode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Sequence


def reason_not_decodable(
    struct: type[Any], data: Sequence[int], position: int, version: int, *, flexible: bool
) -> str | None:
    """Return what is wrong with the message at `position`, None if nothing is found."""
    try:
        _Walk(data, position, version, flexible=flexible).struct(struct)
    except ValueError as error:
        return str(error)
    except IndexError:
        return "cut short"
    return None


class _Walk:
    """Reads over a message; raises `ValueError` where it cannot go on, `IndexError` within a varint."""

    def __init__(self, data: Sequence[int], position: int, version: int, *, flexible: bool) -> None:
        self._data = data
        self._position = position
        self._version = version
        self._flexible = flexible

    def struct(self, struct: type[Any]) -> None:
        tagged = {}
        for field in fields_of(struct):
            if self._version not in field.versions:
                continue
            if self._flexible and field.is_tagged(self._version):
                assert field.tag is not None
                tagged[field.tag.number] = field
            else:
                self._field(field)
        for _ in range(self._varint() if self._flexible else 0):
            number, size = self._varint(), self._varint()
            if number in tagged:
                self._field(tagged[number])
            else:
                self._take(size, "tagged field")

    def _field(self, field: Field) -> None:
        if not field.is_array:
            self._item(field)
            return
        count = self._length(">i", field)
        left = len(self._data) - self._position
        if count > left:
            raise ValueError(
                f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
            )
        for _ in range(count):
            self._item(field, is_element=True)

    def _item(self, field: Field, *, is_element: bool = False) -> None:
        if field.struct is not None:
            if not is_element and self._version in field.nullable:
                present = self._number(">b", field)
                if present < 0 or (present == 0 and field.is_tagged(self._version)):
                    return
            self.struct(field.struct)
        elif field.wire is not None and field.wire.format:
            self._take(Struct(f">{field.wire.format}").size, f"`{json_name(field.name)}`")
        elif field.wire is not None:
            self._take(self._length(">h" if field.wire.kind == "string" else ">i", field), "byte array")

    def _length(self, form: str, field: Field) -> int:
        """Return a length or a count, 0 for null where the field may be null."""
        length = self._varint() - 1 if self._flexible else self._number(form, field)
        if length < 0 and not (length == -1 and self._version in field.nullable):
            raise ValueError(f"non-nullable field {json_name(field.name)} was serialized as null")
        return max(length, 0)

    def _number(self, form: str, field: Field) -> int:
        packer = Struct(form)
        start = self._position
        self._take(packer.size, f"`{json_name(field.name)}`")
        (number,) = packer.unpack(bytes(self._data[start : self._position]))
        return int(number)

    def _varint(self) -> int:
        number, self._position = decode_unsigned_varint(self._data, self._position)
        return number

    def _take(self, size: int, what: str) -> None:
        left = len(self._data) - self._position
        if size > left:
            raise ValueError(f"Error reading {what} of {size} byte(s): only {left} byte(s) available")
        self._position += size
