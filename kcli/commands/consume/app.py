"""`kcli consume`: prints the records of a topic, with the options of Kafka's console consumer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

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

if TYPE_CHECKING:
    from kcli.commands.consume.formatters import Format
    from kcli.commands.consume.reading import End, Start


class IsolationLevel(StrEnum):
    """Whether records of open and aborted transactions are read."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


Include = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Read all topics that match, also those that are created later"),
]
PartitionNumbers = Annotated[
    list[str] | None,
    typer.Option(metavar="IDS", help="Only these partitions, separated by commas (repeatable)"),
]
GroupId = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Read as a member of this consumer group, from its committed offsets, and commit",
        autocompletion=complete_group,
    ),
]
Isolation = Annotated[
    IsolationLevel | None, typer.Option(help="read_committed leaves out open and aborted transactions")
]
SkipMessageOnError = Annotated[
    bool, typer.Option("--skip-message-on-error", help="Skip a record that cannot be printed")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", help="Show which partitions a member gets and gives up, and the traceback of a bug"
    ),
]


class RangeOptions(NamedTuple):
    offset: Annotated[
        str | None,
        typer.Option(metavar="OFFSET", help="Begin at a number, earliest or latest; needs --partition"),
    ] = None
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Begin at the first record")] = (
        False
    )
    from_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Begin at the first record of this time or later: milliseconds since 1970, or ISO 8601, UTC "
            "without a zone",
        ),
    ] = None
    to_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End before the first record of this time or later; the format is that of --from-time",
        ),
    ] = None
    until_end: Annotated[bool, typer.Option("--until-end", help="End at the current end of the topic")] = (
        False
    )
    max_messages: Annotated[
        int | None, typer.Option(min=-1, metavar="N", help="End after so many records; -1: never")
    ] = None
    timeout_ms: Annotated[
        int | None, typer.Option(min=-1, metavar="MS", help="End after so long without a record; -1: never")
    ] = None

    def start(self, reset: str | None) -> Start:
        """Return where to begin; `reset` is `auto.offset.reset`."""
        from kcli.commands.consume.reading import Start, parse_offset
        from kcli.commands.shared.times import asked_time

        return Start(
            None if self.offset is None else parse_offset(self.offset),
            self.from_beginning,
            None if self.from_time is None else asked_time(self.from_time, "--from-time"),
            reset,
        )

    def end(self) -> End:
        from kcli.commands.consume.reading import End
        from kcli.commands.shared.times import asked_time

        return End(
            positive(self.max_messages),
            positive(self.timeout_ms),
            None if self.to_time is None else asked_time(self.to_time, "--to-time"),
            self.until_end,
        )


class FormatOptions(NamedTuple):
    formatter: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How records are printed: default, json, logging, noop, checksum; for internal topics "
            "offsets, group-metadata, transaction-log; or a class name of Kafka",
        ),
    ] = None
    formatter_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="print.timestamp=true, likewise partition, offset, delivery, epoch, headers, key, value; "
            "key.separator, line.separator, headers.separator, null.literal; headers.deserializer "
            "(repeatable)",
        ),
    ] = None
    formatter_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of formatter properties")
    ] = None
    key_deserializer: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="Type of keys: string, bytes, short, int, long, float, double, uuid, boolean"
        ),
    ] = None
    value_deserializer: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Type of values, as for keys")
    ] = None

    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Print control characters as they are on a terminal, too: there they are escaped"
        ),
    ] = False

    def format(self, old_properties: Sequence[str] | None, *, is_json: bool) -> Format:
        """Return the formatter. The file's properties are overridden by flags, and by the command line's."""
        from kcli.commands.consume.formatters import make_formatter

        given = renamed(old_properties, "--property", self.formatter_property, "--formatter-property")
        flags = {"key.deserializer": self.key_deserializer, "value.deserializer": self.value_deserializer}
        return make_formatter(
            self.formatter or ("json" if is_json else "default"),
            {
                **read_properties(self.formatter_config),
                **{name: value for name, value in flags.items() if value is not None},
                **parse_properties(given, "--formatter-property"),
            },
            is_escaped=not self.raw and sys.stdout.isatty(),
        )


app = typer.Typer(rich_markup_mode=None)


@command(app, "consume", example="kcli consume orders --from-beginning --max-messages 10")
async def consume(
    topic: TopicArgument = None,
    topic_option: TopicOption = None,
    include: Include = None,
    partition: PartitionNumbers = None,
    *,
    bounds: RangeOptions,
    group: GroupId = None,
    shown: FormatOptions,
    isolation_level: Isolation = None,
    skip_message_on_error: SkipMessageOnError = False,
    enable_systest_events: Annotated[bool, typer.Option("--enable-systest-events", hidden=True)] = False,
    old_property: Annotated[list[str] | None, typer.Option("--property", hidden=True)] = None,
    consumer_property: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    consumer_config: Annotated[Path | None, typer.Option("--consumer.config", hidden=True)] = None,
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
    from kcli.commands.consume.reading import Choice, Reading, print_records
    from kcli.commands.shared.output import print_lines
    from kcli.commands.shared.session import client_properties, connect_with, connecting_ms
    from kcli.commands.shared.topic_filter import some_ids

    if bounds.offset is not None and not partition:
        raise UsageError(
            "`--offset` needs `--partition`",
            hint="`--from-beginning` and `--from-time` apply to all partitions",
        )
    properties = client_properties(
        renamed(consumer_config, "--consumer.config", cluster.command_config, "--command-config"),
        renamed(consumer_property, "--consumer-property", cluster.command_property, "--command-property"),
        {"client.id": "console-consumer"},
        profile=cluster.profile,
    )
    if isolation_level is not None:
        properties["isolation.level"] = isolation_level
    properties["group.id"] = group_id(
        group, properties, has_partitions=bool(partition), from_time=bounds.from_time
    )
    ids = frozenset(number for each in partition or () for number in some_ids(each, "--partition")) or None
    excludes_internal = flag(properties, "exclude.internal.topics", default=True)
    choice = Choice(one_topic_or_none(topic, topic_option), include, ids, excludes_internal)
    choice.check()
    start = bounds.start(properties.get("auto.offset.reset"))
    properties["auto.offset.reset"] = start.reset_strategy()
    end = bounds.end()
    format_record = shown.format(old_property, is_json=output is OutputFormat.JSON)
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
        print_lines(["shutdown_complete"])


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
