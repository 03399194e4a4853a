"""The results of `kcli topics`: created, altered and deleted topics, names, and the report of `describe`.

The text is that of Kafka's tool (class `TopicCommand`), including its order of a topic's configurations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.formatting import ids_text, size_text
from kcli.commands.shared.output import OutputFormat, Table, chosen_format, note
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import (
        ConfigEntry,
        PartitionDescription,
        PartitionReassignment,
        TopicCreated,
        TopicDescription,
        TopicListing,
        TopicPartition,
    )
    from kcli.client.client import Client


class CreatedTopic(NamedTuple):
    """A created topic; values that the broker does not tell are None."""

    topic: str
    topic_id: str | None
    partitions: int | None
    replication_factor: int | None


class Created(NamedTuple):
    """The result of `topics create`, without topics that existed if `--if-not-exists` was given."""

    created: Sequence[CreatedTopic]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Sequence[str]:
        return [f"Created topic {topic.topic}." for topic in self.created]


class AlteredTopics(NamedTuple):
    """The result of `topics alter`. Kafka's tool prints nothing, and has no dry run."""

    altered: Sequence[str]
    failures: Sequence[KcliError] = ()
    dry_run: bool = False

    def lines(self) -> Sequence[str]:
        return [f"would alter {name}" for name in self.altered] if self.dry_run else ()

    def tables(self) -> Sequence[Table]:
        column = "Would be altered" if self.dry_run else "Altered"
        return [Table((column,), [(name,) for name in self.altered])] if self.altered else []


class Deleted(NamedTuple):
    """The result of `topics delete`. Kafka's tool prints nothing, and has no dry run."""

    deleted: Sequence[str]
    failures: Sequence[KcliError] = ()
    dry_run: bool = False

    def lines(self) -> Sequence[str]:
        return [f"would delete {name}" for name in self.deleted] if self.dry_run else ()

    def tables(self) -> Sequence[Table]:
        column = "Would be deleted" if self.dry_run else "Deleted"
        return [Table((column,), [(name,) for name in self.deleted])] if self.deleted else []


class ListedTopic(NamedTuple):
    """A topic in the table of `topics list`. The size is of all its replicas, None if no broker tells."""

    topic: str
    partitions: int
    replication_factor: int
    under_replicated: int
    size_bytes: int | None


class TopicNames(NamedTuple):
    """The result of `topics list`; only a table has `rows`."""

    topics: Sequence[str]
    rows: Sequence[ListedTopic] = ()

    def lines(self) -> Sequence[str]:
        return self.topics

    def document(self) -> object:
        return {"topics": self.topics}

    def tables(self) -> Iterator[Table]:
        columns = ("Topic", "Partitions", "Replication factor", "Under-replicated", "Size")
        yield Table(
            columns,
            [(*row[:4], None if row.size_bytes is None else size_text(row.size_bytes)) for row in self.rows],
        )


SIZES_TIMEOUT_MS = 5_000
"""How long brokers may take to tell the sizes: the rest of the table is known."""


async def listed_topics(
    client: Client, listings: Sequence[TopicListing], names: Sequence[str]
) -> list[ListedTopic]:
    """Return what listings of all topics tell of some, with sizes: one request to each broker."""
    chosen = {*names}
    wanted = [listing for listing in listings if listing.name in chosen]
    sizes = await topic_sizes(client, wanted, all_topics=len(wanted) == len(listings)) if wanted else {}
    return [
        ListedTopic(
            each.name,
            each.partition_count,
            each.replication_factor,
            each.under_replicated,
            None if sizes is None else sizes.get(each.name, 0),
        )
        for each in wanted
    ]


async def topic_sizes(
    client: Client, topics: Sequence[TopicListing], *, all_topics: bool
) -> Mapping[str, int] | None:
    """Return the bytes of each topic's replicas, None if no broker tells; brokers that do not are noted."""
    from kcli.client import admin

    partitions = [
        admin.TopicPartition(each.name, index) for each in topics for index in range(each.partition_count)
    ]
    brokers = await admin.describe_log_dirs(
        client, partitions=None if all_topics else partitions, timeout_ms=SIZES_TIMEOUT_MS
    )
    sizes: dict[str, int] = defaultdict(int)
    silent: dict[str, list[int]] = defaultdict(list)
    for broker, log_dirs in brokers.items():
        if isinstance(log_dirs, KcliError):
            silent[log_dirs.message].append(broker)
            continue
        for replica in (each for log_dir in log_dirs for each in log_dir.replicas):
            sizes[replica.topic] += 0 if replica.is_future else replica.size_bytes
    for message, ids in silent.items():
        note(f"warning: sizes without {'broker' if len(ids) == 1 else 'brokers'} {ids_text(ids)}: {message}")
    return None if len(brokers) == sum(map(len, silent.values())) else sizes


