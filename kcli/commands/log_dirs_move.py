"""`kcli log-dirs move`: replicas of a broker from one of its log directories to another (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.log_dirs_app import app
from kcli.commands.options import BootstrapServer, CommandConfig, Property
from kcli.commands.output import Table
from kcli.commands.runner import command
from kcli.errors import ChecksFailed, KcliError, MissingArgument, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import TopicPartition, TopicPartitionReplica
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import Plan
    from kcli.commands.reassignment.view import LogDirState


class MovedReplica(NamedTuple):
    """A replica and how far it is: moving, completed, or what else `reassign-partitions verify` may say."""

    topic: str
    partition: int
    broker: int
    state: str
    log_dir: str | None
    target: str


class Moved(NamedTuple):
    """The result of `log-dirs move`."""

    replicas: Sequence[MovedReplica]
    started: Sequence[str]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return the lines that Kafka's tool for reassignments prints of such moves."""
        return iter(self.started)

    def document(self) -> object:
        """Return the replicas and the errors."""
        return {"replicas": self.replicas, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        """Return one table."""
        yield Table(
            ("Replica", "State", "Directory", "Target"),
            [
                (f"{each.topic}-{each.partition}-{each.broker}", each.state, each.log_dir, each.target)
                for each in self.replicas
            ],
        )


@command(app, "move", example="kcli log-dirs move orders:0 --broker 1 --to /data/disk-2 --wait")
async def move(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC:PARTITION...", help="Partitions to move", show_default=False),
    ] = None,
    broker: Annotated[
        int | None, typer.Option(min=0, metavar="ID", help="The broker that has the directories")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="DIR", help="One of its log directories, an absolute path")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all is moved, and show progress")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Moved:
    """Move replicas to another log directory of their broker; they are served meanwhile."""
    from kcli.client import admin
    from kcli.commands.preferred_replica_election import parse_partition
    from kcli.commands.reassignment.plan import refuse_twice
    from kcli.commands.session import open_client

    if not targets:
        raise MissingArgument("TOPIC:PARTITION")
    if broker is None:
        raise MissingArgument("--broker", what="option")
    if to is None:
        raise MissingArgument("--to", what="option")
    if not to.startswith("/"):
        raise UsageError(f"`--to` wants an absolute path: {to}")
    partitions = [parse_partition(text) for text in targets]
    refuse_twice(partitions, "a partition is named twice")
    moves = {admin.TopicPartitionReplica(*partition, broker): to for partition in partitions}
    async with open_client(bootstrap_server, command_config, command_property) as client:
        return await _move(client, partitions, moves, wait=wait)


async def _move(
    client: Client,
    partitions: list[TopicPartition],
    moves: dict[TopicPartitionReplica, str],
    *,
    wait: bool,
) -> Moved:
    from kcli.commands.reassignment.cluster import places_of, read_brokers
    from kcli.commands.reassignment.log_dirs import start_log_dir_moves
    from kcli.commands.reassignment.moves import copies_of
    from kcli.commands.reassignment.plan import Plan
    from kcli.commands.reassignment.wait import settled, wait_for_moves

    brokers = {replica.broker for replica in moves}
    (await read_brokers(client)).need(brokers)
    before = await places_of(client, brokers, partitions)
    missing = [str(replica) for replica in moves if replica not in before]
    if missing:
        raise KcliError(
            f"no such replica: {', '.join(missing)}", hint="`kcli log-dirs describe` shows those there are"
        )
    holders = {partition: tuple(brokers) for partition in partitions}
    plan = Plan(holders, moves)
    started, failures = await start_log_dir_moves(client, moves, timeout_ms=0)
    if wait and started:
        await wait_for_moves(client, plan, holders, copies_of(plan, holders, before))
    look = partial(_look, client, plan)
    states = await (settled(look, lambda seen: not _undone(seen)) if wait and not failures else look())
    if wait and not failures and (undone := _undone(states)):
        failures.append(ChecksFailed(f"{undone} of {len(states)} replicas are not where they should be"))
    rows = [
        MovedReplica(each.topic, each.partition, each.broker, each.state, each.log_dir, each.target)
        for each in states
    ]
    return Moved(rows, started, failures)


async def _look(client: Client, plan: Plan) -> list[LogDirState]:
    from kcli.commands.reassignment.cluster import places_of
    from kcli.commands.reassignment.moves import compare_log_dirs

    brokers = {replica.broker for replica in plan.log_dirs}
    return compare_log_dirs(plan, await places_of(client, brokers, plan.replicas))


def _undone(states: list[LogDirState]) -> int:
    from kcli.commands.reassignment.view import COMPLETED

    return sum(state.state != COMPLETED for state in states)
