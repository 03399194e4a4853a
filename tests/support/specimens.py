"""The one specimen of a message that the golden frames hold, made by walking its declaration.

The frames were written by Apache Kafka's own classes from the same rules:

- A value follows from the field's name and from the index of the element it stands in (0 outside arrays), so
  that two fields never change places unnoticed.
- An array has two elements. In the second, what may be null is null and tagged fields are left out.
"""

from __future__ import annotations

from hashlib import md5
from typing import Any
from zlib import crc32

from kcli.protocol.schema.fields import Field, fields_of

CORRELATION_ID = 1234567
CLIENT_ID = "golden"

RECORDS = bytes.fromhex(
    "00000000000000000000003affffffff02e99b8dd8000000000000"
    "0000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff"
    "0000000110000000026b027600"
)
"""A batch of one record, `k`=`v`."""

_INTEGER_BITS = {"i8": 7, "i16": 15, "i32": 31, "i64": 63, "u8": 8, "u16": 16, "u32": 32}


def specimen(struct: type[Any], version: int, index: int = 0) -> Any:
    """Return the specimen of a class in one version."""
    values = {
        field.name: _value(field, version, index)
        for field in fields_of(struct)
        if version in field.versions and not (index == 1 and field.is_tagged(version))
    }
    for field in fields_of(struct):
        if field.name not in values:
            values[field.name] = field.make_default()
    return struct(**values)


def _value(field: Field, version: int, index: int) -> object:
    if index == 1 and version in field.nullable:
        return None
    if field.is_array:
        return [_item(field, version, 0), _item(field, version, 1)]
    return _item(field, version, index)


def _item(field: Field, version: int, index: int) -> object:
    if field.struct is not None:
        return specimen(field.struct, version, index)
    assert field.wire is not None
    name = f"{field.name}{index}".encode()
    match field.wire.kind:
        case "boolean":
            return True
        case "f64":
            return crc32(name) / 8
        case "string":
            return f"{field.name} {index} é"
        case "uuid":
            return md5(name).digest()
        case "bytes":
            return f"{field.name} {index}".encode()
        case "records":
            return RECORDS
        case kind:
            return (crc32(name) * 0x1_0001_0001) & ((1 << _INTEGER_BITS[kind]) - 1)
