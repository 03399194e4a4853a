"""Execution and verification of a plan: checks, throttles, start, and the removal of throttles at the end."""

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
from kcli.commands.reassignment.plan import MoveMap, plan_json
from kcli.commands.reassignment.progress import settled
from kcli.commands.reassignment.throttles import (
    clear_throttles,
    find_throttles,
    set_log_dir_throttles,
    set_throttles,
)
from kcli.commands.reassignment.view import (
    Copy,
    LogDirState,
    PartitionState,
    ReassignmentState,
    Started,
    Verified,
)
from kcli.commands.shared.formatting import counted, duration_text, ids_text, size_text
from kcli.commands.shared.output import note
from kcli.commands.shared.session import failure
from kcli.errors import ChecksFailed, KcliError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import Assignment, Plan


@dataclass(frozen=True, slots=True)
class ExecuteOptions:
    """How a plan is executed; throttles are in bytes a second."""

    throttle: int | None
    log_dir_throttle: int | None
    additional: bool
    allow_factor_change: bool
    timeout_ms: int


class Execution:
    """The execution of a plan: call `prepare`, then `start`, and after a failure or interrupt `release`."""

    def __init__(self, client: Client, plan: Plan, options: ExecuteOptions) -> None:
        self._client = client
        self._plan = plan
        self._options = options
        self._moves = MoveMap()
        self._is_throttled = False
        self.current: Assignment = {}
        self.copies: list[Copy] = []
        self.rollback = ""
        self.has_started = False

    async def prepare(self) -> None:
        """Check the plan against the cluster and read the current state; nothing moves yet."""
        moving = await admin.list_partition_reassignments(self._client)
        if moving and not self._options.additional:
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
        self._moves = MoveMap.proposed(targets, self.current, moving)
        self.copies = self._plan.copies(self.current, places)
        self.rollback = plan_json(self.current, places)
        for partition, replicas in self.current.items():
            if not set(replicas) & brokers.racks.keys():
                note(
                    f"warning: {partition} cannot move until one of its brokers is back: {ids_text(replicas)}"
                )
        if not moving:
            await remove_leftovers(self._client)

    async def start(self) -> Started:
        """Set the throttles and submit the plan; if nothing starts, remove the throttles."""
        options = self._options
        if options.throttle is not None or options.log_dir_throttle is not None:
            self._is_throttled = True
        if options.throttle is not None:
            await set_throttles(self._client, self._moves, rate=options.throttle)
        if options.log_dir_throttle is not None and self._plan.log_dirs:
            brokers = {replica.broker for replica in self._plan.log_dirs}
            await set_log_dir_throttles(self._client, brokers, rate=options.log_dir_throttle)
        started, failures = await self._submit()
        lines: list[str] = []
        if started and self._plan.log_dirs:
            lines, refused = await start_log_dir_moves(
                self._client, self._plan.log_dirs, timeout_ms=options.timeout_ms
            )
            failures += refused
        if not started and self._moves.moves.keys() == self._plan.replicas.keys():
            failures += await self.release()
        limits = (options.throttle, options.log_dir_throttle)
        return Started(self.rollback, *limits, started, lines, self.copies, self._is_throttled, failures)

    async def _submit(self) -> tuple[list[str], list[KcliError]]:
        """Return the partitions whose reassignment has started, and the refusals."""
        try:
            results = await admin.alter_partition_reassignments(
                self._client,
                self._plan.replicas,
                allow_replication_factor_change=self._options.allow_factor_change,
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
        """Remove the throttles that this execution has set; return what could not be removed."""
        if not self._is_throttled:
            return []
        self._is_throttled = False
        replicas = (replica.broker for replica in self._plan.log_dirs)
        brokers = sorted({*self._moves.brokers(), *replicas})
        return await clear_throttles(self._client, brokers, self._moves.topics)


@dataclass(frozen=True, slots=True)
class PlanState:
    """The state of a plan's partitions and log directories, and which of its topics exist."""

    partitions: list[PartitionState]
    log_dirs: list[LogDirState]
    topics: frozenset[str]
    is_moving: bool

    @classmethod
    async def read(cls, client: Client, plan: Plan) -> PlanState:
        moving = await admin.list_partition_reassignments(client)
        current = await replicas_of(client, plan.topics, may_lack=True)
        log_dirs: list[LogDirState] = []
        if plan.log_dirs:
            alive = (await read_brokers(client)).racks.keys()
            brokers = {replica.broker for replica in plan.log_dirs} & alive
            log_dirs = plan.log_dir_states(await places_of(client, brokers, plan.replicas))
        return cls(
            plan.states(current, moving),
            log_dirs,
            frozenset(partition.topic for partition in current),
            bool(moving) or any(each.state is ReassignmentState.MOVING for each in log_dirs),
        )

    @property
    def states(self) -> list[ReassignmentState]:
        return [*(each.state for each in self.partitions), *(each.state for each in self.log_dirs)]

    @property
    def differs(self) -> bool:
        """Tell whether something is not as planned and does not move there."""
        return not {*self.states} <= {ReassignmentState.COMPLETED, ReassignmentState.MOVING}


async def verify_plan(
    client: Client, plan: Plan, *, preserve_throttles: bool, is_waited: bool = False
) -> Verified:
    """Return the state of a plan; if nothing moves in the cluster, remove the throttles as Kafka's tool does.

    `is_waited`: the controller has reported the end of the plan. Brokers may learn of it later.
    """
    failures: list[KcliError] = []
    brokers: list[int] = []
    if is_waited:
        found = await settled(lambda: PlanState.read(client, plan), lambda seen: not seen.differs)
    else:
        found = await PlanState.read(client, plan)
    topics = [topic for topic in plan.topics if topic in found.topics]
    if not found.is_moving and not preserve_throttles:
        brokers, failures = await clear_all(client, topics)
        await remove_leftovers(client)
    if undone := sum(state is not ReassignmentState.COMPLETED for state in found.states):
        what = "partitions and log directories" if found.log_dirs else "partitions"
        failures.append(ChecksFailed(f"{undone} of {len(found.states)} {what} are not as planned"))
    return Verified(found.partitions, found.log_dirs, brokers, topics if brokers else [], failures)


async def clear_all(client: Client, topics: Iterable[str]) -> tuple[list[int], list[KcliError]]:
    """Remove the throttles of topics and of all brokers, as the senders are not known."""
    brokers = [node.node_id for node in (await admin.describe_cluster(client)).nodes]
    return brokers, await clear_throttles(client, brokers, topics)


async def remove_leftovers(client: Client) -> None:
    """Remove throttles of a run that was killed. Nothing may be moving."""
    found = await find_throttles(client)
    if not found.brokers and not found.topics:
        return
    failures = await clear_throttles(client, found.brokers, found.topics)
    if failures:
        raise failures[0]
    what = [f"broker {broker}" for broker in found.brokers] + [f"topic {topic}" for topic in found.topics]
    note(f"removed leftover throttles: {', '.join(what)}")


def copies_text(copies: Sequence[Copy], throttle: int | None = None) -> str:
    """Return one line: what is copied to which broker, and the shortest time that a throttle allows."""
    if not copies:
        return "nothing to copy"
    to_brokers: Counter[int] = Counter()
    for copy in copies:
        to_brokers[copy.replica.broker] += copy.size_bytes or 0
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
