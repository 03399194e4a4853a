"""`kcli consume`: prints the records of a topic, with the options of Kafka's console consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kcli.commands.groups.options import complete_group
from kcli.commands.shared.arguments import flag, parse_properties, read_properties
from kcli.commands.shared.options import (
    ClusterAddress,
    OutputFormat,
    TopicArgument,
    TopicOption,
    one_topic_or_none,
    renamed,
)
from kcli.commands.shared.runner import command
from kcli.errors import UsageError


class IsolationLevel(StrEnum):
    """Whether records of open and aborted transactions are read."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


Include = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="Read all topics that match, also those that are created later",
        show_default=False,
    ),
]
PartitionNumbers = Annotated[
    list[str] | None,
    typer.Option(metavar="IDS", help="Only these partitions, separated by commas (repeatable)"),
]
StartOffset = Annotated[
    str | None,
    typer.Option(
        metavar="OFFSET",
        help="Begin at a number, earliest or latest; needs --partition",
        show_default=False,
    ),
]
FromBeginning = Annotated[bool, typer.Option("--from-beginning", help="Begin at the first record")]
FromTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Begin at the first record of this time or later: milliseconds since 1970, or ISO 8601, UTC "
        "without a zone",
        show_default=False,
    ),
]
ToTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="End before the first record of this time or later; the format is that of --from-time",
        show_default=False,
    ),
]
UntilEnd = Annotated[bool, typer.Option("--until-end", help="End at the current end of the topic")]
MaxMessages = Annotated[
    int | None,
    typer.Option(min=-1, metavar="N", help="End after so many records; -1: never", show_default=False),
]
TimeoutMs = Annotated[
    int | None,
    typer.Option(
        min=-1, metavar="MS", help="End after so long without a record; -1: never", show_default=False
    ),
]
GroupId = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Read as a member of this consumer group, from its committed offsets, and commit",
        autocompletion=complete_group,
        show_default=False,
    ),
]
FormatterName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How records are printed: default, json, logging, noop, checksum; for internal topics "
        "offsets, group-metadata, transaction-log; or a class name of Kafka",
        show_default=False,
    ),
]
FormatterProperty = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="print.timestamp=true, likewise partition, offset, delivery, epoch, headers, key, value; "
        "key.separator, line.separator, headers.separator, null.literal; headers.deserializer "
        "(repeatable)",
    ),
]
FormatterConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file of formatter properties", show_default=False)
]
KeyDeserializer = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="Type of keys: string, bytes, short, int, long, float, double, uuid, boolean",
        show_default=False,
    ),
]
ValueDeserializer = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Type of values, as for keys", show_default=False)
]
Isolation = Annotated[
    IsolationLevel | None,
    typer.Option(help="read_committed leaves out open and aborted transactions", show_default=False),
]
SkipMessageOnError = Annotated[
    bool, typer.Option("--skip-message-on-error", help="Skip a record that cannot be printed")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        help="Show which partitions a member gets and gives up, and the traceback of an error",
    ),
]


app = typer.Typer(rich_markup_mode=None)


