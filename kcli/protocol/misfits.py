"""Finds the field that made an encoder fail. Slow, and only ever asked after the failure."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from kcli.protocol.schema_fields import Field, Wire, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHORT_TEXT = 60


def find_misfit(struct: type[Any], value: object, version: int) -> str | None:
    """Return where the first value that does not fit is and why, such as "topics[3].name: null"."""
    return next(_misfits(struct, value, version), None)


def _misfits(struct: type[Any], value: object, version: int) -> Iterator[str]:
    if type(value) is not struct:
        yield f": a {type(value).__name__} in place of a {struct.__name__}"
        return
    for field in fields_of(struct):
        content = getattr(value, field.name, None)
        if version not in field.versions:
            if not field.ignorable and content != field.make_default():
                yield f"{field.name}: not in this version"
        elif content is None:
            if version not in field.nullable:
                yield f"{field.name}: null"
        else:
            for misfit in _content_misfits(field, content, version):
                yield field.name + misfit


def _content_misfits(field: Field, content: object, version: int) -> Iterator[str]:
    if not field.is_array:
        yield from _item_misfits(field, content, version, "")
    elif not isinstance(content, Sequence) or isinstance(content, str):
        yield f": a {type(content).__name__} in place of a list"
    else:
        for index, item in enumerate(content):
            yield from _item_misfits(field, item, version, f"[{index}]")


def _item_misfits(field: Field, item: object, version: int, where: str) -> Iterator[str]:
    if field.struct is not None:
        for misfit in _misfits(field.struct, item, version):
            yield f"{where}{'' if misfit.startswith(':') else '.'}{misfit}"
    else:
        assert field.wire is not None
        reason = _wire_misfit(field.wire, item)
        if reason is not None:
            yield f"{where}: {reason}"


def _wire_misfit(wire: Wire, item: object) -> str | None:
    shown = repr(item)
    shown = shown if len(shown) <= _SHORT_TEXT else shown[:_SHORT_TEXT] + "…"
    if wire.kind == "uuid":
        return None if isinstance(item, bytes) and len(item) == 16 else f"not 16 bytes: {shown}"
    try:
        if isinstance(item, str) and wire.kind == "string":
            return None if len(item.encode()) <= 0x7FFF else f"a string longer than 32767 bytes: {shown}"
        if wire.format:
            Struct(">" + wire.format).pack(item)
            return None
    except (StructError, ValueError):
        pass
    else:
        if wire.kind != "string" and isinstance(item, Sized) and not isinstance(item, str):
            return None
    return f"not of type {wire.kind}: {shown}"
