"""Arbitrary requests aimed at something that exists, so that they get past the first check of a handler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kcli.protocol.schema.declaration import message_info
from kcli.protocol.schema.fields import Field, fields_of

if TYPE_CHECKING:
    from random import Random

_CHANGING = {
    "CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords", "AlterConfigs",
    "IncrementalAlterConfigs",
}  # fmt: skip
_NAMES = {"name", "topic", "topic_name", "resource_name", "topics", "topic_names"}
_NUMBERS = {
    "partition": (0, 1, 2, -1),
    "partition_index": (0, 1, 2, -1),
    "index": (0, 1, 2, -1),
    "max_wait_ms": (-1, 0, 5),
    "timeout_ms": (-1, 0, 5),
    "num_partitions": (-1, 0, 1, 2, 10_001, 2**31 - 1, -(2**31)),
    "count": (-1, 0, 2, 3, 10_001, 2**31 - 1, -(2**31)),
    "resource_type": (2, 4, 8, 16, 0, -1),
    "replica_id": (-1, -1, -2, 1, 2),
    "session_id": (0, 0, 1),
    "session_epoch": (0, -1, 1),
    "isolation_level": (0, 1, 2),
    "timestamp": (-1, -2, -3, -4, -5, -6, -7, 0, 2**63 - 1),
    "acks": (-1, 0, 1, 2),
}


@dataclass(frozen=True, slots=True)
class Targets:
    """Topics by name with their ids: those that must stay as they are, and those that may be changed."""

    kept: dict[str, bytes]
    victims: dict[str, bytes]
    missing: tuple[str, ...] = field(default=("missing", "", "x" * 250, "../etc", "no such topic", "ünïcode"))


def aimed(request: Any, version: int, random: Random, targets: Targets) -> Any:
    """Change names, ids and small numbers in a request to such as mean something, most of the time."""
    _aim(request, version, random, targets, is_changing=_name_of(request) in _CHANGING)
    return request


def _name_of(request: Any) -> str:
    return message_info(type(request)).name


def _aim(value: Any, version: int, random: Random, targets: Targets, *, is_changing: bool) -> None:
    chosen = targets.victims if is_changing else targets.kept
    for each in fields_of(type(value)):
        if version not in each.versions:
            continue
        part = getattr(value, each.name)
        if each.struct is not None:
            for item in part if isinstance(part, list) else [part]:
                if item is not None:
                    _aim(item, version, random, targets, is_changing=is_changing)
        elif random.random() < 0.8:
            setattr(value, each.name, _aimed_value(each, part, random, chosen, targets.missing))


def _aimed_value(
    field: Field, value: Any, random: Random, chosen: dict[str, bytes], missing: tuple[str, ...]
) -> Any:
    assert field.wire is not None
    if field.is_array and value:
        single = Field(field.name)
        single.wire = field.wire
        return [_aimed_value(single, item, random, chosen, missing) for item in value]
    if field.wire.kind == "string" and field.name in _NAMES and value is not None:
        return random.choice((*chosen, *chosen, *chosen, random.choice(missing)))
    if field.wire.kind == "uuid" and field.name == "topic_id":
        return random.choice((*chosen.values(), bytes(16)))
    if field.name in _NUMBERS and isinstance(value, int):
        return random.choice(_NUMBERS[field.name])
    return value
