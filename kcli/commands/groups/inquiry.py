"""Finding out what `describe --explain` reasons about: two looks at groups, and their records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client import admin
from kcli.client.admin import GroupDescription, GroupMember
from kcli.commands.groups.explanation import explain
from kcli.commands.groups.findings import (
    ExplainedGroup,
    ExplainView,
    GroupFacts,
    Look,
    MemberFacts,
    PartitionFacts,
)
from kcli.commands.groups.history import GroupHistory
from kcli.commands.groups.lookup import Found, Offsets, committed_offsets, describe, head_of, known_offsets
from kcli.commands.groups.records import read_histories
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.topics import TopicPartition


class Sight(NamedTuple):
    """What one look at groups saw."""

    at_ms: int
    found: Found
    committed: dict[str, Offsets]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    failures: Sequence[KcliError]

    def state_of(self, name: str) -> str | None:
        """Return the state of a group."""
        return next((group.state for group in self.found.groups if group.group_id == name), None)

    def look(self, name: str, partition: TopicPartition) -> Look | None:
        """Return a group's offsets in a partition, None if the group was not there."""
        offsets = self.committed.get(name)
        if offsets is None:
            return None
        committed = offsets.get(partition)
        return Look(None if committed is None else committed.offset, self.ends.get(partition))


async def explain_groups(
    client: Client, names: Sequence[str], *, apart_ms: int, timeout_ms: int | None = None
) -> ExplainView:
    """Look at groups twice, read their records, and explain them."""
    before = await look_at(client, names, timeout_ms=timeout_ms)
    names = [group.group_id for group in before.found.groups]
    histories: dict[str, GroupHistory] = {}
    damaged: list[KcliError] = []
    history_error = None
    try:
        if names:
            histories, damaged = await read_histories(
                client, names, with_commits=False, timeout_ms=timeout_ms
            )
    except KcliError as error:
        history_error = error.message
    if names:
        await trio.sleep(max(0, before.at_ms + apart_ms - wall_ms()) / 1000)
    now = await look_at(client, names, timeout_ms=timeout_ms)
    counts = await topic_counts(client, now.found.groups, timeout_ms=timeout_ms)
    explained = []
    for group in now.found.groups:
        history = histories.get(group.group_id)
        facts = facts_of(
            group, now=now, before=before, history=history, history_error=history_error, counts=counts
        )
        lags = [entry.lag for entry in facts.partitions if entry.now.lag() is not None]
        explained.append(ExplainedGroup(facts.head, sum(lags) if lags else None, explain(facts)))
    failures = [*before.found.failures, *now.found.failures, *now.failures, *damaged]
    if history_error is not None:
        failures.append(KcliError(f"the history of the groups cannot be read: {history_error}"))
    return ExplainView(explained, failures)


async def look_at(client: Client, names: Iterable[str], *, timeout_ms: int | None) -> Sight:
    """Describe groups, and see where they and their partitions are."""
    found = await describe(client, names, timeout_ms=timeout_ms)
    committed, failures = await committed_offsets(
        client, [group.group_id for group in found.groups], timeout_ms=timeout_ms
    )
    partitions = {partition for offsets in committed.values() for partition in offsets}
    partitions |= {
        partition for group in found.groups for member in group.members for partition in member.assignment
    }
    starts = await known_offsets(client, partitions, admin.EARLIEST, timeout_ms=timeout_ms)
    ends = await known_offsets(client, partitions, admin.LATEST, timeout_ms=timeout_ms)
    return Sight(wall_ms(), found, committed, starts, ends, failures)


async def topic_counts(
    client: Client, groups: Iterable[GroupDescription], *, timeout_ms: int | None
) -> dict[str, int | None]:
    """Return the number of partitions of every topic that groups read, None for those that do not exist."""
    topics = {topic for group in groups for topic in topics_of(group)}
    counts: dict[str, int | None] = {}
    for topic, described in (await admin.describe_topics(client, topics, timeout_ms=timeout_ms)).items():
        if not isinstance(described, KafkaError):
            counts[topic] = len(described.partitions)
        elif described.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            counts[topic] = None
    return counts


def topics_of(group: GroupDescription) -> set[str]:
    """Return the topics that members subscribe to by name, or have partitions of."""
    topics = {topic for member in group.members for topic in member.subscribed_topics}
    return topics | {topic for member in group.members for topic, _ in member.assignment}


def facts_of(
    group: GroupDescription,
    *,
    now: Sight,
    before: Sight,
    history: GroupHistory | None,
    history_error: str | None,
    counts: dict[str, int | None],
) -> GroupFacts:
    """Return what is known of one group."""
    name = group.group_id
    owners: dict[TopicPartition, str] = {
        partition: member.member_id for member in group.members for partition in member.assignment
    }
    partitions = []
    for partition in sorted({*owners, *now.committed[name]}):
        commit = history.offsets.get(partition) if history is not None else None
        partitions.append(
            PartitionFacts(
                partition,
                owners.get(partition),
                now.look(name, partition) or Look(None, None),
                before.look(name, partition),
                now.starts.get(partition),
                None if commit is None else commit.at_ms,
            )
        )
    return GroupFacts(
        head_of(group),
        now.at_ms,
        [member_facts(member) for member in group.members],
        partitions,
        {topic: counts[topic] for topic in sorted(topics_of(group)) if topic in counts},
        history.generations if history is not None else (),
        now.at_ms - before.at_ms,
        before.state_of(name),
        history_error,
    )


def member_facts(member: GroupMember) -> MemberFacts:
    """Return what is known of a member."""
    return MemberFacts(
        member.member_id,
        member.client_id,
        member.host,
        frozenset(member.assignment),
        member.instance_id,
        member.subscribed_topics,
        None if member.target_assignment is None else frozenset(member.target_assignment),
        member.epoch,
        None if member.is_classic is None else not member.is_classic,
    )


def wall_ms() -> int:
    """Return the time of day."""
    return time.time_ns() // 1_000_000
