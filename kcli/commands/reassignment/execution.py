"""Carrying out a plan: what is checked, limited and started, and that no limit outlives the moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client import admin
from kcli.commands.reassignment.cluster import (
    places_of,
    read_brokers,
    replicas_now,
    replicas_of,
    start_log_dir_moves,
)
from kcli.commands.reassignment.plan import (
    Copy,
    compare,
    compare_log_dirs,
    copies_of,
    moves_of,
    moving_brokers,
    plan_json,
)
from kcli.commands.reassignment.progress import settled
from kcli.commands.reassignment.throttles import (
    clear_throttles,
    find_throttles,
    set_log_dir_throttles,
    set_throttles,
)
from kcli.commands.reassignment.view import (
    COMPLETED,
    MOVING,
    LogDirState,
    PartitionState,
    PlannedCopy,
    Started,
    Verified,
    ids,
)
from kcli.commands.shared.formatting import counted, duration_text, size_text
from kcli.commands.shared.output import note
from kcli.commands.shared.session import failure
from kcli.errors import ChecksFailed, KcliError

if TYPE_CHECKING:
    from kcli.client.admin import ReplicaPlace, TopicPartition, TopicPartitionReplica
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import Assignment, Move, Plan


@dataclass(frozen=True, slots=True)
class Limits:
    """How a plan is carried out."""

    throttle: int | None
    log_dir_throttle: int | None
    additional: bool
    allow_factor_change: bool
    timeout_ms: int


class Execution:
    """One plan on its way; `prepare` has to come first, and `release` whatever happens after `start`."""

    def __init__(self, client: Client, plan: Plan, limits: Limits) -> None:
        self._client = client
        self._plan = plan
        self._limits = limits
        self._moves: dict[TopicPartition, Move] = {}
        self._is_limited = False
        self.current: Assignment = {}
        self.copies: list[Copy] = []
        self.rollback = ""
        self.has_started = False

    async def prepare(self) -> None:
        """Check the plan against the cluster, and learn what is there now; nothing is changed yet."""
        moving = await admin.list_partition_reassignments(self._client)
        if moving and not self._limits.additional:
            raise KcliError(
                f"a reassignment is under way: {', '.join(map(str, moving))}",
                hint="`--additional` starts another one beside it, and can change its throttle",
            )
        brokers = await read_brokers(self._client)
        targets = self._plan.replicas
        brokers.need({broker for replicas in targets.values() for broker in replicas})
        self.current = await replicas_now(self._client, targets)
        holders = {broker for replicas in (*self.current.values(), *targets.values()) for broker in replicas}
        places = await places_of(self._client, holders & brokers.racks.keys(), targets)
        self._moves = moves_of(targets, self.current, moving)
        self.copies = copies_of(self._plan, self.current, places)
        self.rollback = plan_json(self.current, places)
        for partition, replicas in self.current.items():
            if not set(replicas) & brokers.racks.keys():
                note(f"warning: {partition} cannot move before one of its brokers is back: {ids(replicas)}")
        if not moving:
            await remove_leftovers(self._client)

    async def start(self) -> Started:
        """Set the limits and submit the plan; if nothing of it begins, the limits go again."""
        limits = self._limits
        if limits.throttle is not None or limits.log_dir_throttle is not None:
            self._is_limited = True
        if limits.throttle is not None:
            await set_throttles(self._client, self._moves, rate=limits.throttle)
        if limits.log_dir_throttle is not None and self._plan.log_dirs:
            brokers = {replica.broker for replica in self._plan.log_dirs}
            await set_log_dir_throttles(self._client, brokers, rate=limits.log_dir_throttle)
        started, failures = await self._submit()
        lines: list[str] = []
        if started and self._plan.log_dirs:
            lines, refused = await start_log_dir_moves(
                self._client, self._plan.log_dirs, timeout_ms=limits.timeout_ms
            )
            failures += refused
        if not started and self._moves.keys() == self._plan.replicas.keys():
            failures += await self.release()
        return Started(
            self.rollback,
            limits.throttle,
            limits.log_dir_throttle,
            started,
            lines,
            planned_copies(self.copies),
            self._is_limited,
            failures,
        )

    async def _submit(self) -> tuple[list[str], list[KcliError]]:
        """Return the partitions that began to move, and the refusals."""
        try:
            results = await admin.alter_partition_reassignments(
                self._client,
                self._plan.replicas,
                allow_replication_factor_change=self._limits.allow_factor_change,
            )
        except KcliError as error:
            return [], [failure("cannot start the reassignment", error)]
        started = [str(partition) for partition, error in sorted(results.items()) if error is None]
        self.has_started = bool(started)
        return started, [
            failure(f"cannot reassign {partition}", error)
            for partition, error in results.items()
            if error is not None
        ]

    async def release(self) -> list[KcliError]:
        """Remove the limits that were set; returns what could not be removed."""
        if not self._is_limited:
            return []
        self._is_limited = False
        replicas = (replica.broker for replica in self._plan.log_dirs)
        brokers = sorted({*moving_brokers(self._moves), *replicas})
        return await clear_throttles(self._client, brokers, {partition.topic for partition in self._moves})


async def verify_plan(
    client: Client, plan: Plan, *, preserve_throttles: bool, is_waited: bool = False
) -> Verified:
    """Tell how far a plan is; once nothing moves in the cluster, throttles go, as with Kafka's tool.

    `is_waited`: the controller has told that nothing of the plan moves, which brokers may hear of later.
    """
    failures: list[KcliError] = []
    brokers: list[int] = []
    if is_waited:
        standing = await settled(lambda: _standing(client, plan), lambda seen: not seen.differs)
    else:
        standing = await _standing(client, plan)
    topics = [topic for topic in plan.topics if topic in standing.topics]
    if not standing.is_moving and not preserve_throttles:
        brokers, failures = await clear_all(client, topics)
        await remove_leftovers(client)
    found = standing.found
    if undone := sum(state != COMPLETED for state in found):
        what = "partitions" if not standing.log_dirs else "partitions and log directories"
        failures.append(ChecksFailed(f"{undone} of {len(found)} {what} are not as planned"))
    return Verified(standing.partitions, standing.log_dirs, brokers, topics if brokers else [], failures)


@dataclass(frozen=True, slots=True)
class _Standing:
    """How far a plan is, and which of its topics there are."""

    partitions: list[PartitionState]
    log_dirs: list[LogDirState]
    topics: frozenset[str]
    is_moving: bool

    @property
    def found(self) -> list[str]:
        return [*(each.state for each in self.partitions), *(each.state for each in self.log_dirs)]

    @property
    def differs(self) -> bool:
        return any(state not in (COMPLETED, MOVING) for state in self.found)


async def _standing(client: Client, plan: Plan) -> _Standing:
    moving = await admin.list_partition_reassignments(client)
    current = await replicas_of(client, plan.topics, may_lack=True)
    log_dirs = compare_log_dirs(plan, await _named_places(client, plan))
    return _Standing(
        compare(plan.replicas, current, moving),
        log_dirs,
        frozenset(partition.topic for partition in current),
        bool(moving) or any(state.state == MOVING for state in log_dirs),
    )


async def _named_places(client: Client, plan: Plan) -> dict[TopicPartitionReplica, ReplicaPlace]:
    if not plan.log_dirs:
        return {}
    brokers = {replica.broker for replica in plan.log_dirs} & (await read_brokers(client)).racks.keys()
    return await places_of(client, brokers, plan.replicas)


async def clear_all(client: Client, topics: Iterable[str]) -> tuple[list[int], list[KcliError]]:
    """Remove the throttles of all brokers, since nobody knows who sent, and of topics."""
    brokers = [node.node_id for node in (await admin.describe_cluster(client)).nodes]
    return brokers, await clear_throttles(client, brokers, topics)


async def remove_leftovers(client: Client) -> None:
    """Remove throttles that somebody left who was killed; nothing may be on the move."""
    found = await find_throttles(client)
    if not found.brokers and not found.topics:
        return
    failures = await clear_throttles(client, found.brokers, found.topics)
    if failures:
        raise failures[0]
    what = [f"broker {broker}" for broker in found.brokers] + [f"topic {topic}" for topic in found.topics]
    note(f"removed throttles that were left behind: {', '.join(what)}")


def planned_copies(copies: Iterable[Copy]) -> list[PlannedCopy]:
    """Return copies as results show them."""
    return [PlannedCopy(*copy.replica, copy.size_bytes, copy.log_dir) for copy in copies]


def copies_text(copies: Sequence[PlannedCopy], throttle: int | None = None) -> str:
    """Return in a line what is going to be copied, and how long a limit makes that last at least."""
    if not copies:
        return "nothing to copy"
    to_brokers: Counter[int] = Counter()
    for copy in copies:
        to_brokers[copy.broker] += copy.size_bytes or 0
    unknown = sum(copy.size_bytes is None for copy in copies)
    parts = [f"{size_text(size)} to broker {broker}" for broker, size in sorted(to_brokers.items())]
    text = f"to copy: {counted(len(copies), 'replica')}, {size_text(to_brokers.total())}"
    if len(parts) > 1:
        text += f" ({', '.join(parts)})"
    if unknown:
        text += f", and {counted(unknown, 'replica')} of unknown size"
    if throttle:
        text += f", at least {duration_text(max(to_brokers.values()) / throttle)} at {size_text(throttle)}/s"
    return text
