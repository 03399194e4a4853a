"""What the verbs of `kcli topics` that change topics, or list them, return.

What `kcli topics describe` shows: topics, their partitions, and the report flags that narrow them.

The text is that of Kafka's own tool (class `TopicCommand`), down to the order in which it lists a topic's
configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.output import OutputFormat, Table, chosen_format, note
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import (
        ConfigEntry,
        PartitionDescription,
        PartitionReassignment,
        TopicCreated,
        TopicDescription,
        TopicPartition,
    )
    from kcli.client.client import Client


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
    from kcli.commands.shared.topic_filter import named_topics

    if chosen_format(output) is OutputFormat.TEXT and not {*names} <= {*named_topics(topic_list)}:
        note(f"{verb}, as `{topic_list}` matches: {', '.join(names)}")


class ReportOptions(NamedTuple):
    """Which topics and partitions to report. At most one may be set."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    overrides_only: bool = False

    @property
    def partitions_only(self) -> bool:
        """Tell whether a flag selects partitions: then the topics' own lines are left out."""
        return self.under_replicated or self.unavailable or self.under_min_isr or self.at_min_isr

    def check(self) -> None:
        """Refuse flags that contradict each other."""
        if sum(self) > 1:
            raise UsageError(
                "`--under-replicated-partitions`, `--unavailable-partitions`, `--under-min-isr-partitions`, "
                "`--at-min-isr-partitions` and `--topics-with-overrides` exclude each other"
            )


