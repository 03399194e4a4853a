"""Planning new offsets of groups from what a cluster says of them, and committing them.

Planning the copy of a group's offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.client import admin
from kcli.client.admin import CommittedOffset, GroupDescription, TopicPartition
from kcli.commands.groups.lookup import Offsets, committed_offsets, known_offsets, refusal, unknown_group
from kcli.commands.groups.offsets import Committed
from kcli.commands.groups.reset_plan import (
    OffsetsFile,
    ResetFacts,
    ResetKind,
    ResetPlan,
    Scope,
    make_plan,
)
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
    """What is wanted: how offsets are found, of which partitions, and what a file says for each group.

    `value` is an offset, a distance, or milliseconds since 1970, as `kind` needs it.
    """

    kind: ResetKind
    value: int
    scope: Scope
    from_file: OffsetsFile = OffsetsFile()


class Reset(NamedTuple):
    """The plans, the groups among them that did not exist, and why others were refused."""

    plans: Sequence[ResetPlan]
    unknown: Sequence[str]
    failures: Sequence[KcliError]

    def notes(self) -> Iterator[str]:
        """Yield what the user should know besides the offsets."""
        for plan in self.plans:
            for warning in plan.warnings:
                yield f"warning: {plan.group}: {warning}"
        for name in self.unknown:
            yield f"note: there was no consumer group `{name}` before"


async def reset_groups(
    client: Client,
    names: Sequence[str],
    request: ResetRequest,
    *,
    execute: bool = False,
    timeout_ms: int | None = None,
) -> Reset:
    """Plan the offsets of each group, and set them if that is wanted."""
    reset = await prepare(client, names, request, timeout_ms=timeout_ms)
    failures = list(reset.failures)
    for plan in reset.plans:
        if execute and plan.rows:
            offsets = {
                TopicPartition(row.topic, row.partition): CommittedOffset(row.new_offset) for row in plan.rows
            }
            failures += await commit(client, plan.group, offsets, timeout_ms=timeout_ms)
    return reset._replace(failures=failures)


async def prepare(
    client: Client, names: Sequence[str], request: ResetRequest, *, timeout_ms: int | None = None
) -> Reset:
    """Plan the offsets of each group; one with members is refused and gets an empty plan."""
    described = await admin.describe_groups(client, names, timeout_ms=timeout_ms)
    committed, failures = await committed_offsets(client, names, timeout_ms=timeout_ms)
    if failures:
        raise failures[0]
    await check_file(client, request.from_file, names, timeout_ms=timeout_ms)
    in_scope = await partitions_in(client, request.scope, timeout_ms=timeout_ms)
    plans, unknown, refused = [], [], []
    for name, group in described.items():
        reason = objection(name, group)
        if reason is not None:
            refused.append(reason)
            plans.append(ResetPlan(name, ()))
            continue
        try:
            plans.append(
                await plan_group(
                    client, name, request, committed=committed[name], in_scope=in_scope, timeout_ms=timeout_ms
                )
            )
        except KcliError as error:
            refused.append(error)
        else:
            if isinstance(group, KafkaError) or group.state == "Dead":
                unknown.append(name)
    return Reset(plans, unknown, refused)


def objection(name: str, group: GroupDescription | KafkaError) -> KcliError | None:
    """Return why a group's offsets cannot be set, None if they can; it need not exist."""
    if isinstance(group, KafkaError):
        return None if group.code == ErrorCode.GROUP_ID_NOT_FOUND else refusal(name, group)
    if group.state in INACTIVE_STATES:
        return None
    members = listed(
        f"`{member.instance_id or member.client_id}` at {member.host.lstrip('/')}" for member in group.members
    )
    return KcliError(
        f"consumer group `{name}` is {group.state}: its offsets can only be set while nobody is in it",
        hint=f"stop its members first: {members}" if group.members else None,
    )


async def check_file(
    client: Client, file: OffsetsFile, names: Sequence[str], *, timeout_ms: int | None = None
) -> None:
    """Raise for the first line of a file that names a partition which is not there."""
    wanted = [(name, partition) for name in names for partition in file.offsets.get(name, ())]
    topics = dict.fromkeys(topic for _, (topic, _) in wanted)
    described = await admin.describe_topics(client, topics, timeout_ms=timeout_ms)
    for name, (topic, partition) in wanted:
        where, description = file.where(name, TopicPartition(topic, partition)), described[topic]
        if isinstance(description, KcliError):
            raise failure(f"{where}: cannot describe topic `{topic}`", description)
        if partition >= len(description.partitions):
            raise KcliError(f"{where}: {no_partition(topic, partition, len(description.partitions))}")


