"""What `kcli topics describe` shows: topics, their partitions, and the report flags that narrow them.

The text is that of Kafka's own tool (class `TopicCommand`), down to the order in which it lists a topic's
configurations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.output import Table
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import ConfigEntry, TopicDescription
    from kcli.client.client import Client


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
    """One partition. The last two are None where the cluster does not tell them (KIP-966)."""

    partition: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int] | None
    last_known_elr: Sequence[int] | None


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
        columns = ("Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr")
        if self.show_topics and self.show_partitions:
            for topic in self.topics:
                yield Table(columns, topic.partitions, title(topic))
        elif self.show_partitions:
            rows = [(topic.topic, *partition) for topic in self.topics for partition in topic.partitions]
            yield Table(("Topic", *columns), rows)
        else:
            yield Table(
                ("Topic", "Partitions", "Replication factor", "Configs"),
                [
                    (topic.topic, topic.partition_count, topic.replication_factor, configs_text(topic))
                    for topic in self.topics
                ],
            )


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
    return "\t".join(
        (
            "",
            f"Topic: {topic}",
            f"Partition: {partition.partition}",
            f"Leader: {leader}",
            f"Replicas: {ids_text(partition.replicas)}",
            f"Isr: {ids_text(partition.isr)}",
            f"Elr: {ids_text(partition.elr)}",
            f"LastKnownElr: {ids_text(partition.last_known_elr)}",
        )
    )


def ids_text(ids: Sequence[int] | None) -> str:
    """Return broker ids with commas."""
    return "N/A" if ids is None else ",".join(map(str, ids))


async def report_topics(client: Client, names: Sequence[str], options: ReportOptions) -> TopicReport:
    """Describe topics that exist and apply the report flags."""
    from kcli.client import admin
    from kcli.commands.session import failure

    show_topics, show_partitions = not options.partitions_only, not options.overrides_only
    if not names:
        return TopicReport([], show_topics, show_partitions)
    described = await admin.describe_topics(client, names)
    resources = {name: admin.ConfigResource(admin.ConfigResourceType.TOPIC, name) for name in names}
    configs = await admin.describe_configs(client, resources.values())
    live = {node.node_id for node in (await admin.describe_cluster(client)).nodes if not node.is_fenced}
    rows, failures = [], []
    for name in names:
        topic, entries = described[name], configs[resources[name]]
        if isinstance(topic, KcliError):
            failures.append(failure(f"cannot describe topic `{name}`", topic))
        elif isinstance(entries, KcliError):
            failures.append(failure(f"cannot describe the configuration of topic `{name}`", entries))
        else:
            row = topic_row(topic, entries, options, live)
            if row.configs or not options.overrides_only:
                rows.append(row)
    return TopicReport(rows, show_topics, show_partitions, failures)


def topic_row(
    topic: TopicDescription, entries: Iterable[ConfigEntry], options: ReportOptions, live: set[int]
) -> TopicRow:
    """Return a topic with those of its partitions that the report flags select."""
    from kcli.client.admin import ConfigSource
    from kcli.commands.java_order import hash_map_order
    from kcli.protocol.group_partition import string_hash
    from kcli.protocol.uuids import ZERO_UUID, uuid_to_text

    by_name = {entry.name: entry for entry in entries}
    minimum_isr = by_name.get("min.insync.replicas")
    minimum = int(minimum_isr.value or 1) if minimum_isr is not None else 1
    return TopicRow(
        topic.name,
        None if topic.topic_id == ZERO_UUID else uuid_to_text(topic.topic_id),
        len(topic.partitions),
        topic.replication_factor,
        {
            name: by_name[name].value
            for name in hash_map_order(by_name, string_hash)
            if by_name[name].source != ConfigSource.DEFAULT_CONFIG
        },
        [
            PartitionRow(
                partition.partition,
                partition.leader,
                partition.replicas,
                partition.isr,
                partition.eligible_leader_replicas,
                partition.last_known_elr,
            )
            for partition in topic.partitions
            if is_selected(partition.leader, partition.replicas, partition.isr, options, minimum, live)
        ],
    )


def is_selected(
    leader: int | None,
    replicas: Sequence[int],
    isr: Sequence[int],
    options: ReportOptions,
    minimum_isr: int,
    live: set[int],
) -> bool:
    """Tell whether the report flags select a partition; without flags all are."""
    return (
        not options.partitions_only
        or (options.under_replicated and len(isr) < len(replicas))
        or (options.unavailable and (leader is None or leader not in live))
        or (options.under_min_isr and (leader is None or len(isr) < minimum_isr))
        or (options.at_min_isr and len(isr) == minimum_isr)
    )
