"""`kcli reassign-partitions`: propose, start, watch and stop moves of partitions between brokers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, CommandConfig, Property
from kcli.commands.reassignment_view import (
    COMPLETED,
    Cancelled,
    Moving,
    MovingPartition,
    Proposal,
    Started,
    Verified,
    ids,
)
from kcli.commands.runner import command
from kcli.errors import ChecksFailed, KcliError, MissingArgument, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import TopicPartition
    from kcli.client.client import Client
    from kcli.commands.reassignment_moves import Move
    from kcli.commands.reassignment_plan import Assignment

app = typer.Typer(
    name="reassign-partitions",
    help="Propose, start, verify, list and cancel moves of partitions between brokers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PlanArgument = Annotated[
    Path | None, typer.Argument(metavar="PLAN", help="The plan: a JSON file as Kafka's tool writes it")
]
PlanOption = Annotated[Path | None, typer.Option("--reassignment-json-file", metavar="FILE", hidden=True)]
PreserveThrottles = Annotated[
    bool, typer.Option("--preserve-throttles", help="Leave the throttles of brokers and topics")
]


@command(app, "generate", example="kcli reassign-partitions generate orders --broker-list 1,2,3")
async def generate(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC...", help="Topics to move", show_default=False)
    ] = None,
    topics_to_move_json_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The topics as JSON", show_default=False)
    ] = None,
    broker_list: Annotated[
        str | None, typer.Option(metavar="IDS", help="Brokers that get the replicas, as 1,2,3")
    ] = None,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="Place replicas without a look at racks")
    ] = False,
    start_index: Annotated[int | None, typer.Option(min=0, hidden=True)] = None,
    shift: Annotated[int | None, typer.Option(min=0, hidden=True)] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Proposal:
    """Propose a plan that spreads topics over brokers; nothing is moved."""
    from random import randrange

    from kcli.assignors.replica_placer import Candidate
    from kcli.commands.reassignment_moves import propose
    from kcli.commands.reassignment_plan import parse_brokers, parse_topics, plan_json, refuse_twice
    from kcli.commands.session import open_client

    names = list(topics or ())
    if topics_to_move_json_file is not None:
        names += parse_topics(_read(topics_to_move_json_file), str(topics_to_move_json_file))
    if not names:
        raise MissingArgument("TOPIC")
    refuse_twice(names, "a topic is named twice")
    if broker_list is None:
        raise MissingArgument("--broker-list", what="option")
    brokers = parse_brokers(broker_list)
    async with open_client(bootstrap_server, command_config, command_property) as client:
        racks = await _racks(client, brokers)
        current = await _replicas_of(client, names)
    proposed = propose(
        current,
        [Candidate(broker, None if disable_rack_aware else racks[broker]) for broker in brokers],
        start_index=randrange(len(brokers)) if start_index is None else start_index,
        shift=randrange(len(brokers)) if shift is None else shift,
    )
    return Proposal(plan_json(current), plan_json(proposed))


@command(app, "execute", example="kcli reassign-partitions execute plan.json --throttle 50000000")
async def execute(
    plan: PlanArgument = None,
    plan_option: PlanOption = None,
    throttle: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES", help="Limit of each broker, bytes a second")
    ] = None,
    additional: Annotated[
        bool,
        typer.Option("--additional", help="Start beside moves under way, or change their limit"),
    ] = False,
    disallow_replication_factor_change: Annotated[
        bool,
        typer.Option(
            "--disallow-replication-factor-change",
            help="Refuse another number of replicas",
        ),
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Started:
    """Start the moves of a plan; the throttles are removed again by `verify`."""
    from kcli.client import admin
    from kcli.commands.reassignment_moves import moves_of
    from kcli.commands.reassignment_throttles import set_throttles
    from kcli.commands.session import open_client

    targets = _read_plan(plan, plan_option)
    async with open_client(bootstrap_server, command_config, command_property) as client:
        moving = await admin.list_partition_reassignments(client)
        if moving and not additional:
            raise KcliError(
                f"a reassignment is under way: {', '.join(map(str, moving))}",
                hint="`--additional` starts another one beside it, and can change its throttle",
            )
        await _racks(client, {broker for replicas in targets.values() for broker in replicas})
        current = await _current(client, targets)
        moves = moves_of(targets, current, moving)
        if throttle is not None:
            await set_throttles(client, moves, throttle)
        return await _start(client, targets, current, moves, throttle, not disallow_replication_factor_change)


async def _start(
    client: Client,
    targets: Assignment,
    current: Assignment,
    moves: dict[TopicPartition, Move],
    throttle: int | None,
    allow_change: bool,
) -> Started:
    """Submit the plan. If nothing of it begins and nothing else moves, throttles that were set go again."""
    from kcli.client import admin
    from kcli.commands.reassignment_moves import moving_brokers
    from kcli.commands.reassignment_plan import plan_json
    from kcli.commands.reassignment_throttles import clear_throttles
    from kcli.commands.session import failure

    failures: list[KcliError] = []
    started: list[str] = []
    try:
        results = await admin.alter_partition_reassignments(
            client, targets, allow_replication_factor_change=allow_change
        )
    except KcliError as error:
        failures.append(failure("cannot start the reassignment", error))
    else:
        started = [str(partition) for partition, error in sorted(results.items()) if error is None]
        failures = [
            failure(f"cannot reassign {partition}", error)
            for partition, error in results.items()
            if error is not None
        ]
    if throttle is not None and not started and moves.keys() == targets.keys():
        topics = {partition.topic for partition in targets}
        failures += await clear_throttles(client, moving_brokers(moves), topics)
    return Started(plan_json(current), throttle, started, failures)


@command(app, "verify", example="kcli reassign-partitions verify plan.json")
async def verify(
    plan: PlanArgument = None,
    plan_option: PlanOption = None,
    preserve_throttles: PreserveThrottles = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Verified:
    """Tell how far a plan is (exit code 3: not done); once nothing moves, throttles are removed."""
    from kcli.client import admin
    from kcli.commands.reassignment_moves import compare
    from kcli.commands.session import open_client

    targets = _read_plan(plan, plan_option)
    failures: list[KcliError] = []
    brokers: list[int] = []
    topics: list[str] = []
    async with open_client(bootstrap_server, command_config, command_property) as client:
        moving = await admin.list_partition_reassignments(client)
        current = await _replicas_of(client, {partition.topic for partition in targets}, may_lack=True)
        if not moving and not preserve_throttles:
            topics = sorted({partition.topic for partition in targets})
            brokers, failures = await _clear(client, topics)
    states = compare(targets, current, moving)
    undone = sum(state.state != COMPLETED for state in states)
    if undone:
        failures.append(ChecksFailed(f"{undone} of {len(states)} partitions are not as planned"))
    return Verified(states, brokers, topics, failures)


@command(app, "list", example="kcli reassign-partitions list")
async def list_moves(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
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


@command(app, "cancel", example="kcli reassign-partitions cancel plan.json")
async def cancel(
    plan: PlanArgument = None,
    plan_option: PlanOption = None,
    preserve_throttles: PreserveThrottles = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Cancelled:
    """Stop the moves of a plan: partitions go back to the replicas they had."""
    from kcli.client import admin
    from kcli.commands.session import failure, open_client

    targets = _read_plan(plan, plan_option)
    brokers: list[int] = []
    topics: list[str] = []
    async with open_client(bootstrap_server, command_config, command_property) as client:
        moving = await admin.list_partition_reassignments(client, list(targets))
        active = [partition for partition, each in moving.items() if each.adding or each.removing]
        results = await admin.alter_partition_reassignments(client, dict.fromkeys(active)) if active else {}
        failures: list[KcliError] = [
            failure(f"cannot cancel the reassignment of {partition}", error)
            for partition, error in results.items()
            if error is not None
        ]
        if not failures and not preserve_throttles:
            topics = sorted({partition.topic for partition in targets})
            brokers, failures = await _clear(client, topics)
    cancelled = [str(partition) for partition in active if results[partition] is None]
    return Cancelled(cancelled, brokers, topics, failures)


async def _clear(client: Client, topics: Iterable[str]) -> tuple[list[int], list[KcliError]]:
    """Remove the throttles of all brokers, since nobody knows who sent, and of topics."""
    from kcli.client import admin
    from kcli.commands.reassignment_throttles import clear_throttles

    brokers = [node.node_id for node in (await admin.describe_cluster(client)).nodes]
    return brokers, await clear_throttles(client, brokers, topics)


async def _racks(client: Client, brokers: Iterable[int]) -> dict[int, str | None]:
    """Return the racks of all brokers; those that are asked for must be there."""
    from kcli.client import admin

    racks = {node.node_id: node.rack for node in (await admin.describe_cluster(client)).nodes}
    unknown = sorted(set(brokers) - racks.keys())
    if unknown:
        raise KcliError(
            f"the cluster has no such broker: {ids(unknown)}",
            hint="`kcli cluster nodes` shows those there are",
        )
    return racks


async def _replicas_of(
    client: Client, topics: Iterable[str], *, may_lack: bool = False
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of all partitions of topics; an unknown topic has none if it may."""
    from kcli.client import admin
    from kcli.commands.session import failure
    from kcli.protocol.error_codes import ErrorCode

    found: dict[TopicPartition, tuple[int, ...]] = {}
    for name, topic in (await admin.describe_topics(client, topics)).items():
        if not isinstance(topic, KcliError):
            for each in topic.partitions:
                found[admin.TopicPartition(name, each.partition)] = tuple(each.replicas)
        elif not (may_lack and topic.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise failure(f"cannot describe topic `{name}`", topic)
    return found


async def _current(client: Client, targets: Assignment) -> Assignment:
    """Return the replicas that the partitions of a plan have; each must exist."""
    found = await _replicas_of(client, {partition.topic for partition in targets})
    unknown = [str(partition) for partition in targets if partition not in found]
    if unknown:
        raise KcliError(f"no such partition: {', '.join(unknown)}")
    return {partition: found[partition] for partition in targets}


def _read_plan(argument: Path | None, option: Path | None) -> Assignment:
    """Return the plan in the file that was named."""
    from kcli.commands.reassignment_plan import parse_plan

    if argument is not None and option is not None:
        raise UsageError("`PLAN` and `--reassignment-json-file` exclude each other")
    path = argument or option
    if path is None:
        raise MissingArgument("PLAN")
    return parse_plan(_read(path), str(path))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"`{path}` is not UTF-8: {error}") from error
