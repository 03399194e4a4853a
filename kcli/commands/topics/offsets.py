"""`kcli get-offsets`: the earliest and latest offsets of partitions, or offsets by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.arguments import LARGEST_INT64, signed_number
from kcli.commands.shared.options import ClusterAddress, TopicOption, TopicsArgument, one_topic_or_none
from kcli.commands.shared.output import Table
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import TopicListing, TopicPartition
    from kcli.commands.shared.topic_filter import PartitionFilter

app = typer.Typer(rich_markup_mode=None)

TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
"""The words for special timestamps, and their numbers on the wire."""


class PartitionOffset(NamedTuple):
    topic: str
    partition: int
    offset: int


class PartitionOffsets(NamedTuple):
    """The result of `get-offsets`, without partitions that have no such offset."""

    offsets: Sequence[PartitionOffset]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        return (":".join(map(str, row)) for row in self.offsets)

    def tables(self) -> Iterator[Table]:
        yield Table(("Topic", "Partition", "Offset"), self.offsets)


@command(app, "get-offsets", example="kcli get-offsets orders --time earliest")
async def get_offsets(
    topic: TopicsArgument = None,
    topic_option: TopicOption = None,
    partitions: Annotated[
        str | None, typer.Option(metavar="IDS", help="Partitions, separated by commas")
    ] = None,
    topic_partitions: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERNS", help="Topics and partitions: orders:1,clicks:0-3,logs:5- (0-3 is without 3)"
        ),
    ] = None,
    time: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="latest (-1), earliest (-2), max-timestamp (-3), earliest-local (-4), latest-tiered (-5), "
            "earliest-pending-upload (-6), or the first offset at or after a time: milliseconds since 1970, "
            "or ISO 8601, UTC without a zone",
        ),
    ] = "latest",
    exclude_internal_topics: Annotated[
        bool, typer.Option("--exclude-internal-topics", help="Leave out internal topics")
    ] = False,
    *,
    cluster: ClusterAddress,
) -> PartitionOffsets:
    """Print the offsets of partitions: the latest, the earliest, or by time.

    Without TOPIC and --topic-partitions it prints the offsets of all topics.
    """
    from kcli.client import admin
    from kcli.client.network.retry_warnings import RetryWarnings
    from kcli.commands.shared.output import warn
    from kcli.commands.shared.session import failure

    pattern = one_topic_or_none(topic, topic_option)
    accepts = chosen_partitions(pattern, partitions, topic_partitions)
    timestamp = parse_time(time)
    async with cluster.connect() as client:
        topics = await admin.list_topics(client)
        wanted = matching_partitions(topics, accepts, exclude_internal=exclude_internal_topics)
        absent = absent_topics(pattern or topic_partitions or "", (each.name for each in topics))
        if not wanted:
            why = not_there(absent) if absent else "no topic or partition matches"
            raise KcliError(why, hint="`kcli topics list` shows the topics there are")
        if absent:
            warn(not_there(absent))
        results = await admin.list_offsets(
            client, dict.fromkeys(wanted, timestamp), warnings=RetryWarnings(warn)
        )
    rows, failures = [], []
    for partition in sorted(wanted, key=str):
        result = results[partition]
        if isinstance(result, KcliError):
            failures.append(failure(f"cannot get the offset of {partition}", result))
        elif result.offset >= 0:
            rows.append(PartitionOffset(partition.topic, partition.partition, result.offset))
    return PartitionOffsets(rows, failures)


def parse_time(text: str) -> int:
    """Return the timestamp of a word, a number or a time."""
    from kcli.commands.shared.times import iso_ms

    if text in TIMES:
        return TIMES[text]
    timestamp = signed_number(text)
    if timestamp is None:
        timestamp = iso_ms(text)
        # Negative timestamps have meanings.
        timestamp = None if timestamp is None else max(0, timestamp)
    if timestamp is None or not min(TIMES.values()) <= timestamp <= LARGEST_INT64:
        words = ", ".join(TIMES)
        raise UsageError(
            f"`--time` cannot be {text}", hint=f"{words}, milliseconds since 1970 or 2025-12-31T23:59:59Z"
        )
    return timestamp


def chosen_partitions(topics: str | None, partitions: str | None, patterns: str | None) -> PartitionFilter:
    from kcli.commands.shared.topic_filter import parse_ids, partition_filter, topic_pattern

    if patterns is not None:
        if topics is not None or partitions is not None:
            raise UsageError("`--topic-partitions` excludes `TOPIC` and `--partitions`")
        return partition_filter(patterns)
    ids = set(parse_ids(partitions or "", "--partitions"))
    expression = topic_pattern(topics or ".*")
    return lambda topic, partition: (not ids or partition in ids) and bool(expression.fullmatch(topic))


def absent_topics(asked: str, existing: Iterable[str]) -> list[str]:
    """Return the topics that `asked` names and that do not exist."""
    from kcli.commands.shared.topic_filter import named_topics, select_topics

    names = [*existing]
    return [name for name in named_topics(asked) if not select_topics(names, name)]


def not_there(absent: Sequence[str]) -> str:
    names = ", ".join(f"`{name}`" for name in absent)
    return f"topic {names} does not exist" if len(absent) == 1 else f"topics {names} do not exist"


def matching_partitions(
    topics: Iterable[TopicListing], accepts: PartitionFilter, *, exclude_internal: bool
) -> list[TopicPartition]:
    from kcli.client import admin

    return [
        admin.TopicPartition(topic.name, partition)
        for topic in topics
        if not (exclude_internal and topic.is_internal)
        for partition in range(topic.partition_count)
        if accepts(topic.name, partition)
    ]
