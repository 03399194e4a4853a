"""`kcli reassign-partitions execute`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.options import BootstrapServer, CommandConfig, Property
from kcli.commands.output import OutputFormat
from kcli.commands.reassignment.options import (
    DEFAULT_TIMEOUT_MS,
    PlanArgument,
    PlanOption,
    TimeoutMs,
    app,
    read_plan,
    refuse_existing,
    write_new,
)
from kcli.commands.reassignment.view import Executed, Started, Verified
from kcli.commands.runner import command
from kcli.commands.words import counted
from kcli.errors import Interrupted, KcliError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.commands.reassignment.execution import Execution
    from kcli.commands.reassignment.plan import Plan


@command(app, "execute", example="kcli reassign-partitions execute plan.json --throttle 50000000 --wait")
async def execute(
    plan: PlanArgument = None,
    plan_option: PlanOption = None,
    throttle: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES", help="Limit of each broker, bytes a second")
    ] = None,
    replica_alter_log_dirs_throttle: Annotated[
        int | None,
        typer.Option(min=1, metavar="BYTES", help="Limit between log directories, bytes a second"),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until all is as planned, show progress, remove throttles"),
    ] = False,
    rollback_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the plan that leads back to a new file"),
    ] = None,
    additional: Annotated[
        bool,
        typer.Option("--additional", help="Start beside moves under way, or change their limit"),
    ] = False,
    disallow_replication_factor_change: Annotated[
        bool,
        typer.Option("--disallow-replication-factor-change", help="Refuse another number of replicas"),
    ] = False,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    command_property: Property = None,
    output: OutputFormat | None = None,
) -> Started | Verified | Executed:
    """Start the moves of a plan.

    Throttles are removed at the end of `--wait` and when that is interrupted, by `verify`, or by the next
    `execute` once nothing moves any more.
    """
    from kcli.commands.output import note
    from kcli.commands.reassignment.execution import Execution, Limits, copies_text, planned_copies
    from kcli.commands.session import open_client

    targets = read_plan(plan, plan_option)
    refuse_existing(rollback_file, "--rollback-file")
    limits = Limits(
        throttle,
        replica_alter_log_dirs_throttle,
        additional,
        allow_factor_change=not disallow_replication_factor_change,
        timeout_ms=timeout_ms,
    )
    async with open_client(bootstrap_server, command_config, command_property) as client:
        execution = Execution(client, targets, limits)
        await execution.prepare()
        write_new(rollback_file, execution.rollback)
        note(copies_text(planned_copies(execution.copies), throttle))
        return await _carry_out(client, targets, execution, wait=wait, output=output)


async def _carry_out(
    client: Client, plan: Plan, execution: Execution, *, wait: bool, output: OutputFormat | None
) -> Started | Verified | Executed:
    """Start, wait if asked to, and remove the limits again if this is the end of it or an interrupt."""
    from kcli.commands.interrupts import interruptible
    from kcli.commands.output import chosen_format, print_error, print_result
    from kcli.commands.reassignment.execution import verify_plan
    from kcli.commands.reassignment.wait import wait_for_moves

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
    """Return the error of an interrupt: what goes on, and what can be done."""
    if not has_started:
        return Interrupted("interrupted: nothing was started")
    return Interrupted(
        f"interrupted: the moves of {counted(len(plan.replicas), 'partition')} go on, without throttles",
        hint="`kcli reassign-partitions verify PLAN --wait` waits for them, `cancel PLAN` stops them",
    )
