"""`kcli preferred-replica-election`: asks the controller to elect leaders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.options import ClusterAddress, renamed
from kcli.commands.shared.output import Table
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import TopicPartition
    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError

app = typer.Typer(rich_markup_mode=None)


class Election(StrEnum):
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class ElectionResult(NamedTuple):
    """A partition and its election: `elected`, `not needed`, or why it failed."""

    topic: str
    partition: int
    result: str


class Elected(NamedTuple):
    """The result of `preferred-replica-election`, partitions in the order of Kafka's tool."""

    election: str
    partitions: Sequence[ElectionResult]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        elected, valid = (
            ", ".join(f"{each.topic}-{each.partition}" for each in self.partitions if each.result == result)
            for result in ("elected", "not needed")
        )
        if elected:
            yield (
                f"Successfully completed leader election ({self.election.upper()}) for partitions {elected}"
            )
        if valid:
            yield f"Valid replica already elected for partitions {valid}"

    def tables(self) -> Iterator[Table]:
        rows = sorted(self.partitions)
        yield Table(
            ("Partition", "Result"), [(f"{each.topic}-{each.partition}", each.result) for each in rows]
        )


@command(app, "preferred-replica-election", example="kcli preferred-replica-election orders:0 orders:1")
async def preferred_replica_election(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC[:PARTITION]...",
            help="Topics or single partitions; all partitions if none is given",
        ),
    ] = None,
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='The partitions as JSON: {"partitions": [{"topic": "orders", "partition": 0}]}',
        ),
    ] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", "--all", help="All partitions: the default")
    ] = False,
    topic: Annotated[str | None, typer.Option(hidden=True)] = None,
    partition: Annotated[int | None, typer.Option(min=0, hidden=True)] = None,
    election_type: Annotated[
        Election,
        typer.Option(
            "--election-type",
            "--type",
            case_sensitive=False,
            help="unclean elects a replica out of sync if none is in sync",
        ),
    ] = Election.PREFERRED,
    admin_config: Annotated[Path | None, typer.Option("--admin.config", hidden=True)] = None,
    *,
    cluster: ClusterAddress,
) -> Elected:
    """Make the first replica of each partition its leader again."""
    from kcli.client import admin
    from kcli.commands.shared.session import open_client

    if (topic is None) != (partition is None):
        raise UsageError(
            "`--topic` and `--partition` need each other", hint="TOPIC:PARTITION names one partition"
        )
    texts = [*(targets or ()), *([] if topic is None else [f"{topic}:{partition}"])]
    if sum((bool(texts), path_to_json_file is not None, all_topic_partitions)) > 1:
        raise UsageError("partitions, `--path-to-json-file` and `--all-topic-partitions` exclude each other")
    wanted, topics = _wanted(texts, path_to_json_file)
    kind = admin.ElectionType[election_type.name]
    config = renamed(admin_config, "--admin.config", cluster.command_config, "--command-config")
    async with open_client(
        cluster.bootstrap_server, config, cluster.command_property, profile=cluster.profile
    ) as client:
        if topics:
            wanted = await _with_topics(client, topics, wanted=wanted)
        is_all = path_to_json_file is None and not texts
        return _result(election_type, await admin.elect_leaders(client, kind, None if is_all else wanted))


def _wanted(texts: Sequence[str], path: Path | None) -> tuple[list[TopicPartition], list[str]]:
    """Return the named partitions, and the topics that are named without a partition."""
    from kcli.commands.reassignment.plan import parse_election, refuse_twice
    from kcli.commands.shared.arguments import not_empty
    from kcli.commands.shared.input_files import read_text
    from kcli.commands.shared.topic_filter import parse_partition

    if path is not None:
        return parse_election(read_text(path), str(path)), []
    wanted = [parse_partition(text) for text in texts if ":" in text]
    topics = [not_empty(text, "topic") for text in texts if ":" not in text]
    refuse_twice(wanted, "a partition is named twice")
    refuse_twice(topics, "a topic is named twice")
    return wanted, topics


async def _with_topics(
    client: Client, topics: Sequence[str], *, wanted: Sequence[TopicPartition]
) -> list[TopicPartition]:
    """Return the wanted partitions and all those of topics, which must exist."""
    from kcli.commands.reassignment.cluster import replicas_of
    from kcli.commands.reassignment.plan import refuse_twice

    found = sorted(await replicas_of(client, topics, may_lack=True))
    for missing in sorted({*topics} - {partition.topic for partition in found}):
        hint = "`kcli topics list` shows the topics there are"
        raise KcliError(f"topic `{missing}` does not exist", hint=hint)
    both = [*wanted, *found]
    refuse_twice(both, "a partition is named twice")
    return both


def _result(election: Election, results: dict[TopicPartition, KafkaError | None]) -> Elected:
    from kcli.commands.shared.java import hash_map_order, partition_hash
    from kcli.commands.shared.session import failure
    from kcli.protocol.error_codes import ErrorCode

    rows: list[ElectionResult] = []
    failures: list[KcliError] = []
    for partition in hash_map_order(results, partition_hash):
        error = results[partition]
        if error is None:
            rows.append(ElectionResult(*partition, "elected"))
        elif error.code == ErrorCode.ELECTION_NOT_NEEDED:
            rows.append(ElectionResult(*partition, "not needed"))
        else:
            rows.append(ElectionResult(*partition, error.message))
            failures.append(failure(f"cannot elect a leader of {partition} ({election})", error))
    return Elected(election, rows, failures)
