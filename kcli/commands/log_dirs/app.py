"""`kcli log-dirs`: where brokers keep their replicas, and moves between log directories (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.output import Table
from kcli.commands.shared.runner import command
from kcli.errors import ChecksFailed, KcliError, MissingArgument, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import LogDirDescription, TopicPartition, TopicPartitionReplica
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import Plan
    from kcli.commands.reassignment.view import LogDirState


app = typer.Typer(
    name="log-dirs",
    help="Describe the log directories of brokers, and move replicas between them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Replica(NamedTuple):
    topic: str
    partition: int
    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory; the sizes of its volume are None if the broker does not tell them."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: Sequence[Replica]


class BrokerLogDirs(NamedTuple):
    broker: int
    log_dirs: Sequence[LogDir]


class LogDirs(NamedTuple):
    brokers: Sequence[BrokerLogDirs]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return the lines of Kafka's `kafka-log-dirs`: two sentences and a JSON document."""
        import json

        yield "Querying brokers for log directories information"
        ids = ",".join(str(broker.broker) for broker in self.brokers)
        yield f"Received log directory information from brokers {ids}"
        brokers = [
            {"broker": broker.broker, "logDirs": [log_dir_json(log_dir) for log_dir in broker.log_dirs]}
            for broker in self.brokers
        ]
        yield json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":"), ensure_ascii=False)

    def tables(self) -> Iterator[Table]:
        directories = [(broker.broker, log_dir) for broker in self.brokers for log_dir in broker.log_dirs]
        yield Table(
            ("Broker", "Directory", "Replicas", "Bytes", "Volume bytes", "Usable bytes", "Error"),
            [
                (
                    broker,
                    log_dir.path,
                    len(log_dir.replicas),
                    sum(replica.size for replica in log_dir.replicas),
                    log_dir.total_bytes,
                    log_dir.usable_bytes,
                    log_dir.error,
                )
                for broker, log_dir in directories
            ],
        )
        yield Table(
            ("Broker", "Topic", "Partition", "Bytes", "Offset lag", "Future", "Directory"),
            [
                (broker, *replica, log_dir.path)
                for broker, log_dir in directories
                for replica in log_dir.replicas
            ],
        )


def log_dir_json(log_dir: LogDir) -> dict[str, object]:
    """Return a directory as Kafka's tool shows it, replicas in the order of Java's hash map."""
    from kcli.commands.shared.java import hash_map_order, partition_hash

    replicas = {(replica.topic, replica.partition): replica for replica in log_dir.replicas}
    return {
        "partitions": [
            {
                "partition": f"{topic}-{partition}",
                "size": replicas[topic, partition].size,
                "offsetLag": replicas[topic, partition].offset_lag,
                "isFuture": replicas[topic, partition].is_future,
            }
            for topic, partition in hash_map_order(replicas, partition_hash)
        ],
        "error": log_dir.error,
        "logDir": log_dir.path,
    }


