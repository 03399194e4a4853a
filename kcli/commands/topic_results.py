"""What the verbs of `kcli topics` that change topics, or list them, return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.output import OutputFormat, Table, chosen_format, note
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.admin import TopicCreated


class CreatedTopic(NamedTuple):
    """A topic as it was created; what the broker does not tell is None."""

    topic: str
    topic_id: str | None
    partitions: int | None
    replication_factor: int | None


class Created(NamedTuple):
    """The result of `topics create`: nothing, if the topic existed and was allowed to."""

    created: Sequence[CreatedTopic]

    def lines(self) -> Sequence[str]:
        """Return Kafka's line."""
        return [f"Created topic {topic.topic}." for topic in self.created]


class Altered(NamedTuple):
    """The result of `topics alter`. Kafka's tool prints nothing."""

    altered: Sequence[str]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Sequence[str]:
        """Return no line."""
        return ()

    def tables(self) -> Sequence[Table]:
        """Return one table."""
        return [Table(("Altered",), [(name,) for name in self.altered])] if self.altered else []


class Deleted(NamedTuple):
    """The result of `topics delete`. Kafka's tool prints nothing."""

    deleted: Sequence[str]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Sequence[str]:
        """Return no line."""
        return ()

    def tables(self) -> Sequence[Table]:
        """Return one table."""
        return [Table(("Deleted",), [(name,) for name in self.deleted])] if self.deleted else []


class TopicNames(NamedTuple):
    """The names of topics."""

    topics: Sequence[str]

    def lines(self) -> Sequence[str]:
        """Return one name a line."""
        return self.topics


def created_topic(topic: TopicCreated) -> CreatedTopic:
    """Return what the broker told of a new topic."""
    from kcli.protocol.uuids import ZERO_UUID, uuid_to_text

    return CreatedTopic(
        topic.name,
        None if topic.topic_id == ZERO_UUID else uuid_to_text(topic.topic_id),
        topic.partitions if topic.partitions >= 0 else None,
        topic.replication_factor if topic.replication_factor >= 0 else None,
    )


def tell_matches(names: Sequence[str], topic_list: str, *, verb: str, output: OutputFormat | None) -> None:
    """Note which topics were changed where an expression chose others than are named in it.

    Kafka's tool, whose text has nothing on stdout, takes the dot of a topic's name for any character.
    """
    from kcli.commands.topic_filter import named_topics

    if chosen_format(output) is OutputFormat.TEXT and not {*names} <= {*named_topics(topic_list)}:
        note(f"{verb}, as `{topic_list}` matches: {', '.join(names)}")
