"""The Typer application `kcli transactions`, and the options that its verbs share."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from kcli.commands.shared.arguments import LARGEST_INT32
from kcli.commands.shared.options import complete_topic
from kcli.errors import MissingArgument, UsageError
from kcli.protocol.topics import TopicPartition

app = typer.Typer(
    name="transactions",
    help="List, describe and end transactions, and find those that hang.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DEFAULT_TIMEOUT_MS = 30_000

TimeoutMs = Annotated[
    int,
    typer.Option(
        "--timeout", min=1, max=LARGEST_INT32, metavar="MS", help="How long to wait for a broker's answer"
    ),
]
PartitionArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC:PARTITION", help="The partition, as `orders:0`", autocompletion=complete_topic
    ),
]
TopicName = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", hidden=True, autocompletion=complete_topic)
]
PartitionNumber = Annotated[
    int | None, typer.Option("--partition", min=0, max=LARGEST_INT32, metavar="N", hidden=True)
]
BrokerId = Annotated[
    int | None, typer.Option(min=0, max=LARGEST_INT32, metavar="N", help="Ask the replicas of this broker")
]


def one_partition(argument: str | None, topic: str | None, number: int | None) -> TopicPartition:
    """Return the partition given as an argument, or with the options of Kafka's tool."""
    from kcli.commands.shared.topic_filter import parse_partition

    if argument is not None:
        if topic is not None or number is not None:
            raise UsageError("`TOPIC:PARTITION` excludes `--topic` and `--partition`")
        return parse_partition(argument)
    if topic is None and number is None:
        raise MissingArgument("TOPIC:PARTITION")
    if topic is None or number is None:
        raise UsageError("`--topic` and `--partition` need each other", hint="or name it as `orders:0`")
    return TopicPartition(topic, number)


def now_ms() -> int:
    """Return the time that ages are counted to."""
    return time.time_ns() // 1_000_000


def complete_id(context: typer.Context, incomplete: str) -> list[str]:
    from kcli.commands.shared.completion import names_beginning_with
    from kcli.commands.transactions.lookup import transactional_ids

    return names_beginning_with(incomplete, transactional_ids, context.params)
