"""Resets of committed offsets (`OffsetReset`), and the plan of a copy for `clone`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.client import admin
from kcli.client.admin import CommittedOffset, GroupDescription, TopicPartition
from kcli.commands.groups.lookup import Offsets, committed_offsets, known_offsets, refusal, unknown_group
from kcli.commands.groups.offsets import Committed
from kcli.commands.groups.reset_plan import OffsetsFile, ResetFacts, ResetKind, ResetPlan, Scope, make_plan
from kcli.commands.shared.formatting import listed
from kcli.commands.shared.java import hash_map_order
from kcli.commands.shared.session import failure
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.java import string_hash

if TYPE_CHECKING:
    from kcli.client.client import Client


INACTIVE_STATES = ("Empty", "Dead")


class ResetRequest(NamedTuple):
    """What to reset to; `value` is an offset, a distance, or ms since 1970, depending on `kind`."""

    kind: ResetKind
    value: int
    scope: Scope
    from_file: OffsetsFile = OffsetsFile()


class Reset(NamedTuple):
    """The plans, the groups among them that did not exist, and the errors of others."""

    plans: Sequence[ResetPlan]
    unknown: Sequence[str]
    failures: Sequence[KcliError]

    def notes(self) -> Iterator[str]:
        for plan in self.plans:
            for warning in plan.warnings:
                yield f"warning: {plan.group}: {warning}"
        for name in self.unknown:
            yield f"note: there was no consumer group `{name}` before"


class OffsetReset:
    """Plans new offsets of groups from what a cluster says of them, and commits them."""

    def __init__(self, client: Client, request: ResetRequest, *, timeout_ms: int | None = None) -> None:
        self._client = client
        self._request = request
        self._timeout_ms = timeout_ms

    async def run(self, names: Sequence[str], *, execute: bool = False) -> Reset:
        """Plan the offsets of each group, and set them on `execute`."""
        reset = await self._prepare(names)
        failures = list(reset.failures)
        for plan in reset.plans:
            if execute and plan.rows:
                offsets = {
                    TopicPartition(row.topic, row.partition): CommittedOffset(row.new_offset)
                    for row in plan.rows
                }
                failures += await commit(self._client, plan.group, offsets, timeout_ms=self._timeout_ms)
        return reset._replace(failures=failures)

    async def _prepare(self, names: Sequence[str]) -> Reset:
        """Plan the offsets of each group; one with members is refused and gets an empty plan."""
        client, timeout_ms = self._client, self._timeout_ms
        described = await admin.describe_groups(client, names, timeout_ms=timeout_ms)
        committed, failures = await committed_offsets(client, names, timeout_ms=timeout_ms)
        if failures:
            raise failures[0]
        await self._check_file(names)
        in_scope = await self._partitions_in_scope()
        plans, unknown, refused = [], [], []
        for name, group in described.items():
            reason = objection(name, group)
            if reason is not None:
                refused.append(reason)
                plans.append(ResetPlan(name, ()))
                continue
            try:
                plans.append(await self._plan_group(name, committed[name], in_scope))
            except KcliError as error:
                refused.append(error)
            else:
                if isinstance(group, KafkaError) or group.state == "Dead":
                    unknown.append(name)
        return Reset(plans, unknown, refused)

    async def _check_file(self, names: Sequence[str]) -> None:
        """Raise for the first line of the file that names a missing partition."""
        file = self._request.from_file
        wanted = [(name, partition) for name in names for partition in file.offsets.get(name, ())]
        topics = dict.fromkeys(topic for _, (topic, _) in wanted)
        described = await admin.describe_topics(self._client, topics, timeout_ms=self._timeout_ms)
        for name, (topic, partition) in wanted:
            where, description = file.where(name, TopicPartition(topic, partition)), described[topic]
            if isinstance(description, KcliError):
                raise failure(f"{where}: cannot describe topic `{topic}`", description)
            if partition >= len(description.partitions):
                raise KcliError(f"{where}: {no_partition(topic, partition, len(description.partitions))}")

    async def _partitions_in_scope(self) -> list[TopicPartition]:
        """Return the partitions that `--topic` names, in the order of Kafka's tool; all must exist."""
        scope = self._request.scope
        topics = dict.fromkeys((*(topic for topic, _ in scope.partitions), *scope.topics))
        described = await admin.describe_topics(self._client, topics, timeout_ms=self._timeout_ms)
        counts: dict[str, int] = {}
        for topic, description in described.items():
            if isinstance(description, KcliError):
                raise failure(f"cannot describe topic `{topic}`", description)
            counts[topic] = len(description.partitions)
        for topic, partition in scope.partitions:
            if partition >= counts[topic]:
                raise KcliError(no_partition(topic, partition, counts[topic]))
        whole = hash_map_order(scope.topics, string_hash)
        return [
            *scope.partitions,
            *(TopicPartition(topic, partition) for topic in whole for partition in range(counts[topic])),
        ]

    async def _plan_group(
        self, name: str, committed: Offsets, in_scope: Sequence[TopicPartition]
    ) -> ResetPlan:
        request = self._request
        requested: Mapping[TopicPartition, int] = {}
        if request.kind is ResetKind.FILE:
            if name not in request.from_file.offsets:
                raise KcliError(f"`{request.from_file.name}` does not name consumer group `{name}`")
            requested = request.from_file.offsets[name]
            partitions: Sequence[TopicPartition] = list(requested)
        elif request.scope.all_topics:
            partitions = list(committed)
            if not partitions:
                raise KcliError(
                    f"consumer group `{name}` has committed no offsets",
                    hint="`--topic` names the topics of a new group",
                )
        else:
            partitions = in_scope
        facts = ResetFacts(
            {partition: entry.offset for partition, entry in committed.items()},
            await self._offsets_at(partitions, admin.EARLIEST),
            await self._offsets_at(partitions, admin.LATEST),
            await self._timed_offsets(partitions),
            requested,
        )
        return make_plan(name, partitions, kind=request.kind, facts=facts, value=request.value)

    async def _timed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after the requested time, None without such a record."""
        if self._request.kind not in (ResetKind.DATETIME, ResetKind.DURATION):
            return {}
        found = await self._offsets_at(partitions, max(0, self._request.value))
        return {partition: offset if offset >= 0 else None for partition, offset in found.items()}

    async def _offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        """Return an offset of each partition; raise the first refusal."""
        answer = await admin.list_offsets(
            self._client, dict.fromkeys(partitions, timestamp), timeout_ms=self._timeout_ms
        )
        found: dict[TopicPartition, int] = {}
        for partition, result in answer.items():
            if isinstance(result, KcliError):
                raise failure(f"cannot get the offsets of {partition}", result)
            found[partition] = result.offset
        return found


def objection(name: str, group: GroupDescription | KafkaError) -> KcliError | None:
    """Return why a group's offsets cannot be set, None if they can. The group need not exist."""
    if isinstance(group, KafkaError):
        return None if group.code == ErrorCode.GROUP_ID_NOT_FOUND else refusal(name, group)
    if group.state in INACTIVE_STATES:
        return None
    members = listed(
        f"`{member.instance_id or member.client_id}` at {member.host.lstrip('/')}" for member in group.members
    )
    return KcliError(
        f"consumer group `{name}` is {group.state}: its offsets can only be set while it has no members",
        hint=f"stop its members first: {members}" if group.members else None,
    )