def created_topic(topic: TopicCreated) -> CreatedTopic:
    from kcli.protocol.uuids import ZERO_UUID, uuid_to_text

    return CreatedTopic(
        topic.name,
        None if topic.topic_id == ZERO_UUID else uuid_to_text(topic.topic_id),
        topic.partitions if topic.partitions >= 0 else None,
        topic.replication_factor if topic.replication_factor >= 0 else None,
    )


def tell_matches(names: Sequence[str], topic_list: str, *, verb: str, output: OutputFormat | None) -> None:
    """Note the changed topics if an expression matched others than it names.

    Kafka's tool prints nothing, and takes the dot in a topic's name for any character.
    """
    from kcli.commands.shared.topic_filter import named_topics

    if chosen_format(output) is OutputFormat.TEXT and not {*names} <= {*named_topics(topic_list)}:
        note(f"{verb}, because `{topic_list}` matches: {', '.join(names)}")


class ReportOptions(NamedTuple):
    """The topics and partitions to report; at most one flag may be set."""

    under_replicated_partitions: Annotated[
        bool, typer.Option("--under-replicated-partitions", help="Only partitions with replicas out of sync")
    ] = False
    unavailable_partitions: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only partitions without a live leader")
    ] = False
    under_min_isr_partitions: Annotated[
        bool, typer.Option("--under-min-isr-partitions", help="Only partitions below min.insync.replicas")
    ] = False
    at_min_isr_partitions: Annotated[
        bool, typer.Option("--at-min-isr-partitions", help="Only partitions exactly at min.insync.replicas")
    ] = False
    topics_with_overrides: Annotated[
        bool,
        typer.Option(
            "--topics-with-overrides", help="Only topics with configurations of their own, one line each"
        ),
    ] = False

    @property
    def partitions_only(self) -> bool:
        """Tell whether a flag selects partitions; then topics have no line of their own."""
        return any(self[:4])

    def check(self) -> None:
        """Raise `UsageError` for more than one flag."""
        if sum(self) > 1:
            raise UsageError(
                "`--under-replicated-partitions`, `--unavailable-partitions`, `--under-min-isr-partitions`, "
                "`--at-min-isr-partitions` and `--topics-with-overrides` exclude each other"
            )


class PartitionRow(NamedTuple):
    """A partition. `elr` and `last_known_elr` (KIP-966) may be unknown; `adding` and `removing`: KIP-455."""

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
        """Return the number of replicas, without those that a reassignment is adding."""
        return len(self.replicas) - len(set(self.adding).intersection(self.replicas))

    def is_selected(self, options: ReportOptions, *, minimum_isr: int, live: set[int]) -> bool:
        """Tell whether the report flags select the partition."""
        leader, in_sync = self.leader, len(self.isr)
        return (
            (options.under_replicated_partitions and in_sync < self.replication_factor)
            or (options.unavailable_partitions and (leader is None or leader not in live))
            or (options.under_min_isr_partitions and (leader is None or in_sync < minimum_isr))
            or (options.at_min_isr_partitions and in_sync == minimum_isr)
        )

    def cell(self, column: str) -> object:
        return getattr(self, "last_known_elr" if column == "LastKnownElr" else column.lower())

    def line(self, topic: str) -> str:
        """Return Kafka's line, which starts with a tab."""
        moving: Sequence[str] = ()
        if self.adding or self.removing:
            moving = (
                f"Adding Replicas: {ids_text(self.adding)}",
                f"Removing Replicas: {ids_text(self.removing)}",
            )
        return "\t".join(
            (
                "",
                f"Topic: {topic}",
                f"Partition: {self.partition}",
                f"Leader: {'none' if self.leader is None else self.leader}",
                f"Replicas: {ids_text(self.replicas)}",
                f"Isr: {ids_text(self.isr)}",
                *moving,
                f"Elr: {ids_text(self.elr)}",
                f"LastKnownElr: {ids_text(self.last_known_elr)}",
            )
        )


