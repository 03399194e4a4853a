"""The fields of a struct, read from the annotations of its declaration.

`fields_of` evaluates a class's annotations the first time a codec (or a test) asks for them, so importing
a message module costs no more than making its classes.
"""

from __future__ import annotations

import sys
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from kcli.protocol.uuids import ZERO_UUID

LATEST = 0x7FFF
"""The end of an open version range."""


class Versions:
    """A range of versions, both ends included: "3", "0-12", "5+" or "none"."""

    __slots__ = ("first", "last")

    def __init__(self, text: str) -> None:
        if text == "none":
            self.first, self.last = 1, 0
        elif text.endswith("+"):
            self.first, self.last = int(text[:-1]), LATEST
        else:
            first, dash, last = text.partition("-")
            self.first, self.last = int(first), int(last if dash else first)

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


ALWAYS = Versions("0+")
NEVER = Versions("none")


class Wire:
    """How one value travels. `format` is its `struct` letter, or "" when its length varies."""

    __slots__ = ("default", "format", "kind")

    def __init__(self, kind: str, format: str, default: object) -> None:
        self.kind = kind
        self.format = format
        self.default = default


WIRES = {
    "i8": Wire("i8", "b", 0),
    "i16": Wire("i16", "h", 0),
    "i32": Wire("i32", "i", 0),
    "i64": Wire("i64", "q", 0),
    "u8": Wire("u8", "B", 0),
    "u16": Wire("u16", "H", 0),
    "u32": Wire("u32", "I", 0),
    "f64": Wire("f64", "d", 0.0),
    "boolean": Wire("boolean", "?", False),
    "uuid": Wire("uuid", "16s", ZERO_UUID),
    "string": Wire("string", "", ""),
    "bytes": Wire("bytes", "", b""),
    "records": Wire("records", "", b""),
}


class Tag:
    """Marks a field that travels in the tag section under this number, in these versions."""

    __slots__ = ("number", "versions")

    def __init__(self, number: int, versions: Versions) -> None:
        self.number = number
        self.versions = versions


class Nullable:
    """Limits the versions in which a field may be `None`."""

    __slots__ = ("versions",)

    def __init__(self, versions: Versions) -> None:
        self.versions = versions


class Ignorable:
    """Marks a field that versions without it drop silently."""

    __slots__ = ()


class Fresh:
    """A default made anew for every object: an empty list, or a struct of defaults."""

    __slots__ = ("factory",)

    def __init__(self, factory: type[Any]) -> None:
        self.factory = factory


class Field:
    """One field of a struct, in all versions. Exactly one of `wire` and `struct` is set."""

    __slots__ = ("default", "ignorable", "is_array", "name", "nullable", "struct", "tag", "versions", "wire")

    def __init__(self, name: str) -> None:
        self.name = name
        self.wire: Wire | None = None
        self.struct: type[Any] | None = None
        self.is_array = False
        self.versions = ALWAYS
        self.nullable = NEVER
        self.tag: Tag | None = None
        self.ignorable = False
        self.default: Any = None

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and version in self.tag.versions

    def make_default(self) -> object:
        """Return the default; a mutable one is a new object."""
        return self.default.factory() if isinstance(self.default, Fresh) else self.default


_FIELDS: dict[type[Any], tuple[Field, ...]] = {}


def fields_of(struct: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a `@struct`, `@message` or `@record` class, in wire order."""
    found = _FIELDS.get(struct)
    if found is None:
        found = _FIELDS[struct] = tuple(_read_field(struct, name) for name in struct.__slots__)
    return found


def has_records(struct: type[Any], version: int) -> bool:
    """Return whether a struct, or a struct inside it, has a field of record data."""
    return any(
        field.wire is WIRES["records"] or (field.struct is not None and has_records(field.struct, version))
        for field in fields_of(struct)
        if version in field.versions
    )


def _read_field(struct: type[Any], name: str) -> Field:
    names = sys.modules[struct.__module__].__dict__
    annotation = eval(struct.__annotations__[name], names)
    field = Field(name)
    marks: tuple[object, ...] = ()
    if get_origin(annotation) is Annotated:
        annotation, marks = annotation.__origin__, annotation.__metadata__
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
        field.nullable = ALWAYS
    if get_origin(annotation) is list:
        (annotation,) = get_args(annotation)
        field.is_array = True
    if get_origin(annotation) is Annotated:
        annotation, marks = annotation.__origin__, (*annotation.__metadata__, *marks)
    for mark in marks:
        _apply_mark(field, mark)
    if field.wire is None:
        field.struct = annotation
    if name in struct.__field_defaults__:
        field.default = struct.__field_defaults__[name]
    else:
        field.default = _implicit_default(field)
    return field


def _apply_mark(field: Field, mark: object) -> None:
    match mark:
        case Wire():
            field.wire = mark
        case Versions():
            field.versions = mark
        case Nullable():
            field.nullable = mark.versions
        case Tag():
            field.tag = mark
        case Ignorable():
            field.ignorable = True
        case _:
            raise TypeError(f"{field.name}: not a schema mark: {mark!r}")


def _implicit_default(field: Field) -> object:
    if field.is_array:
        return Fresh(list)
    if field.struct is not None:
        return Fresh(field.struct)
    return field.wire.default if field.wire is not None else None
