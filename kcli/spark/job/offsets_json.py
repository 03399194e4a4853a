"""Positions by partition as the log's files have them: `{"orders": {"0": 23}}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kcli.spark.reading import BatchMark
from kcli.spark.split import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = TypeVar("Value")
ByTopic: TypeAlias = "dict[str, dict[str, Value]]"


def nested(values: Mapping[TopicPartition, Value]) -> ByTopic[Value]:
    """Return values by topic and then partition, in order."""
    by_topic: ByTopic[Value] = {}
    for (topic, partition), value in sorted(values.items(), key=lambda one: one[0]):
        by_topic.setdefault(topic, {})[str(partition)] = value
    return by_topic


def flat(by_topic: Mapping[str, Mapping[str, Value]]) -> dict[TopicPartition, Value]:
    """Return what `nested` made of values by partition."""
    return {
        TopicPartition(topic, int(partition)): value
        for topic, values in by_topic.items()
        for partition, value in values.items()
    }


def marks_of(stored: Mapping[str, Any]) -> dict[TopicPartition, tuple[BatchMark, ...]]:
    """Return the marks of a plan or a commit, none of one that was written before there were any."""
    marks = flat(stored.get("marks", {}))
    return {one: tuple(BatchMark(*mark) for mark in found) for one, found in marks.items()}