def no_partition(topic: str, partition: int, count: int) -> str:
    """Return what there is to say of a partition that a topic lacks."""
    return f"topic `{topic}` has no partition {partition}, it has {count}"


async def partitions_in(
    client: Client, scope: Scope, *, timeout_ms: int | None = None
) -> list[TopicPartition]:
    """Return the partitions that `--topic` names, in the order of Kafka's tool; raise if one is not there."""
    topics = dict.fromkeys((*(topic for topic, _ in scope.partitions), *scope.topics))
    described = await admin.describe_topics(client, topics, timeout_ms=timeout_ms)
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


async def plan_group(
    client: Client,
    name: str,
    request: ResetRequest,
    *,
    committed: Offsets,
    in_scope: Sequence[TopicPartition],
    timeout_ms: int | None = None,
) -> ResetPlan:
    """Plan the offsets of a group that may be reset; raise if that cannot be."""
    requested: Mapping[TopicPartition, int] = {}
    if request.kind is ResetKind.FILE:
        if name not in request.from_file.offsets:
            raise KcliError(f"`{request.from_file.name}` says nothing of consumer group `{name}`")
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
        await offsets_at(client, partitions, admin.EARLIEST, timeout_ms=timeout_ms),
        await offsets_at(client, partitions, admin.LATEST, timeout_ms=timeout_ms),
        await timed_offsets(client, partitions, request, timeout_ms=timeout_ms),
        requested,
    )
    return make_plan(name, partitions, kind=request.kind, facts=facts, value=request.value)


async def timed_offsets(
    client: Client, partitions: Iterable[TopicPartition], request: ResetRequest, *, timeout_ms: int | None
) -> dict[TopicPartition, int | None]:
    """Return the first offset at or after the wanted time, None where no record is that new."""
    if request.kind not in (ResetKind.DATETIME, ResetKind.DURATION):
        return {}
    found = await offsets_at(client, partitions, max(0, request.value), timeout_ms=timeout_ms)
    return {partition: offset if offset >= 0 else None for partition, offset in found.items()}


async def offsets_at(
    client: Client, partitions: Iterable[TopicPartition], timestamp: int, *, timeout_ms: int | None
) -> dict[TopicPartition, int]:
    """Return an offset of each partition; raise if one is refused."""
    wanted = [TopicPartition(*partition) for partition in partitions]
    found: dict[TopicPartition, int] = {}
    answer = await admin.list_offsets(client, dict.fromkeys(wanted, timestamp), timeout_ms=timeout_ms)
    for partition, result in answer.items():
        if isinstance(result, KcliError):
            raise failure(f"cannot get the offsets of {partition}", result)
        found[partition] = result.offset
    return found


async def commit(
    client: Client,
    name: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_ms: int | None = None,
) -> list[KcliError]:
    """Commit offsets in the name of a group; return the refusals."""
    wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
    results = await admin.alter_group_offsets(client, name, wanted, timeout_ms=timeout_ms)
    return [
        failure(f"cannot set the offset of `{name}` in {partition}", joined_meanwhile(error))
        for partition, error in results.items()
        if error is not None
    ]


def joined_meanwhile(error: KafkaError) -> KafkaError:
    """Return an error with what it means when a tool commits: members do not let it."""
    if error.code != ErrorCode.UNKNOWN_MEMBER_ID:
        return error
    return KafkaError(error.code, error.message, hint="somebody has joined the group: stop its members first")


async def prepare_clone(
    client: Client, group: str, new: str, *, scope: Scope, force: bool, timeout_ms: int | None = None
) -> tuple[ResetPlan, Mapping[TopicPartition, Committed]]:
    """Return the plan of the group `new`, and the offsets to be committed; raise if that cannot be."""
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
    copied = {partition: entry for partition, entry in committed[group].items() if is_in(partition, scope)}
    if not copied:
        if source.state == "Dead":
            raise unknown_group(group)
        raise KcliError(
            f"consumer group `{group}` has committed no offsets"
            + (" there" if scope.topics or scope.partitions else "")
        )
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


def is_in(partition: TopicPartition, scope: Scope) -> bool:
    """Tell whether a partition is meant; no scope means every one."""
    if not scope.topics and not scope.partitions:
        return True
    return partition[0] in scope.topics or partition in scope.partitions
