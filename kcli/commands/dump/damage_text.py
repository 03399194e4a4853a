"""Damage in words: where, which check, which bytes, what follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.storage.damage import Damage, FieldBytes

MOST_BYTES_SHOWN = 16


def describe(path: str, damage: Damage) -> Iterator[str]:
    """Yield the lines that explain a damage."""
    what = "note" if damage.is_harmless else "damage"
    where = f"`{path}`, byte {damage.position}"
    if damage.offset is not None:
        where += f", offset {damage.offset}"
    yield f"{what}: {where}: {damage.message}"
    yield f"  {damage.kind.value}: {damage.kind.meaning}"
    if damage.expected is not None:
        yield f"  expected {damage.expected}, found {damage.found}{field_text(damage.field)}"
    if damage.skipped_bytes:
        yield f"  {damage.skipped_bytes} bytes belong to no batch; {damage.what_follows}"
    else:
        yield f"  {damage.size_bytes} bytes are affected; {damage.what_follows}"


def field_text(field: FieldBytes | None) -> str:
    """Return the bytes that were looked at, in hexadecimal."""
    if field is None:
        return ""
    shown = field.raw[:MOST_BYTES_SHOWN].hex(" ") + (" …" if len(field.raw) > MOST_BYTES_SHOWN else "")
    return f" (the {field.name} at byte {field.position}: {shown})"


def damage_fields(damage: Damage) -> dict[str, object]:
    """Return what is known of a damage."""
    field = damage.field
    return {
        "kind": damage.kind.value,
        "position": damage.position,
        "offset": damage.offset,
        "size_bytes": damage.size_bytes,
        "skipped_bytes": damage.skipped_bytes,
        "is_harmless": damage.is_harmless,
        "message": damage.message,
        "meaning": damage.kind.meaning,
        "expected": damage.expected,
        "found": damage.found,
        "field": None
        if field is None
        else {"name": field.name, "position": field.position, "bytes": field.raw.hex()},
        "next_position": damage.next_position,
    }
