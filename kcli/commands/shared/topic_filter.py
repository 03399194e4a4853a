"""How options name topics, partitions and brokers: Kafka's topic lists, partition patterns, ids.

A topic list is a regular expression of RE2 in which a comma means "or"; it must match the whole name (Kafka
class `IncludeList`, which takes Java's expressions, however long they last). A partition pattern is
`[topic regex][:partitions]` where partitions is `N`, `N-M` (M excluded), `N-` or `-M` (KIP-815, Kafka class
`TopicPartitionFilter`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.arguments import LARGEST_INT32, not_empty, whole_number
from kcli.errors import UsageError
from kcli.protocol.topics import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.topic_expression import TopicExpression

COLLISION_WARNING = (
    "warning: metric names cannot tell `.` from `_` in topic names: use either of them, but not both"
)
PLAIN_NAME = r"[a-zA-Z0-9._-]+"
"""A topic's name. A dot is taken literally here, although it matches any character."""

PLAIN_NAMES = r"[a-zA-Z0-9._|-]*"
BRACKETS = r"[(\[{\\]"
PARTITION_PATTERN = r"([^:,]*)(?::(?:([0-9]{1,10})|(?:([0-9]{1,10})-([0-9]{0,10}))|-([0-9]{1,10}))?)?"

PartitionFilter = Callable[[str, int], bool]


class PartitionRange(NamedTuple):
    """Topics that match a pattern, partitions from `first` to before `end`."""

    topics: re.Pattern[str] | TopicExpression
    first: int = 0
    end: int | None = None

    def accepts(self, topic: str, partition: int) -> bool:
        in_range = self.first <= partition and (self.end is None or partition < self.end)
        return in_range and bool(self.topics.fullmatch(topic))


def topic_pattern(topic_list: str) -> re.Pattern[str] | TopicExpression:
    """Compile a topic list, ignoring blanks and surrounding quotes."""
    expression = _unquoted(topic_list.replace(",", "|"))
    if expression == ".*" or re.fullmatch(PLAIN_NAMES, expression):
        return re.compile(expression)  # nothing repeats, so nothing takes long
    from kcli.protocol.re2 import InvalidExpression
    from kcli.protocol.topic_expression import TopicExpression

    try:
        return TopicExpression(expression)
    except InvalidExpression as error:
        raise UsageError(f"`{topic_list}` is not a regular expression: {error.message}") from error


def select_topics(
    names: Iterable[str], topic_list: str | None, *, exclude_internal: bool = False
) -> list[str]:
    """Return the sorted names that a topic list matches; None matches all."""
    pattern = None if topic_list is None else topic_pattern(topic_list)
    return sorted(
        name
        for name in names
        if (pattern is None or pattern.fullmatch(name)) and not (exclude_internal and name in INTERNAL_TOPICS)
    )


def named_topics(patterns: str) -> list[str]:
    """Return the plain names in a topic list or partition patterns, none if a bracket may enclose a comma."""
    if re.search(BRACKETS, patterns):
        return []
    names = (_unquoted(pattern.partition(":")[0]) for pattern in _unquoted(patterns).split(","))
    return [*dict.fromkeys(name for name in names if re.fullmatch(PLAIN_NAME, name))]


def plain_names(topic_list: str) -> list[str] | None:
    """Return the names of a list of nothing but names, each once; None for an expression."""
    names = [_unquoted(name) for name in _unquoted(topic_list).split(",")]
    return list(dict.fromkeys(names)) if all(re.fullmatch(PLAIN_NAME, name) for name in names) else None


def partition_filter(patterns: str) -> PartitionFilter:
    """Compile a comma-separated list of partition patterns, one of which must accept a partition."""
    ranges = [parse_pattern(pattern) for pattern in patterns.split(",")]
    return lambda topic, partition: any(entry.accepts(topic, partition) for entry in ranges)


def parse_pattern(pattern: str) -> PartitionRange:
    match = re.fullmatch(PARTITION_PATTERN, pattern)
    if match is None:
        raise UsageError(
            f"`{pattern}` is not a partition pattern", hint="topic, topic:0, topic:0-3, topic:5- or topic:-3"
        )
    topic, only, first, end, before = match.groups()
    topics = topic_pattern(topic or ".*")
    if only is not None:
        return PartitionRange(topics, int(only), int(only) + 1)
    if before is not None:
        return PartitionRange(topics, 0, int(before))
    return PartitionRange(topics, int(first or 0), int(end) if end else None)


def parse_ids(text: str, option: str) -> list[int]:
    """Return a comma-separated list of partitions or brokers; errors name `option`."""
    ids = []
    for item in filter(None, map(str.strip, text.split(","))):
        number = whole_number(item, LARGEST_INT32)
        if number is None:
            raise UsageError(f"`{option}` needs numbers separated by commas: {text}")
        ids.append(number)
    return ids


def some_ids(text: str, option: str) -> list[int]:
    """Return a comma-separated list of numbers, at least one; errors name `option`."""
    ids = parse_ids(text, option)
    if not ids:
        raise UsageError(f"`{option}` cannot be empty")
    return ids


def parse_partition(text: str) -> TopicPartition:
    """Return the partition that `orders:0` names."""
    not_empty(text.partition(":")[0], "topic")
    topic, _, number = text.rpartition(":")
    partition = whole_number(number, LARGEST_INT32)
    if not topic or partition is None:
        raise UsageError(f"not TOPIC:PARTITION: {text}", hint="as `orders:0`")
    return TopicPartition(topic, partition)


def _unquoted(text: str) -> str:
    return text.replace(" ", "").strip("\"'")


def has_collision_characters(name: str) -> bool:
    """Tell whether a name has a character that metric names merge with another (Kafka class `Topic`)."""
    return "." in name or "_" in name