class PartitionRow(NamedTuple):
    """One partition. `elr` and `last_known_elr` are None where the cluster does not tell them (KIP-966).

    `adding` and `removing` are empty but for a partition on the move (KIP-455).
    """

    partition: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int] | None
    last_known_elr: Sequence[int] | None
    offline: Sequence[int] = ()
    adding: Sequence[int] = ()
    removing: Sequence[int] = ()

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas, without those that a move is only adding."""
        return len(self.replicas) - len(set(self.adding).intersection(self.replicas))


class TopicRow(NamedTuple):
    """One topic, its configurations that are not the default, and the reported ones of its partitions."""

    topic: str
    topic_id: str | None
    partition_count: int
    replication_factor: int
    configs: dict[str, str | None]
    partitions: Sequence[PartitionRow]


class TopicReport(NamedTuple):
    """The result of `topics describe`."""

    topics: Sequence[TopicRow]
    show_topics: bool
    show_partitions: bool
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return a line for each topic and each of its partitions."""
        for topic in self.topics:
            if self.show_topics:
                yield topic_line(topic)
            if self.show_partitions:
                for partition in topic.partitions:
                    yield partition_line(topic.topic, partition)

    def document(self) -> object:
        """Return the topics and the errors."""
        return {"topics": self.topics, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        """Return a table for each topic, or one for all when only partitions or only topics are asked for."""
        if self.show_topics and self.show_partitions:
            for topic in self.topics:
                columns, cells = partition_cells(topic.partitions)
                yield Table(columns, cells, title(topic))
        elif self.show_partitions:
            rows = [(topic.topic, partition) for topic in self.topics for partition in topic.partitions]
            columns, cells = partition_cells([partition for _, partition in rows])
            named = [(topic, *cell) for (topic, _), cell in zip(rows, cells, strict=True)]
            yield Table(("Topic", *columns), named)
        else:
            yield Table(
                ("Topic", "Partitions", "Replication factor", "Configs"),
                [
                    (topic.topic, topic.partition_count, topic.replication_factor, configs_text(topic))
                    for topic in self.topics
                ],
            )


def partition_cells(partitions: Sequence[PartitionRow]) -> tuple[list[str], list[list[object]]]:
    """Return the columns of partitions, and their cells; what is seldom has a column only where it is."""
    columns = ["Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr"]
    columns += [
        name for name in ("Offline", "Adding", "Removing") if any(map(attribute_of(name), partitions))
    ]
    cells = [[attribute_of(name)(partition) for name in columns] for partition in partitions]
    return columns, cells


def attribute_of(column: str) -> Callable[[PartitionRow], object]:
    """Return what tells the value of a column."""
    name = "last_known_elr" if column == "LastKnownElr" else column.lower()
    return lambda partition: getattr(partition, name)


def configs_text(topic: TopicRow) -> str:
    """Return a topic's configurations as Kafka's tool lists them."""
    return ",".join(f"{name}={'null' if value is None else value}" for name, value in topic.configs.items())


def title(topic: TopicRow) -> str:
    """Return the heading of a topic's table."""
    configs = configs_text(topic)
    return f"{topic.topic}  id {topic.topic_id or '-'}" + (f"  {configs}" if configs else "")


def topic_line(topic: TopicRow) -> str:
    """Return the line of a topic."""
    fields = [f"Topic: {topic.topic}"]
    if topic.topic_id is not None:
        fields.append(f"TopicId: {topic.topic_id}")
    fields.append(f"PartitionCount: {topic.partition_count}")
    fields.append(f"ReplicationFactor: {topic.replication_factor}")
    fields.append(f"Configs: {configs_text(topic)}")
    return "\t".join(fields)


def partition_line(topic: str, partition: PartitionRow) -> str:
    """Return the line of a partition; it starts with a tab."""
    leader = "none" if partition.leader is None else partition.leader
    moving: Sequence[str] = ()
    if partition.adding or partition.removing:
        moving = (
            f"Adding Replicas: {ids_text(partition.adding)}",
            f"Removing Replicas: {ids_text(partition.removing)}",
        )
    return "\t".join(
        (
            "",
            f"Topic: {topic}",
            f"Partition: {partition.partition}",
            f"Leader: {leader}",
            f"Replicas: {ids_text(partition.replicas)}",
            f"Isr: {ids_text(partition.isr)}",
            *moving,
            f"Elr: {ids_text(partition.elr)}",
            f"LastKnownElr: {ids_text(partition.last_known_elr)}",
        )
    )


def ids_text(ids: Sequence[int] | None) -> str:
    """Return broker ids with commas."""
    return "N/A" if ids is None else ",".join(map(str, ids))


async def report_topics(
    client: Client, names: Sequence[str], options: ReportOptions, *, partitions_per_answer: int
) -> TopicReport:
    """Describe topics that exist and apply the report flags."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    show_topics, show_partitions = not options.partitions_only, not options.overrides_only
    if not names:
        return TopicReport([], show_topics, show_partitions)
    described = await admin.describe_topics(client, names, partitions_per_answer=partitions_per_answer)
    resources = {name: admin.ConfigResource(admin.ConfigResourceType.TOPIC, name) for name in names}
    configs = await admin.describe_configs(client, resources.values())
    live = {node.node_id for node in (await admin.describe_cluster(client)).nodes if not node.is_fenced}
    moving = await reassignments(client)
    rows, failures = [], []
    for name in names:
        topic, entries = described[name], configs[resources[name]]
        if isinstance(topic, KcliError):
            failures.append(failure(f"cannot describe topic `{name}`", topic))
        elif isinstance(entries, KcliError):
            failures.append(failure(f"cannot describe the configuration of topic `{name}`", entries))
        else:
            row = topic_row(topic, entries, moving)
            if options.partitions_only:
                minimum = minimum_isr(entries)
                selected = [
                    each
                    for each in row.partitions
                    if is_selected(each, options, minimum_isr=minimum, live=live)
                ]
                row = row._replace(partitions=selected)
            without_match = options.partitions_only and not row.partitions
            if not without_match and (row.configs or not options.overrides_only):
                rows.append(row)
    return TopicReport(rows, show_topics, show_partitions, failures)


async def reassignments(client: Client) -> Mapping[TopicPartition, PartitionReassignment]:
    """Return the partitions on the move; none where brokers do not tell, or not us, as Kafka's tool does."""
    from kcli.client import admin
    from kcli.client.network.connection import UnsupportedVersion
    from kcli.protocol.error_codes import ErrorCode, KafkaError

    try:
        return await admin.list_partition_reassignments(client)
    except UnsupportedVersion:
        return {}
    except KafkaError as error:
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise


def topic_row(
    topic: TopicDescription,
    entries: Iterable[ConfigEntry],
    moving: Mapping[TopicPartition, PartitionReassignment],
) -> TopicRow:
    """Return a topic with all its partitions."""
    from kcli.client.admin import ConfigSource
    from kcli.commands.shared.java import hash_map_order
    from kcli.protocol.java import string_hash
    from kcli.protocol.uuids import ZERO_UUID, uuid_to_text

    by_name = {entry.name: entry for entry in entries}
    partitions = [partition_row(topic.name, partition, moving) for partition in topic.partitions]
    return TopicRow(
        topic.name,
        None if topic.topic_id == ZERO_UUID else uuid_to_text(topic.topic_id),
        len(partitions),
        partitions[0].replication_factor if partitions else 0,
        {
            name: by_name[name].value
            for name in hash_map_order(by_name, string_hash)
            if by_name[name].source != ConfigSource.DEFAULT_CONFIG
        },
        partitions,
    )


def partition_row(
    topic: str, partition: PartitionDescription, moving: Mapping[TopicPartition, PartitionReassignment]
) -> PartitionRow:
    """Return a partition, and where it is going."""
    from kcli.client.admin import TopicPartition

    move = moving.get(TopicPartition(topic, partition.partition))
    return PartitionRow(
        partition.partition,
        partition.leader,
        partition.replicas,
        partition.isr,
        partition.eligible_leader_replicas,
        partition.last_known_elr,
        partition.offline_replicas,
        () if move is None else move.adding,
        () if move is None else move.removing,
    )


def minimum_isr(entries: Iterable[ConfigEntry]) -> int:
    """Return `min.insync.replicas` of a topic."""
    return next((int(entry.value or 1) for entry in entries if entry.name == "min.insync.replicas"), 1)


def is_selected(partition: PartitionRow, options: ReportOptions, *, minimum_isr: int, live: set[int]) -> bool:
    """Tell whether the report flags select a partition."""
    leader, in_sync = partition.leader, len(partition.isr)
    return (
        (options.under_replicated and in_sync < partition.replication_factor)
        or (options.unavailable and (leader is None or leader not in live))
        or (options.under_min_isr and (leader is None or in_sync < minimum_isr))
        or (options.at_min_isr and in_sync == minimum_isr)
    )