@command(app, "consume", example="kcli consume orders --from-beginning --max-messages 10")
async def consume(
    topic: TopicArgument = None,
    topic_option: TopicOption = None,
    include: Include = None,
    partition: PartitionNumbers = None,
    offset: StartOffset = None,
    from_beginning: FromBeginning = False,
    from_time: FromTime = None,
    to_time: ToTime = None,
    until_end: UntilEnd = False,
    max_messages: MaxMessages = None,
    timeout_ms: TimeoutMs = None,
    group: GroupId = None,
    formatter: FormatterName = None,
    formatter_property: FormatterProperty = None,
    formatter_config: FormatterConfig = None,
    key_deserializer: KeyDeserializer = None,
    value_deserializer: ValueDeserializer = None,
    isolation_level: Isolation = None,
    skip_message_on_error: SkipMessageOnError = False,
    enable_systest_events: Annotated[bool, typer.Option("--enable-systest-events", hidden=True)] = False,
    old_property: Annotated[list[str] | None, typer.Option("--property", hidden=True)] = None,
    consumer_property: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    consumer_config: Annotated[Path | None, typer.Option("--consumer.config", hidden=True)] = None,
    *,
    cluster: ClusterAddress,
    output: OutputFormat | None = None,
    verbose: Verbose = False,
) -> None:
    """Print the records of a topic, by default only new ones.

    Without --group it commits nothing. A member of a group shares the partitions with the others, continues
    at the committed offsets, and commits exactly what it has printed. In a group, --from-beginning applies to
    partitions without a committed offset. With `-X group.protocol=consumer` the broker assigns the partitions
    (KIP-848). `--output json` prints an object for each record.
    """
    from kcli.client.config import ConsumerConfig
    from kcli.commands.consume.formatters import make_formatter
    from kcli.commands.consume.reading import Choice, End, Reading, Start, parse_offset, print_records
    from kcli.commands.shared.session import client_properties, connect_with, connecting_ms
    from kcli.commands.shared.times import asked_time
    from kcli.commands.shared.topic_filter import some_ids

    if offset is not None and not partition:
        raise UsageError(
            "`--offset` needs `--partition`",
            hint="`--from-beginning` and `--from-time` apply to all partitions",
        )
    properties = client_properties(
        renamed(consumer_config, "--consumer.config", cluster.command_config, "--command-config"),
        renamed(consumer_property, "--consumer-property", cluster.command_property, "--command-property"),
        {"client.id": "console-consumer"},
    )
    if isolation_level is not None:
        properties["isolation.level"] = isolation_level
    properties["group.id"] = group_id(group, properties, has_partitions=bool(partition), from_time=from_time)
    ids = frozenset(number for each in partition or () for number in some_ids(each, "--partition")) or None
    excludes_internal = flag(properties, "exclude.internal.topics", default=True)
    choice = Choice(one_topic_or_none(topic, topic_option), include, ids, excludes_internal)
    choice.check()
    start = Start(
        None if offset is None else parse_offset(offset),
        from_beginning,
        None if from_time is None else asked_time(from_time, "--from-time"),
        properties.get("auto.offset.reset"),
    )
    properties["auto.offset.reset"] = start.reset_strategy()
    end = End(
        positive(max_messages),
        positive(timeout_ms),
        None if to_time is None else asked_time(to_time, "--to-time"),
        until_end,
    )
    format_record = make_formatter(
        formatter or ("json" if output is OutputFormat.JSON else "default"),
        format_properties(
            formatter_config,
            renamed(old_property, "--property", formatter_property, "--formatter-property"),
            {"key.deserializer": key_deserializer, "value.deserializer": value_deserializer},
        ),
    )
    config = ConsumerConfig.from_properties(properties)
    async with connect_with(
        cluster.bootstrap_server, properties, timeout_ms=connecting_ms(end.timeout_ms)
    ) as client:
        await print_records(
            client,
            config,
            Reading(choice, start, end),
            format_record=format_record,
            skip_errors=skip_message_on_error,
            verbose=verbose,
        )
    if enable_systest_events:
        print("shutdown_complete")


def group_id(
    group: str | None, properties: Mapping[str, str], *, has_partitions: bool, from_time: str | None
) -> str:
    """Return the group to read in, "" for none; raise for options without a meaning in a group."""
    configured = properties.get("group.id", "")
    if group is None:
        group = "" if has_partitions else configured  # named partitions are read without a group
    elif not group:
        raise UsageError("`--group` cannot be empty", hint="without `--group` it reads alone")
    elif configured not in ("", group):
        raise UsageError(f"`--group` contradicts `group.id`: {group} and {configured}")
    if group and has_partitions:
        raise UsageError("`--group` and `--partition` exclude each other")
    if group and from_time is not None:
        raise UsageError(
            "`--from-time` has no meaning in a group, which begins at its committed offsets",
            hint="`kcli consumer-groups reset-offsets GROUP --to-datetime` moves them",
        )
    return group


def positive(number: int | None) -> int | None:
    """Return a limit, None for -1."""
    return None if number is None or number < 0 else number


def format_properties(
    formatter_config: Path | None, formatter_properties: Sequence[str] | None, flags: dict[str, str | None]
) -> dict[str, str]:
    """Return the formatter's properties: the file's, overridden by flags, and by the command line's."""
    return {
        **read_properties(formatter_config),
        **{name: value for name, value in flags.items() if value is not None},
        **parse_properties(formatter_properties, "--formatter-property"),
    }
