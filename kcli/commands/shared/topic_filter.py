"""Which topics and partitions a command means: Kafka's topic lists and partition patterns.

A topic list is a regular expression in which a comma means "or", and it must match the whole name
(Kafka class `IncludeList`). A partition pattern is `[topic regex][:partitions]` where partitions is `N`,
`N-M` (M excluded), `N-` or `-M` (KIP-815, Kafka class `TopicPartitionFilter`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kcli.commands.shared.arguments import LARGEST_INT32, whole_number
from kcli.errors import UsageError
from kcli.protocol.topics import INTERNAL_TOPICS

COLLISION_WARNING = (
    "warning: metric names cannot tell `.` from `_` in topic names: use either of them, but not both"
)
PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
"""A topic's name; a dot in it is taken for one, although it matches any character."""

BRACKETS = re.compile(r"[(\[{\\]")
PARTITION_PATTERN = re.compile(
    r"([^:,]*)(?::(?:([0-9]{1,10})|(?:([0-9]{1,10})-([0-9]{0,10}))|-([0-9]{1,10}))?)?"
)

PartitionFilter = Callable[[str, int], bool]


class PartitionRange(NamedTuple):
    """Topics that match a pattern, partitions from `first` up to and without `end`."""

    topics: re.Pattern[str]
    first: int = 0
    end: int | None = None

    def accepts(self, topic: str, partition: int) -> bool:
        """Tell whether this partition is meant."""
        in_range = self.first <= partition and (self.end is None or partition < self.end)
        return in_range and self.topics.fullmatch(topic) is not None


def topic_pattern(topic_list: str) -> re.Pattern[str]:
    """Compile a topic list; blanks and surrounding quotes do not count."""
    expression = _unquoted(topic_list.replace(",", "|"))
    try:
        return re.compile(expression)
    except re.error as error:
        raise UsageError(f"`{topic_list}` is not a regular expression: {error.msg}") from error


def select_topics(
    names: Iterable[str], topic_list: str | None, *, exclude_internal: bool = False
) -> list[str]:
    """Return, sorted, the names that a topic list matches; None matches all."""
    pattern = None if topic_list is None else topic_pattern(topic_list)
    return sorted(
        name
        for name in names
        if (pattern is None or pattern.fullmatch(name)) and not (exclude_internal and name in INTERNAL_TOPICS)
    )


def named_topics(patterns: str) -> list[str]:
    """Return the plain names in a topic list or in partition patterns: what else is there may match anything.

    Where there are brackets, a comma does not always part two topics.
    """
    if BRACKETS.search(patterns):
        return []
    names = (_unquoted(pattern.partition(":")[0]) for pattern in _unquoted(patterns).split(","))
    return [*dict.fromkeys(name for name in names if PLAIN_NAME.fullmatch(name))]


def partition_filter(patterns: str) -> PartitionFilter:
    """Compile a comma-separated list of partition patterns: a partition is meant if one accepts it."""
    ranges = [parse_pattern(pattern) for pattern in patterns.split(",")]
    return lambda topic, partition: any(entry.accepts(topic, partition) for entry in ranges)


def parse_pattern(pattern: str) -> PartitionRange:
    """Return one partition pattern as a range."""
    match = PARTITION_PATTERN.fullmatch(pattern)
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
    """Return a comma-separated list of partitions or brokers; `option` is named in the error."""
    ids = []
    for item in filter(None, map(str.strip, text.split(","))):
        number = whole_number(item, LARGEST_INT32)
        if number is None:
            raise UsageError(f"`{option}` wants numbers separated by commas: {text}")
        ids.append(number)
    return ids


def some_ids(text: str, option: str) -> list[int]:
    """Return a comma-separated list of numbers that may not be empty; `option` is named in the error."""
    ids = parse_ids(text, option)
    if not ids:
        raise UsageError(f"`{option}` cannot be empty")
    return ids


def _unquoted(text: str) -> str:
    return text.replace(" ", "").strip("\"'")


def has_collision_characters(name: str) -> bool:
    """Tell whether the name holds a character that metric names fold together (Kafka class `Topic`)."""
    return "." in name or "_" in name