def no_partition(topic: str, partition: int, count: int) -> str:
    return f"topic `{topic}` has no partition {partition}, it has {count}"


async def commit(
    client: Client,
    name: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_ms: int | None = None,
) -> list[KcliError]:
    """Commit offsets of a group; return the refusals."""
    results = await admin.alter_group_offsets(client, name, offsets, timeout_ms=timeout_ms)
    return [
        failure(f"cannot set the offset of `{name}` in {partition}", joined_meanwhile(error))
        for partition, error in results.items()
        if error is not None
    ]


def joined_meanwhile(error: KafkaError) -> KafkaError:
    """Return an error with a hint if a member has joined: then a tool cannot commit."""
    if error.code != ErrorCode.UNKNOWN_MEMBER_ID:
        return error
    return KafkaError(error.code, error.message, hint="a member has joined the group: stop its members first")


async def prepare_clone(
    client: Client, group: str, new: str, *, scope: Scope, force: bool, timeout_ms: int | None = None
) -> tuple[ResetPlan, Mapping[TopicPartition, Committed]]:
    """Return the plan of the group `new`, and the offsets to commit."""
    described = await admin.describe_groups(client, [group, new], timeout_ms=timeout_ms)
    source = described[group]
    if isinstance(source, KafkaError):
        raise refusal(group, source)
    reason = objection(new, described[new])
    if reason is not None:
        raise reason
    committed, failures = await committed_offsets(client, [group, new], timeout_ms=timeout_ms)
    if failures:
        raise failures[0]
    whole = not scope.topics and not scope.partitions
    copied = {
        partition: entry
        for partition, entry in committed[group].items()
        if whole or partition.topic in scope.topics or partition in scope.partitions
    }
    if not copied:
        if source.state == "Dead":
            raise unknown_group(group)
        raise KcliError(f"consumer group `{group}` has committed no offsets{'' if whole else ' there'}")
    if committed[new] and not force:
        raise KcliError(
            f"consumer group `{new}` has committed offsets of its own",
            hint="`--force` overwrites those of the same partitions and leaves the others",
        )
    facts = ResetFacts(
        {partition: entry.offset for partition, entry in committed[new].items()},
        await known_offsets(client, copied, admin.EARLIEST, timeout_ms=timeout_ms),
        await known_offsets(client, copied, admin.LATEST, timeout_ms=timeout_ms),
        requested={partition: entry.offset for partition, entry in copied.items()},
    )
    return make_plan(new, copied, kind=ResetKind.COPY, facts=facts), copied
