"""Hypothesis instances of messages, records and structs, made by walking their declarations."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from kcli.protocol.schema.fields import Field, fields_of

_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
_UNSIGNED_BITS = {"u8": 8, "u16": 16, "u32": 32}

_TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(["x" * 126, "é" * 64, "y" * 300])
_BLOB = st.binary(max_size=40) | st.sampled_from([b"z" * 127, b"z" * 20_000])


def _scalar(kind: str) -> st.SearchStrategy[Any]:
    if kind in _BITS:
        half = 1 << (_BITS[kind] - 1)
        return st.integers(-half, half - 1)
    if kind in _UNSIGNED_BITS:
        return st.integers(0, (1 << _UNSIGNED_BITS[kind]) - 1)
    match kind:
        case "f64":
            return st.floats(allow_nan=False)
        case "boolean":
            return st.booleans()
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "string":
            return _TEXT
        case _:
            return _BLOB


@cache
def instances(struct: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Return objects that a version can carry: fields that it lacks keep their defaults."""
    values = {field.name: _values(field, version) for field in fields_of(struct) if version in field.versions}
    absent = {
        field.name: st.builds(field.make_default)
        for field in fields_of(struct)
        if version not in field.versions
    }
    return st.builds(struct, **values, **absent)


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        one = instances(field.struct, version)
    else:
        assert field.wire is not None
        one = _scalar(field.wire.kind)
    if field.is_array:
        one = st.lists(one, max_size=3)
        if field.wire is not None and len(field.wire.format) == 1:
            one |= st.sampled_from([[1] * 126, [0] * 127, [1] * 300])
    if version in field.nullable:
        one |= st.none()
    if field.is_tagged(version):
        one |= st.builds(field.make_default)
    return one
