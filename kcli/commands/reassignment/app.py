"""`kcli reassign-partitions`: execute, verify, list and cancel; the verbs in the order of the help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.reassignment import generate_command as generate_command  # it registers its verb
from kcli.commands.reassignment.options import (
    DEFAULT_TIMEOUT_MS,
    PlanArgument,
    PlanOption,
    PreserveThrottles,
    TimeoutMs,
    app,
    read_plan,
    refuse_existing,
    write_new,
)
from kcli.commands.reassignment.view import (
    Cancelled,
    Executed,
    Moving,
    MovingPartition,
    ReassignmentState,
    Started,
    Verified,
)
from kcli.commands.shared.formatting import counted
from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.output import OutputFormat
from kcli.commands.shared.runner import command
from kcli.errors import Interrupted, KcliError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.commands.reassignment.execution import Execution
    from kcli.commands.reassignment.plan import Plan


@command(
    app,
    "execute",
    needs="plan",
    example="kcli reassign-partitions execute plan.json --throttle 50000000 --wait",
)
async def execute(
    plan: PlanArgument = None,
    plan_option: PlanOption = None,
    throttle: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES", help="Limit of each broker, bytes a second")
    ] = None,
    replica_alter_log_dirs_throttle: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES", help="Limit between log directories, bytes a second")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end, show progress, and remove throttles")
    ] = False,
    rollback_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the rollback plan to a new file")
    ] = None,
    additional: Annotated[
        bool,
        typer.Option("--additional", help="Start while other moves are under way, or change their throttle"),
    ] = False,
    disallow_replication_factor_change: Annotated[
        bool,
        typer.Option("--disallow-replication-factor-change", help="Refuse to change the number of replicas"),
    ] = False,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
    output: OutputFormat | None = None,
) -> Started | Verified | Executed:
    """Start the moves of a plan.

    The end or an interrupt of `--wait` removes throttles; so do `verify` and the next `execute` when nothing
    moves any more.
    """
    from kcli.commands.reassignment.execution import ExecuteOptions, Execution, copies_text
    from kcli.commands.shared.output import note

    targets = read_plan(plan, plan_option)
    refuse_existing(rollback_file, "--rollback-file")
    options = ExecuteOptions(
        throttle,
        replica_alter_log_dirs_throttle,
        additional,
        allow_factor_change=not disallow_replication_factor_change,
        timeout_ms=timeout_ms,
    )
    async with cluster.connect() as client:
        execution = Execution(client, targets, options)
        await execution.prepare()
        write_new(rollback_file, execution.rollback)
        note(copies_text(execution.copies, throttle))
        return await _carry_out(client, targets, execution, wait=wait, output=output)


async def _carry_out(
    client: Client, plan: Plan, execution: Execution, *, wait: bool, output: OutputFormat | None
) -> Started | Verified | Executed:
    """Start, wait if asked to, and remove the throttles after the end, an error or an interrupt."""
    from kcli.commands.reassignment.execution import verify_plan
    from kcli.commands.reassignment.progress import wait_for_moves
    from kcli.commands.shared.interrupts import interruptible
    from kcli.commands.shared.output import chosen_format, print_error, print_result

    is_whole = chosen_format(output) is OutputFormat.JSON
    started: Started | None = None
    async with interruptible() as scope:
        try:
            with scope:
                started = await execution.start()
                if not wait or not execution.has_started:
                    return started
                started = started._replace(warns=False)
                if not is_whole:
                    print_result(started, output)
                await wait_for_moves(client, plan, execution.current, execution.copies)
            failures: list[KcliError] = []
            if scope.cancel_called:
                failures += await execution.release()
                failures.append(_interrupted(plan, has_started=execution.has_started))
            if started is None:
                raise failures[-1]
            verified = await verify_plan(
                client, plan, preserve_throttles=scope.cancel_called, is_waited=not scope.cancel_called
            )
        except KcliError:
            for failure in await execution.release():
                print_error(failure)
            raise
    failures += [*started.failures, *([] if scope.cancel_called else verified.failures)]
    verified = verified._replace(failures=failures)
    return Executed(started, verified, failures) if is_whole else verified


def _interrupted(plan: Plan, *, has_started: bool) -> Interrupted:
    if not has_started:
        return Interrupted("interrupted: nothing was started")
    return Interrupted(
        f"interrupted: the moves of {counted(len(plan.replicas), 'partition')} go on, without throttles",
        hint="`kcli reassign-partitions verify PLAN --wait` waits for them, `cancel PLAN` stops them",
    )


@command(app, "verify", needs="plan", example="kcli reassign-partitions verify plan.json")
async def verify(
    plan: PlanArgument = None,
    plan_option: PlanOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until nothing of the plan moves, and show progress")
    ] = False,
    preserve_throttles: PreserveThrottles = False,
    *,
    cluster: ClusterAddress,
) -> Verified:
    """Show the state of a plan (exit code 3: not as planned), and remove throttles if nothing moves."""
    from kcli.commands.reassignment.execution import verify_plan

    targets = read_plan(plan, plan_option)
    async with cluster.connect() as client:
        if wait:
            await _wait(client, targets)
        return await verify_plan(client, targets, preserve_throttles=preserve_throttles, is_waited=wait)


async def _wait(client: Client, plan: Plan) -> None:
    from kcli.client import admin
    from kcli.commands.reassignment.cluster import places_of, replicas_of
    from kcli.commands.reassignment.plan import Plan
    from kcli.commands.reassignment.progress import wait_for_moves

    moving = await admin.list_partition_reassignments(client, list(plan.replicas))
    found = await replicas_of(client, plan.topics, may_lack=True)
    current = {
        partition: tuple(broker for broker in replicas if broker not in moving[partition].adding)
        if partition in moving
        else replicas
        for partition, replicas in found.items()
    }
    there = Plan({each: plan.replicas[each] for each in plan.replicas if each in current}, plan.log_dirs)
    brokers = [node.node_id for node in (await admin.describe_cluster(client)).nodes]
    copies = there.copies(current, await places_of(client, brokers, there.replicas))
    await wait_for_moves(client, there, {each: current[each] for each in there.replicas}, copies)


@command(app, "list", example="kcli reassign-partitions list")
async def list_moves(*, cluster: ClusterAddress) -> Moving:
    """List the partitions that are being reassigned."""
    from kcli.client import admin

    async with cluster.connect() as client:
        moving = await admin.list_partition_reassignments(client)
    return Moving(
        [
            MovingPartition(*partition, each.replicas, each.adding, each.removing)
            for partition, each in moving.items()
        ]
    )


@command(app, "cancel", needs="plan", example="kcli reassign-partitions cancel plan.json")
async def cancel(
    plan: PlanArgument = None,
    plan_option: PlanOption = None,
    preserve_throttles: PreserveThrottles = False,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
) -> Cancelled:
    """Stop the moves of a plan: partitions go back to the brokers and directories they had.

    To restore the order of the replicas too, execute the rollback plan.
    """
    from kcli.client import admin
    from kcli.commands.reassignment.execution import clear_all
    from kcli.commands.shared.session import failure

    targets = read_plan(plan, plan_option)
    brokers: list[int] = []
    async with cluster.connect() as client:
        moving = await admin.list_partition_reassignments(client, list(targets.replicas))
        active = [partition for partition, each in moving.items() if each.adding or each.removing]
        results = await admin.alter_partition_reassignments(client, dict.fromkeys(active)) if active else {}
        failures: list[KcliError] = [
            failure(f"cannot cancel the reassignment of {partition}", error)
            for partition, error in results.items()
            if error is not None
        ]
        lines, refused = await _stop_log_dir_moves(client, targets, timeout_ms)
        failures += refused
        if not failures and not preserve_throttles:
            brokers, failures = await clear_all(client, targets.topics)
    cancelled = [str(partition) for partition in active if results[partition] is None]
    return Cancelled(cancelled, lines, brokers, targets.topics if brokers else [], failures)


async def _stop_log_dir_moves(
    client: Client, plan: Plan, timeout_ms: int
) -> tuple[list[str], list[KcliError]]:
    """Stop moves between log directories: the replicas stay where they are."""
    from kcli.client.admin import TopicPartitionReplica
    from kcli.commands.reassignment.cluster import places_of, start_log_dir_moves

    if not plan.log_dirs:
        return [], []
    places = await places_of(client, {replica.broker for replica in plan.log_dirs}, plan.replicas)
    back = {
        TopicPartitionReplica(state.topic, state.partition, state.broker): state.log_dir
        for state in plan.log_dir_states(places)
        if state.state == ReassignmentState.MOVING and state.log_dir is not None
    }
    return await start_log_dir_moves(client, back, timeout_ms=timeout_ms)


VERBS = ("generate", "execute", "verify", "list", "cancel")

app.registered_commands.sort(key=lambda verb: VERBS.index(verb.name or ""))
