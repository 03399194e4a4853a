"""What a cluster tells of groups: descriptions, committed offsets, and the offsets of their partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client import admin
from kcli.commands.groups.members import GroupMembers
from kcli.commands.groups.offsets import (
    Committed,
    GroupOffsets,
    partition_rows,
    unread_positions,
    with_time_lag,
)
from kcli.commands.shared.completion import names_beginning_with
from kcli.commands.shared.session import failure
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.java import java_order
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from kcli.client.admin import GroupDescription, GroupListing
    from kcli.client.client import Client

CONSUMER_PROTOCOL_TYPES = ("", "consumer")
"""The protocol types of consumer groups; "" is the type of a group that never had members."""

Offsets = dict[TopicPartition, Committed]


class Found(NamedTuple):
    """The described groups, by name, and the errors of the others."""

    groups: Sequence[GroupDescription]
    failures: Sequence[KcliError]


async def list_consumer_groups(
    client: Client,
    *,
    states: Collection[str] = (),
    types: Collection[str] = (),
    timeout_ms: int | None = None,
) -> tuple[list[GroupListing], list[KcliError]]:
    """Return the consumer groups, and the errors of brokers that did not list theirs."""
    wanted = list(types) or [admin.CLASSIC, admin.CONSUMER]
    answer = await admin.list_groups(client, states=states, types=wanted, timeout_ms=timeout_ms)
    failures = [failure(f"cannot list the groups of broker {node}", e) for node, e in answer.errors.items()]
    return [group for group in answer.groups if group.protocol_type in CONSUMER_PROTOCOL_TYPES], failures


async def every_name(client: Client, timeout_ms: int | None = None) -> tuple[list[str], list[KcliError]]:
    """Return the names of all consumer groups, and the errors of brokers."""
    groups, failures = await list_consumer_groups(client, timeout_ms=timeout_ms)
    return [group.group_id for group in groups], failures


def complete_group_names(parameters: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the consumer groups that begin with `incomplete`."""

    async def fetch(client: Client) -> list[str]:
        return (await every_name(client))[0]

    return names_beginning_with(incomplete, fetch, parameters)


async def describe(client: Client, names: Iterable[str], *, timeout_ms: int | None = None) -> Found:
    """Describe groups in Java's order of their names."""
    answer = await admin.describe_groups(client, names, timeout_ms=timeout_ms)
    groups: list[GroupDescription] = []
    failures: list[KcliError] = []
    for name in sorted(answer, key=java_order):
        group = answer[name]
        if isinstance(group, KafkaError):
            failures.append(refusal(name, group))
        elif group.state == "Dead":
            failures.append(unknown_group(name))
        else:
            groups.append(group)
    return Found(groups, failures)


def refusal(name: str, error: KafkaError) -> KcliError:
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return unknown_group(name)
    return failure(f"cannot describe consumer group `{name}`", error)


def unknown_group(name: str, option: str = "") -> KcliError:
    """Return the error of an unknown group; `option` goes into the command of the hint."""
    return KcliError(
        f"consumer group `{name}` does not exist",
        hint=f"`kcli consumer-groups list{option}` shows the groups there are",
    )


async def committed_offsets(
    client: Client, names: Collection[str], *, timeout_ms: int | None = None
) -> tuple[dict[str, Offsets], list[KcliError]]:
    answer = await admin.list_group_offsets(client, dict.fromkeys(names), timeout_ms=timeout_ms)
    found: dict[str, Offsets] = {}
    failures: list[KcliError] = []
    for name, offsets in answer.items():
        found[name] = {}
        if isinstance(offsets, KafkaError):
            failures.append(failure(f"cannot read the offsets of consumer group `{name}`", offsets))
            continue
        for partition, committed in offsets.items():
            if isinstance(committed, admin.CommittedOffset):
                found[name][partition] = Committed(
                    committed.offset, committed.leader_epoch, committed.metadata
                )
            elif committed is not None:
                failures.append(failure(f"cannot read the offset of `{name}` in {partition}", committed))
    return found, failures


async def known_offsets(
    client: Client, partitions: Iterable[TopicPartition], timestamp: int, *, timeout_ms: int | None = None
) -> dict[TopicPartition, int]:
    """Return the `admin.EARLIEST` or `admin.LATEST` offset of each partition whose leader tells it."""
    asked = [TopicPartition(*partition) for partition in partitions]
    cluster = await client.metadata({topic for topic, _ in asked}, timeout_ms=timeout_ms)
    wanted = [partition for partition in asked if cluster.leader_of(partition) is not None]
    answer = await admin.list_offsets(client, dict.fromkeys(wanted, timestamp), timeout_ms=timeout_ms)
    return {
        partition: found.offset for partition, found in answer.items() if not isinstance(found, KcliError)
    }


async def offsets_of(
    client: Client, groups: Sequence[GroupDescription], *, timeout_ms: int | None = None
) -> tuple[list[GroupOffsets], list[KcliError]]:
    """Return the partitions and lags of groups, and the errors."""
    committed, failures = await committed_offsets(
        client, [group.group_id for group in groups], timeout_ms=timeout_ms
    )
    partitions = {partition for offsets in committed.values() for partition in offsets}
    partitions |= {
        partition for group in groups for member in group.members for partition in member.assignment
    }
    ends = await known_offsets(client, partitions, admin.LATEST, timeout_ms=timeout_ms)
    found = []
    for group in groups:
        members = GroupMembers.of(group)
        rows = partition_rows(members.owners(), committed[group.group_id], ends)
        found.append(GroupOffsets(members.head, rows))
    return found, failures


async def add_time_lag(
    client: Client, groups: Sequence[GroupOffsets], *, now_ms: int, timeout_ms: int | None = None
) -> tuple[list[GroupOffsets], list[KcliError]]:
    """Return the groups with the time lag of their partitions, and the errors."""
    from kcli.commands.groups.records import first_timestamps

    behind = {
        TopicPartition(row.topic, row.partition) for group in groups for row in group.partitions if row.lag
    }
    starts = await known_offsets(client, behind, admin.EARLIEST, timeout_ms=timeout_ms)
    positions = [unread_positions(group.partitions, starts) for group in groups]
    ends: Mapping[TopicPartition, int] = {
        TopicPartition(row.topic, row.partition): row.log_end_offset
        for group in groups
        for row in group.partitions
        if row.log_end_offset is not None
    }
    found: list[GroupOffsets] = []
    failures: list[KcliError] = []
    for group, wanted in zip(groups, positions, strict=True):
        timestamps: Mapping[TopicPartition, int | None] = {}
        try:
            timestamps = await first_timestamps(client, wanted, ends, timeout_ms=timeout_ms)
        except KcliError as error:
            failures.append(failure(f"cannot read the times of records for `{group.head.group}`", error))
        found.append(group._replace(partitions=with_time_lag(group.partitions, timestamps, now_ms=now_ms)))
    return found, failures
