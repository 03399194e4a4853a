"""`kcli log-dirs describe`: where brokers keep their partitions, and how large these are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.log_dirs_app import app
from kcli.commands.options import BootstrapServer, CommandConfig, Property
from kcli.commands.output import Table
from kcli.commands.runner import command
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.admin import LogDirDescription


class Replica(NamedTuple):
    """One replica's log."""

    topic: str
    partition: int
    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory; sizes of its volume are None when the broker does not tell them."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: Sequence[Replica]


class BrokerLogDirs(NamedTuple):
    """A broker and its log directories."""

    broker: int
    log_dirs: Sequence[LogDir]


class LogDirs(NamedTuple):
    """The result of `log-dirs describe`."""

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
        """Return a table of directories and one of replicas."""
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
    """Return a directory as Kafka's tool shows it, replicas in the order of its hash map."""
    from kcli.commands.java.order import hash_map_order, partition_hash

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
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> LogDirs:
    """Show the log directories of brokers, and the size of each replica in them."""
    from kcli.client import admin
    from kcli.commands.session import failure, open_client
    from kcli.commands.topic_filter import parse_ids

    topics = None if topic_list is None else {name for name in topic_list.split(",") if name}
    wanted = parse_ids(broker_list or "", "--broker-list")
    async with open_client(bootstrap_server, command_config, command_property) as client:
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
    """Return a directory with the replicas of `topics`, or with all of them."""
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
