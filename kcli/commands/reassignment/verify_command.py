"""`kcli reassign-partitions verify` and `list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.options import BootstrapServer, CommandConfig, Property
from kcli.commands.reassignment.options import PlanArgument, PlanOption, PreserveThrottles, app, read_plan
from kcli.commands.reassignment.view import Moving, MovingPartition, Verified
from kcli.commands.runner import command

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import Plan


@command(app, "verify", example="kcli reassign-partitions verify plan.json")
async def verify(
    plan: PlanArgument = None,
    plan_option: PlanOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until nothing of the plan moves, and show progress")
    ] = False,
    preserve_throttles: PreserveThrottles = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Verified:
    """Tell how far a plan is (exit code 3: not as planned); once nothing moves, throttles are removed."""
    from kcli.commands.reassignment.execution import verify_plan
    from kcli.commands.session import open_client

    targets = read_plan(plan, plan_option)
    async with open_client(bootstrap_server, command_config, command_property) as client:
        if wait:
            await _wait(client, targets)
        return await verify_plan(client, targets, preserve_throttles=preserve_throttles, is_waited=wait)


async def _wait(client: Client, plan: Plan) -> None:
    """Wait for what is on the move now."""
    from kcli.client import admin
    from kcli.commands.reassignment.cluster import places_of, replicas_of
    from kcli.commands.reassignment.moves import copies_of
    from kcli.commands.reassignment.plan import Plan
    from kcli.commands.reassignment.wait import wait_for_moves

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
    copies = copies_of(there, current, await places_of(client, brokers, there.replicas))
    await wait_for_moves(client, there, {each: current[each] for each in there.replicas}, copies)


@command(app, "list", example="kcli reassign-partitions list")
async def list_moves(
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Moving:
    """List the partitions that are on the move."""
    from kcli.client import admin
    from kcli.commands.session import open_client

    async with open_client(bootstrap_server, command_config, command_property) as client:
        moving = await admin.list_partition_reassignments(client)
    return Moving(
        [
            MovingPartition(*partition, each.replicas, each.adding, each.removing)
            for partition, each in moving.items()
        ]
    )