class TopicRow(NamedTuple):
    """A topic, its configurations other than defaults, and its reported partitions."""

    topic: str
    topic_id: str | None
    partition_count: int
    replication_factor: int
    configs: dict[str, str | None]
    partitions: Sequence[PartitionRow]

    def configs_text(self) -> str:
        """Return the configurations as Kafka's tool lists them."""
        values = ((name, "null" if value is None else value) for name, value in self.configs.items())
        return ",".join(f"{name}={value}" for name, value in values)

    def settings(self) -> list[tuple[str, str]]:
        """Return the configurations with their values; `--add` of `configs alter` takes lists so."""
        values = ((name, "null" if value is None else value) for name, value in self.configs.items())
        return [(name, f"[{value}]" if "," in value else value) for name, value in values]

    def title(self) -> str:
        return f"{self.topic}  id {self.topic_id or '-'}"

    def line(self) -> str:
        topic_id = () if self.topic_id is None else (f"TopicId: {self.topic_id}",)
        fields = [f"Topic: {self.topic}", *topic_id, f"PartitionCount: {self.partition_count}"]
        fields += [f"ReplicationFactor: {self.replication_factor}", f"Configs: {self.configs_text()}"]
        return "\t".join(fields)


class TopicReport(NamedTuple):
    """The result of `topics describe`."""

    topics: Sequence[TopicRow]
    show_topics: bool
    show_partitions: bool
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        for topic in self.topics:
            if self.show_topics:
                yield topic.line()
            if self.show_partitions:
                for partition in topic.partitions:
                    yield partition.line(topic.topic)

    def document(self) -> object:
        return {"topics": self.topics, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        """Return a table for each topic, or one for all if only partitions or only topics are shown."""
        if self.show_topics and self.show_partitions:
            for topic in self.topics:
                columns, cells = partition_cells(topic.partitions)
                yield Table(columns, cells, topic.title())
                if topic.configs:
                    yield Table(("Name", "Value"), topic.settings(), title="configurations")
        elif self.show_partitions:
            rows = [(topic.topic, partition) for topic in self.topics for partition in topic.partitions]
            columns, cells = partition_cells([partition for _, partition in rows])
            named = [(topic, *cell) for (topic, _), cell in zip(rows, cells, strict=True)]
            yield Table(("Topic", *columns), named)
        else:
            yield Table(
                ("Topic", "Partitions", "Replication factor", "Configs"),
                [
                    (
                        topic.topic,
                        topic.partition_count,
                        topic.replication_factor,
                        ", ".join(f"{name}={value}" for name, value in topic.settings()),
                    )
                    for topic in self.topics
                ],
            )


def partition_cells(partitions: Sequence[PartitionRow]) -> tuple[list[str], list[list[object]]]:
    """Return the columns and cells of partitions; rare facts have a column only if a partition has them."""
    columns = ["Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr"]
    columns += [
        name for name in ("Offline", "Adding", "Removing") if any(each.cell(name) for each in partitions)
    ]
    return columns, [[each.cell(name) for name in columns] for each in partitions]


async def report_topics(
    client: Client, names: Sequence[str], options: ReportOptions, *, partitions_per_answer: int
) -> TopicReport:
    """Describe existing topics and apply the report flags."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    show_topics, show_partitions = not options.partitions_only, not options.topics_with_overrides
    if not names:
        return TopicReport([], show_topics, show_partitions)
    described = await admin.describe_topics(client, names, partitions_per_answer=partitions_per_answer)
    resources = {name: admin.ConfigResource(admin.ConfigResourceType.TOPIC, name) for name in names}
    configs = await admin.describe_configs(client, resources.values())
    live = {
        node.node_id
        for node in ((await admin.describe_cluster(client)).nodes if options.partitions_only else ())
        if not node.is_fenced
    }
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
                    if each.is_selected(options, minimum_isr=minimum, live=live)
                ]
                row = row._replace(partitions=selected)
            without_match = options.partitions_only and not row.partitions
            if not without_match and (row.configs or not options.topics_with_overrides):
                rows.append(row)
    return TopicReport(rows, show_topics, show_partitions, failures)


async def reassignments(client: Client) -> Mapping[TopicPartition, PartitionReassignment]:
    """Return the current reassignments, none if brokers cannot or may not tell, as Kafka's tool does."""
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
    return next((int(entry.value or 1) for entry in entries if entry.name == "min.insync.replicas"), 1)
