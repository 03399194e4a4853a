"""The JSON of partitions, offsets and timestamps, in Spark's options and in the files of an export.

partitions   {"orders": [0, 1]}
offsets      {"orders": {"0": 23, "1": -2}}        -2 earliest, -1 latest
timestamps   {"orders": {"0": 1700000000000}}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kcli.errors import UsageError
from kcli.protocol.topics import TopicPartition
from kcli.spark.split import BatchMark

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1

PARTITIONS_EXAMPLE = '{"orders": [0, 1]}'
OFFSETS_EXAMPLE = '{"orders": {"0": 23, "1": -2}}'
TIMESTAMPS_EXAMPLE = '{"orders": {"0": 1700000000000, "1": 1700000000000}}'


def parse_partitions(text: str, option: str) -> tuple[TopicPartition, ...]:
    """Return the partitions of `{"t":[0,1]}`, in order; raise `UsageError` naming the option."""
    found: set[TopicPartition] = set()
    for topic, indexes in _object(text, option, PARTITIONS_EXAMPLE).items():
        if not isinstance(indexes, list):
            raise _not_like(option, text, PARTITIONS_EXAMPLE)
        for index in indexes:
            number = _whole(index, _MAX_INT32)
            if number is None or number < 0:
                raise _not_like(option, text, PARTITIONS_EXAMPLE)
            found.add(TopicPartition(topic, number))
    return tuple(sorted(found))


def parse_offsets(text: str, option: str) -> dict[TopicPartition, int]:
    """Return the offsets of `{"t":{"0":23}}` by partition; raise `UsageError` naming the option."""
    found = _numbers(text, option, OFFSETS_EXAMPLE)
    for partition, offset in found.items():
        if offset < -2:
            raise UsageError(
                f"invalid value for `{option}`: {partition} cannot be at offset {offset}",
                hint="an offset from 0 on, -2 for the first one or -1 for the end",
            )
    return found


def _numbers(text: str, option: str, example: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, by_partition in _object(text, option, example).items():
        if not isinstance(by_partition, dict):
            raise _not_like(option, text, example)
        for index, value in by_partition.items():
            partition = _whole(index, _MAX_INT32)
            number = _whole(value, _MAX_INT64)
            if partition is None or partition < 0 or number is None:
                raise _not_like(option, text, example)
            found[TopicPartition(topic, partition)] = number
    return dict(sorted(found.items()))


def parse_timestamps(text: str, option: str) -> dict[TopicPartition, int]:
    """Return the timestamps of `{"t":{"0":1000}}` by partition; raise `UsageError` naming the option."""
    return _numbers(text, option, TIMESTAMPS_EXAMPLE)


def _object(text: str, option: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_like(option, text, example) from error
    if not isinstance(value, dict):
        raise _not_like(option, text, example)
    return value


def _whole(value: object, maximum: int) -> int | None:
    """Return a whole number in range, given as such or as text."""
    if isinstance(value, str):
        try:
            value = int(value) if value.isascii() and "_" not in value else None
        except ValueError:
            return None
    if not isinstance(value, int) or isinstance(value, bool) or not -maximum - 1 <= value <= maximum:
        return None
    return value


def _not_like(option: str, text: str, example: str) -> UsageError:
    shown = text if len(text) <= 200 else text[:200] + "…"
    return UsageError(f"invalid value for `{option}`: {shown}", hint=f"use JSON like {example}")


Value = TypeVar("Value")
ByTopic: TypeAlias = "dict[str, dict[str, Value]]"


def nested(values: Mapping[TopicPartition, Value]) -> ByTopic[Value]:
    """Return values by topic and partition, sorted."""
    by_topic: ByTopic[Value] = {}
    for (topic, partition), value in sorted(values.items(), key=lambda one: one[0]):
        by_topic.setdefault(topic, {})[str(partition)] = value
    return by_topic


def flat(by_topic: Mapping[str, Mapping[str, Value]]) -> dict[TopicPartition, Value]:
    """Return the values that `nested` arranged, by partition."""
    return {
        TopicPartition(topic, int(partition)): value
        for topic, values in by_topic.items()
        for partition, value in values.items()
    }


def resets_of(stored: Mapping[str, Any]) -> tuple[TopicPartition, ...]:
    """Return the partitions of a plan or commit that begin again; older ones have none."""
    return tuple(TopicPartition(*one) for one in stored.get("resets", ()))


def marks_of(stored: Mapping[str, Any]) -> dict[TopicPartition, tuple[BatchMark, ...]]:
    """Return the marks of a plan or commit; older ones have none."""
    marks = flat(stored.get("marks", {}))
    return {one: tuple(BatchMark(*mark) for mark in found) for one, found in marks.items()}
