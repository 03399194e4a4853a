"""Asking a cluster for groups, their offsets and where their partitions begin and end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client import admin
from kcli.client.admin import CommittedOffset, GroupDescription, GroupListing, GroupMember, TopicPartition
from kcli.commands.groups.head import Coordinator, GroupHead
from kcli.commands.groups.members import GroupMembers, MemberRow
from kcli.commands.groups.offsets import (
    Committed,
    GroupOffsets,
    Owner,
    partition_rows,
    unread_positions,
    with_time_lag,
)
from kcli.commands.shared.completion import names_beginning_with
from kcli.commands.shared.session import failure
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.java import java_order
from kcli.protocol.topics import by_topic

if TYPE_CHECKING:
    from kcli.client.client import Client

CONSUMER_PROTOCOL_TYPES = ("", "consumer")
"""The protocol types of groups that consumers are in; "" is that of a group without members ever."""

Offsets = dict[TopicPartition, Committed]


class Found(NamedTuple):
    """The groups that were found, by name, and why others were not."""

    groups: Sequence[GroupDescription]
    failures: Sequence[KcliError]


async def list_consumer_groups(
    client: Client,
    *,
    states: Collection[str] = (),
    types: Collection[str] = (),
    timeout_ms: int | None = None,
) -> tuple[list[GroupListing], list[KcliError]]:
    """Return the groups of consumers, and why brokers did not tell theirs."""
    wanted = list(types) or [admin.CLASSIC, admin.CONSUMER]
    answer = await admin.list_groups(client, states=states, types=wanted, timeout_ms=timeout_ms)
    failures = [failure(f"cannot list the groups of broker {node}", e) for node, e in answer.errors.items()]
    return [group for group in answer.groups if group.protocol_type in CONSUMER_PROTOCOL_TYPES], failures


async def every_name(client: Client, timeout_ms: int | None = None) -> tuple[list[str], list[KcliError]]:
    """Return the names of all groups of consumers, for `--all-groups`."""
    groups, failures = await list_consumer_groups(client, timeout_ms=timeout_ms)
    return [group.group_id for group in groups], failures


def complete_group_names(parameters: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the consumer groups that begin with `incomplete`."""

    async def fetch(client: Client) -> list[str]:
        return (await every_name(client))[0]

    return names_beginning_with(incomplete, fetch, parameters)


async def describe(client: Client, names: Iterable[str], *, timeout_ms: int | None = None) -> Found:
    """Describe groups, in Java's order of their names."""
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
    """Return the error of a group that was not described."""
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return unknown_group(name)
    return failure(f"cannot describe consumer group `{name}`", error)


def unknown_group(name: str, option: str = "") -> KcliError:
    """Return the error of a name that no group has; `option` is how to list those there are."""
    return KcliError(
        f"consumer group `{name}` does not exist",
        hint=f"`kcli consumer-groups list{option}` shows the groups there are",
    )


def head_of(group: GroupDescription) -> GroupHead:
    """Return what every view of a group begins with."""
    node = group.coordinator
    return GroupHead(
        group.group_id,
        group.type,
        group.state,
        Coordinator(node.node_id, node.host, node.port),
        group.assignor or None,
        group.epoch,
        group.target_assignment_epoch,
        len(group.members),
    )


def members_of(group: GroupDescription) -> GroupMembers:
    """Return a group with its members as they are shown."""
    return GroupMembers(head_of(group), [member_row(member, group) for member in group.members])


def member_row(member: GroupMember, group: GroupDescription) -> MemberRow:
    """Return a member as it is shown."""
    target = member.target_assignment
    return MemberRow(
        member.member_id,
        member.instance_id,
        member.host,
        member.client_id,
        len(member.assignment),
        member.epoch,
        by_topic(sorted(member.assignment)),
        group.target_assignment_epoch,
        None if target is None else by_topic(sorted(target)),
        None if member.is_classic is None else not member.is_classic,
        member.rack_id,
    )


async def committed_offsets(
    client: Client, names: Collection[str], *, timeout_ms: int | None = None
) -> tuple[dict[str, Offsets], list[KcliError]]:
    """Return what groups have committed, and what the coordinators did not tell."""
    answer = await admin.list_group_offsets(client, dict.fromkeys(names), timeout_ms=timeout_ms)
    found: dict[str, Offsets] = {}
    failures: list[KcliError] = []
    for name, offsets in answer.items():
        found[name] = {}
        if isinstance(offsets, KafkaError):
            failures.append(failure(f"cannot read the offsets of consumer group `{name}`", offsets))
            continue
        for partition, committed in offsets.items():
            if isinstance(committed, CommittedOffset):
                found[name][partition] = Committed(
                    committed.offset, committed.leader_epoch, committed.metadata
                )
            elif committed is not None:
                failures.append(failure(f"cannot read the offset of `{name}` in {partition}", committed))
    return found, failures


async def known_offsets(
    client: Client, partitions: Iterable[TopicPartition], timestamp: int, *, timeout_ms: int | None = None
) -> dict[TopicPartition, int]:
    """Return an offset of each partition, `admin.EARLIEST` or `admin.LATEST`; unknown ones are left out.

    A partition without a leader has none, and is not waited for.
    """
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
    """Return groups with their partitions and lag, and what could not be found out."""
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
        rows = partition_rows(owners_of(group), committed[group.group_id], ends)
        found.append(GroupOffsets(head_of(group), rows))
    return found, failures


def owners_of(group: GroupDescription) -> list[Owner]:
    """Return the members of a group that have partitions."""
    return [
        Owner(member.member_id, member.host, member.client_id, member.assignment)
        for member in group.members
        if member.assignment
    ]


async def add_time_lag(
    client: Client, groups: Sequence[GroupOffsets], *, now_ms: int, timeout_ms: int | None = None
) -> tuple[list[GroupOffsets], list[KcliError]]:
    """Return the groups with how far their partitions are behind in time, and which records were refused."""
    from kcli.commands.groups.record_times import first_timestamps

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
