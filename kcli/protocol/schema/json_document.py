"""Messages and records as JSON documents, with the field names of Kafka's published schemas.

    document(OffsetCommitValue(...), 3)    {"offset": 12, "leaderEpoch": -1, "metadata": "", ...}

The rules are those of Kafka's generated `…JsonConverter` classes: the fields of that version in the order of
the schema, tagged fields only if they differ from the default, bytes in base64, ids as text.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from kcli.protocol.schema.fields import Field, fields_of
from kcli.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable

_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "uuid": uuid_to_text,
    "bytes": lambda data: b64encode(data).decode("ascii"),
    "records": len,
}

_COLUMNS: dict[tuple[type[Any], int], list[tuple[str, Field, Callable[[Any], Any] | None]]] = {}


def document(value: object, version: int) -> dict[str, Any]:
    """Return a message, record or struct as a JSON object of the fields that `version` has."""
    found = {}
    for name, field, convert in _columns(type(value), version):
        item = getattr(value, field.name)
        if field.is_tagged(version) and item == field.make_default():
            continue
        if item is None or convert is None:
            found[name] = item
        elif field.is_array:
            found[name] = [convert(each) for each in item]
        else:
            found[name] = convert(item)
    return found


def json_name(name: str) -> str:
    """Return a field's name as the schemas spell it: `leader_epoch` is `leaderEpoch`."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _columns(cls: type[Any], version: int) -> list[tuple[str, Field, Callable[[Any], Any] | None]]:
    columns = _COLUMNS.get((cls, version))
    if columns is None:
        columns = _COLUMNS[cls, version] = [
            (json_name(field.name), field, _conversion(field, version))
            for field in fields_of(cls)
            if version in field.versions
        ]
    return columns


def _conversion(field: Field, version: int) -> Callable[[Any], Any] | None:
    if field.struct is not None:
        return lambda item: document(item, version)
    return _CONVERSIONS.get(field.wire.kind) if field.wire is not None else None
