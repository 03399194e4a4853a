"""Selection: the topics and partitions asked for, and the partitions that this means now.

As in Spark's source a pattern matches any part of a name (anchor it with `^` and `$`) and never selects
internal topics; a topic that is named may be internal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kcli.errors import UsageError
from kcli.protocol.re2 import InvalidExpression
from kcli.protocol.topic_expression import TopicExpression
from kcli.protocol.topics import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.spark.source.source import TopicIdentity


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Every partition of named topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """Every partition of the topics whose names match a regular expression somewhere."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """Exactly these partitions."""

    partitions: tuple[TopicPartition, ...]


Selection: TypeAlias = Subscribe | SubscribePattern | Assign


@dataclass(frozen=True, slots=True)
class Selected:
    """The existing partitions of a selection, in order, their topics, and what is missing."""

    partitions: tuple[TopicPartition, ...]
    topics: tuple[TopicIdentity, ...]
    missing: tuple[TopicPartition, ...] = ()
    """Named partitions that do not exist; number -1 is a whole topic."""


def select(selection: Selection, topics: Sequence[TopicIdentity]) -> Selected:
    """Return what a selection means among the existing topics."""
    known = {topic.name: topic for topic in topics}
    match selection:
        case Subscribe(names):
            chosen = {
                TopicPartition(name, index)
                for name in names
                if name in known
                for index in known[name].partitions
            }
            missing = {TopicPartition(name, -1) for name in names if name not in known}
        case SubscribePattern(pattern):
            found = compiled(pattern)
            chosen = {
                TopicPartition(name, index)
                for name, topic in known.items()
                if name not in INTERNAL_TOPICS and found.fullmatch(name)
                for index in topic.partitions
            }
            missing = set()
        case Assign(partitions):
            chosen = {
                one
                for one in partitions
                if one.topic in known and one.partition in known[one.topic].partitions
            }
            missing = {
                one if one.topic in known else TopicPartition(one.topic, -1) for one in partitions
            } - chosen
    names_chosen = {one.topic for one in chosen}
    identities = tuple(known[name] for name in sorted(names_chosen))
    return Selected(tuple(sorted(chosen)), identities, tuple(sorted(missing)))


def compiled(pattern: str) -> TopicExpression:
    """Return a pattern for any part of a topic's name; raise `UsageError` for an invalid RE2 expression."""
    try:
        return TopicExpression(f".*(?:{pattern}).*")
    except InvalidExpression as error:
        raise UsageError(f"invalid topic pattern: {pattern}: {error}") from error
