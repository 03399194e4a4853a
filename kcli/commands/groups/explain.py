"""`describe --explain`: takes snapshots of groups, reads their records, and applies the rules."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client import admin
from kcli.client.admin import GroupDescription
from kcli.commands.groups.explain_rules import RESTLESS_WINDOW_MS, explain
from kcli.commands.groups.findings import (
    ExplainedGroup,
    ExplainView,
    GroupFacts,
    MemberFacts,
    OffsetSnapshot,
    PartitionFacts,
)
from kcli.commands.groups.head import GroupHead
from kcli.commands.groups.history import GroupHistory
from kcli.commands.groups.lookup import Found, Offsets, committed_offsets, describe, known_offsets
from kcli.commands.groups.open_transactions import open_transactions
from kcli.commands.groups.records import read_histories
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from kcli.client.client import Client


class GroupSnapshot(NamedTuple):
    """Groups, their offsets and their partitions at one moment."""

    at_ms: int
    found: Found
    committed: dict[str, Offsets]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    failures: Sequence[KcliError]

    def state_of(self, name: str) -> str | None:
        return next((group.state for group in self.found.groups if group.group_id == name), None)

    def owners(self, name: str) -> dict[TopicPartition, str]:
        """Return the ids of the members that have partitions of a group."""
        return {
            partition: member.member_id
            for group in self.found.groups
            if group.group_id == name
            for member in group.members
            for partition in member.assignment
        }

    def offsets(self, name: str, partition: TopicPartition) -> OffsetSnapshot | None:
        """Return a group's offsets in a partition, None if the group did not exist."""
        offsets = self.committed.get(name)
        if offsets is None:
            return None
        committed = offsets.get(partition)
        return OffsetSnapshot(None if committed is None else committed.offset, self.ends.get(partition))

    def ends_behind(self) -> dict[TopicPartition, int]:
        """Return the ends of the partitions in which a group has lag, or has committed nothing."""
        return {
            partition: end
            for group in self.found.groups
            for partition in {*self.owners(group.group_id), *self.committed[group.group_id]}
            for offset in (self.offsets(group.group_id, partition),)
            if offset is not None
            and (end := self.ends.get(partition)) is not None
            and end > (self.starts.get(partition, 0) if offset.committed is None else offset.committed)
        }


INTERVALS = 3
"""The snapshots are one more: with fewer, what a consumer commits at once looks like a trend."""


async def explain_groups(
    client: Client, names: Sequence[str], *, apart_ms: int, timeout_ms: int | None = None
) -> ExplainView:
    """Look at groups for three times `apart_ms`, the time between two snapshots."""
    snapshots = [await take_snapshot(client, names, timeout_ms=timeout_ms)]
    names = [group.group_id for group in snapshots[0].found.groups]
    for _ in range(INTERVALS if names else 0):
        await trio.sleep(max(0, snapshots[-1].at_ms + apart_ms - wall_ms()) / 1000)
        snapshots.append(await take_snapshot(client, names, timeout_ms=timeout_ms))
    now = snapshots[-1]
    histories: dict[str, GroupHistory] = {}
    damaged: list[KcliError] = []
    history_error = None
    try:
        if names:
            histories, damaged = await read_histories(
                client,
                names,
                with_commits=True,
                commits_since_ms=now.at_ms - RESTLESS_WINDOW_MS,
                timeout_ms=timeout_ms,
            )
    except KcliError as error:
        history_error = error.message
    counts = await topic_counts(client, now.found.groups, timeout_ms=timeout_ms)
    held = await open_transactions(client, now.ends_behind(), timeout_ms=timeout_ms)
    explained = []
    for group in now.found.groups:
        history = histories.get(group.group_id)
        facts = facts_of(
            group, snapshots=snapshots, history=history, history_error=history_error, counts=counts
        )
        facts = replace(
            facts, partitions=[replace(each, held=held.get(each.partition)) for each in facts.partitions]
        )
        lags = [entry.lag for entry in facts.partitions if entry.now.lag() is not None]
        explained.append(ExplainedGroup(facts.head, sum(lags) if lags else None, explain(facts)))
    failures = [*snapshots[0].found.failures, *damaged]
    if len(snapshots) > 1:
        failures += [*now.found.failures, *now.failures]
    else:
        failures += now.failures
    if history_error is not None:
        failures.append(KcliError(f"the history of the groups cannot be read: {history_error}"))
    return ExplainView(explained, failures)


async def take_snapshot(client: Client, names: Iterable[str], *, timeout_ms: int | None) -> GroupSnapshot:
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
    return GroupSnapshot(wall_ms(), found, committed, starts, ends, failures)


async def topic_counts(
    client: Client, groups: Iterable[GroupDescription], *, timeout_ms: int | None
) -> dict[str, int | None]:
    """Return the number of partitions of each topic that groups read, None for missing topics."""
    topics = {topic for group in groups for topic in topics_of(group)}
    counts: dict[str, int | None] = {}
    for topic, described in (await admin.describe_topics(client, topics, timeout_ms=timeout_ms)).items():
        if not isinstance(described, KafkaError):
            counts[topic] = len(described.partitions)
        elif described.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            counts[topic] = None
    return counts


def topics_of(group: GroupDescription) -> set[str]:
    """Return the topics that members subscribe to by name or have partitions of."""
    topics = {topic for member in group.members for topic in member.subscribed_topics}
    return topics | {topic for member in group.members for topic, _ in member.assignment}


def facts_of(
    group: GroupDescription,
    *,
    snapshots: Sequence[GroupSnapshot],
    history: GroupHistory | None,
    history_error: str | None,
    counts: dict[str, int | None],
) -> GroupFacts:
    name = group.group_id
    before, *between, now = snapshots
    *earlier, owners = [each.owners(name) for each in snapshots]
    generations = history.generations if history is not None else []
    timeouts = {
        member.member_id: member.session_timeout_ms for event in generations for member in event.members
    }
    partitions = []
    for partition in sorted({*owners, *now.committed[name]}):
        commit = history.offsets.get(partition) if history is not None else None
        partitions.append(
            PartitionFacts(
                partition,
                owners.get(partition),
                now.offsets(name, partition) or OffsetSnapshot(None, None),
                before.offsets(name, partition),
                now.starts.get(partition),
                None if commit is None else commit.at_ms,
                tuple(filter(None, (each.offsets(name, partition) for each in between))),
                any(each.get(partition, owners.get(partition)) != owners.get(partition) for each in earlier),
            )
        )
    return GroupFacts(
        GroupHead.of(group),
        now.at_ms,
        [MemberFacts.of(member, timeouts.get(member.member_id)) for member in group.members],
        partitions,
        {topic: counts[topic] for topic in sorted(topics_of(group)) if topic in counts},
        generations,
        now.at_ms - before.at_ms,
        before.state_of(name),
        history_error,
        history.commits if history is not None else (),
    )


def wall_ms() -> int:
    """Return the current time in ms since 1970."""
    return time.time_ns() // 1_000_000
