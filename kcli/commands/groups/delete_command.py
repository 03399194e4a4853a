"""`kcli consumer-groups delete` and `delete-offsets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Annotated, NamedTuple

import typer

from kcli.commands.groups.options import (
    DEFAULT_TIMEOUT_MS,
    AllGroups,
    GroupArgument,
    GroupArguments,
    GroupOption,
    TimeoutMs,
    app,
    chosen_groups,
    one_group,
)
from kcli.commands.shared.java import Column, hash_map_order, table_lines
from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.output import Table
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.java import string_hash


class DeletedGroups(NamedTuple):
    """The result of `consumer-groups delete`."""

    deleted: Sequence[str]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        names = ", ".join(f"'{name}'" for name in hash_map_order(self.deleted, string_hash))
        if names and self.failures:
            yield f"These consumer groups were deleted successfully: {names}"
        elif names:
            yield f"Deletion of requested consumer groups ({names}) was successful."


class PartitionStatus(NamedTuple):
    """A partition, or None for a topic that was not found, and why its offset was not deleted."""

    topic: str
    partition: int | None
    error: KcliError | None

    def text(self) -> str:
        """Return the status in the words of Kafka's tool, without the name of a Java class."""
        return "Successful" if self.error is None else f"Error: {self.error.message}"


class DeletedOffsets(NamedTuple):
    """The result of `consumer-groups delete-offsets`."""

    group: str
    partitions: Sequence[PartitionStatus]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return the lines of Kafka's tool. Its error above the table is on stderr here."""
        if not self.failures:
            yield f"Request succeeded for deleting offsets from group {self.group}."
        columns = (Column("TOPIC", 15, True), Column("PARTITION", 10), Column("STATUS", 15))
        rows = [(row.topic, row.partition, row.text()) for row in self.partitions]
        yield from ("", *table_lines(columns, rows))

    def tables(self) -> Iterator[Table]:
        rows = [(row.topic, row.partition, row.text()) for row in self.partitions]
        yield Table(("Topic", "Partition", "Status"), rows, self.group)


@command(app, "delete", example="kcli consumer-groups delete billing")
async def delete(
    groups: GroupArguments = None,
    group: GroupOption = None,
    all_groups: AllGroups = False,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
) -> DeletedGroups:
    """Delete consumer groups that have no members, with their offsets."""
    from kcli.client import admin
    from kcli.commands.groups.lookup import every_name

    names = chosen_groups(groups, group, all_groups=all_groups)
    failures: list[KcliError] = []
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        if all_groups:
            names, failures = await every_name(client, timeout_ms)
        results = await admin.delete_groups(client, names, timeout_ms=timeout_ms)
    failures += [not_deleted(name, error) for name, error in results.items() if error is not None]
    return DeletedGroups([name for name, error in results.items() if error is None], failures)


def not_deleted(name: str, error: KafkaError) -> KcliError:
    from kcli.commands.shared.session import failure

    refused = failure(f"cannot delete consumer group `{name}`", error)
    if error.code is ErrorCode.NON_EMPTY_GROUP:
        refused.hint = f"`kcli consumer-groups members {quote(name)}` shows who is in it"
    return refused


@command(
    app,
    "delete-offsets",
    needs="group",
    example="kcli consumer-groups delete-offsets billing --topic orders:0,1",
)
async def delete_offsets(
    group: GroupArgument = None,
    group_option: GroupOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:PARTITIONS]", help="orders, or orders:0,2 (repeatable)"),
    ] = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
) -> DeletedOffsets:
    """Delete the offsets of a group in topics that its members do not read."""
    from kcli.client import admin
    from kcli.client.admin import TopicPartition
    from kcli.commands.groups.reset_plan import parse_scope
    from kcli.commands.shared.session import failure

    name = one_group(group, group_option)
    if not topic:
        raise UsageError("`--topic` is missing", hint="it names the topics whose offsets are deleted")
    scope = parse_scope(topic)
    rows: list[PartitionStatus] = []
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        partitions = [TopicPartition(*partition) for partition in scope.partitions]
        described = await admin.describe_topics(client, scope.topics, timeout_ms=timeout_ms)
        for found, description in described.items():
            if isinstance(description, KcliError):
                rows.append(PartitionStatus(found, None, description))
            else:
                partitions += [TopicPartition(found, entry.partition) for entry in description.partitions]
        try:
            results = await admin.delete_group_offsets(client, name, partitions, timeout_ms=timeout_ms)
        except KcliError as error:
            raise failure(f"cannot delete offsets of consumer group `{name}`", error) from error
    rows += [PartitionStatus(*partition, error) for partition, error in results.items()]
    rows.sort(key=lambda row: f"{row.topic}{-1 if row.partition is None else row.partition}")
    return DeletedOffsets(name, rows, refusals(name, rows))


def refusals(name: str, rows: Sequence[PartitionStatus]) -> list[KcliError]:
    """Return one error for each reason, with all partitions that were refused for it."""
    from kcli.commands.shared.formatting import listed
    from kcli.commands.shared.session import failure

    causes: dict[str, list[PartitionStatus]] = {}
    for row in rows:
        if row.error is not None:
            causes.setdefault(row.error.message, []).append(row)
    found = []
    for refused in causes.values():
        where = listed(
            row.topic if row.partition is None else f"{row.topic}-{row.partition}" for row in refused
        )
        offsets = "offset" if len(refused) == 1 else "offsets"
        assert refused[0].error is not None
        found.append(failure(f"cannot delete the {offsets} of `{name}` in {where}", refused[0].error))
    return found
