"""`kcli reassign-partitions cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.commands.options import BootstrapServer, CommandConfig, Property
from kcli.commands.reassignment.options import (
    DEFAULT_TIMEOUT_MS,
    PlanArgument,
    PlanOption,
    PreserveThrottles,
    TimeoutMs,
    app,
    read_plan,
)
from kcli.commands.reassignment.view import MOVING, Cancelled
from kcli.commands.runner import command
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import Plan


@command(app, "cancel", example="kcli reassign-partitions cancel plan.json")
async def cancel(
    plan: PlanArgument = None,
    plan_option: PlanOption = None,
    preserve_throttles: PreserveThrottles = False,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Cancelled:
    """Stop the moves of a plan: partitions go back to the brokers and directories they had.

    The brokers are those of before. To have them in the same order too, execute the rollback plan.
    """
    from kcli.client import admin
    from kcli.commands.reassignment.execution import clear_all
    from kcli.commands.session import failure, open_client

    targets = read_plan(plan, plan_option)
    brokers: list[int] = []
    async with open_client(bootstrap_server, command_config, command_property) as client:
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
    """Have replicas stay in the directories that they were to leave."""
    from kcli.client.admin import TopicPartitionReplica
    from kcli.commands.reassignment.cluster import places_of
    from kcli.commands.reassignment.log_dirs import start_log_dir_moves
    from kcli.commands.reassignment.moves import compare_log_dirs

    if not plan.log_dirs:
        return [], []
    places = await places_of(client, {replica.broker for replica in plan.log_dirs}, plan.replicas)
    back = {
        TopicPartitionReplica(state.topic, state.partition, state.broker): state.log_dir
        for state in compare_log_dirs(plan, places)
        if state.state == MOVING and state.log_dir is not None
    }
    return await start_log_dir_moves(client, back, timeout_ms=timeout_ms)