@command(app, "describe", example="kcli log-dirs describe --topic-list orders,clicks")
async def describe(
    topic_list: Annotated[
        str | None,
        typer.Option(metavar="TOPICS", help="Only these topics, separated by commas", show_default=False),
    ] = None,
    broker_list: Annotated[
        str | None,
        typer.Option(metavar="IDS", help="Only these brokers, separated by commas", show_default=False),
    ] = None,
    *,
    cluster: ClusterAddress,
) -> LogDirs:
    """Show the log directories of brokers, and the size of each replica in them."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure
    from kcli.commands.shared.topic_filter import parse_ids

    topics = None if topic_list is None else {name for name in topic_list.split(",") if name}
    if topics is not None and not topics:
        raise UsageError("`--topic-list` cannot be empty")
    wanted = parse_ids(broker_list or "", "--broker-list")
    async with cluster.connect() as client:
        existing = [node.node_id for node in (await admin.describe_cluster(client)).nodes]
        missing = sorted(set(wanted) - set(existing))
        if missing:
            raise KcliError(
                f"there is no broker {', '.join(map(str, missing))}",
                hint=f"the brokers are {', '.join(map(str, existing))}",
            )
        answers = await admin.describe_log_dirs(client, sorted(wanted or existing))
    brokers, failures = [], []
    for node_id, answer in answers.items():
        if isinstance(answer, KcliError):
            failures.append(failure(f"cannot describe the log directories of broker {node_id}", answer))
            continue
        brokers.append(BrokerLogDirs(node_id, [log_dir_of(log_dir, topics) for log_dir in answer]))
        failures += [
            failure(f"log directory `{log_dir.path}` of broker {node_id}", log_dir.error)
            for log_dir in answer
            if log_dir.error is not None
        ]
    return LogDirs(brokers, failures)


def log_dir_of(described: LogDirDescription, topics: set[str] | None) -> LogDir:
    """Return a directory with the replicas of `topics`, None for all topics."""
    replicas = [
        Replica(replica.topic, replica.partition, replica.size_bytes, replica.offset_lag, replica.is_future)
        for replica in described.replicas
        if topics is None or replica.topic in topics
    ]
    return LogDir(
        described.path,
        None if described.error is None else described.error.code.name,
        described.total_bytes if described.total_bytes >= 0 else None,
        described.usable_bytes if described.usable_bytes >= 0 else None,
        sorted(replicas),
    )


class MovedReplica(NamedTuple):
    """A replica and its state, as `reassign-partitions verify` has it."""

    topic: str
    partition: int
    broker: int
    state: str
    log_dir: str | None
    target: str


class Moved(NamedTuple):
    replicas: Sequence[MovedReplica]
    started: Sequence[str]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return the lines of `kafka-reassign-partitions` about such moves."""
        return iter(self.started)

    def document(self) -> object:
        return {"replicas": self.replicas, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        yield Table(
            ("Replica", "State", "Directory", "Target"),
            [
                (f"{each.topic}-{each.partition}-{each.broker}", each.state, each.log_dir, each.target)
                for each in self.replicas
            ],
        )


@command(
    app, "move", needs="targets", example="kcli log-dirs move orders:0 --broker 1 --to /data/disk-2 --wait"
)
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
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end of the move, and show progress")
    ] = False,
    *,
    cluster: ClusterAddress,
) -> Moved:
    """Move replicas to another log directory of their broker, which serves them meanwhile."""
    from kcli.client import admin
    from kcli.commands.reassignment.plan import refuse_twice
    from kcli.commands.shared.topic_filter import parse_partition

    if not targets:
        raise MissingArgument("TOPIC:PARTITION...")
    if broker is None:
        raise MissingArgument("--broker", what="option")
    if to is None:
        raise MissingArgument("--to", what="option")
    if not to.startswith("/"):
        raise UsageError(f"`--to` needs an absolute path: {to}")
    partitions = [parse_partition(text) for text in targets]
    refuse_twice(partitions, "a partition is named twice")
    moves = {admin.TopicPartitionReplica(*partition, broker): to for partition in partitions}
    async with cluster.connect() as client:
        return await _move(client, partitions, moves, wait=wait)


async def _move(
    client: Client, partitions: list[TopicPartition], moves: dict[TopicPartitionReplica, str], *, wait: bool
) -> Moved:
    from kcli.commands.reassignment.cluster import places_of, read_brokers, start_log_dir_moves
    from kcli.commands.reassignment.plan import Plan
    from kcli.commands.reassignment.progress import settled, wait_for_moves

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
        await wait_for_moves(client, plan, holders, plan.copies(holders, before))
    read = partial(_read_states, client, plan)
    states = await (settled(read, lambda seen: not _undone(seen)) if wait and not failures else read())
    if wait and not failures and (undone := _undone(states)):
        failures.append(ChecksFailed(f"{undone} of {len(states)} replicas are not in the target directory"))
    rows = [
        MovedReplica(each.topic, each.partition, each.broker, each.state, each.log_dir, each.target)
        for each in states
    ]
    return Moved(rows, started, failures)


async def _read_states(client: Client, plan: Plan) -> list[LogDirState]:
    from kcli.commands.reassignment.cluster import places_of

    brokers = {replica.broker for replica in plan.log_dirs}
    return plan.log_dir_states(await places_of(client, brokers, plan.replicas))


def _undone(states: list[LogDirState]) -> int:
    from kcli.commands.reassignment.view import ReassignmentState

    return sum(each.state is not ReassignmentState.COMPLETED for each in states)
