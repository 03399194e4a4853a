"""The options of `kcli consume`, named as those of Kafka's console consumer where it has them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kcli.commands.groups.options import complete_group


class IsolationLevel(StrEnum):
    """Whether records of open and aborted transactions are read."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


Include = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX", help="Read all topics that match, also those that come later", show_default=False
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
        "unless it says otherwise",
        show_default=False,
    ),
]
ToTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="End before the first record of this time or later, as --from-time",
        show_default=False,
    ),
]
UntilEnd = Annotated[bool, typer.Option("--until-end", help="End where the topic ends now")]
MaxMessages = Annotated[
    int | None,
    typer.Option(min=-1, metavar="N", help="End after so many records; -1: never", show_default=False),
]
TimeoutMs = Annotated[
    int | None,
    typer.Option(
        min=-1, metavar="MS", help="End when there is no record for so long; -1: never", show_default=False
    ),
]
GroupId = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Read as a member of this consumer group, from its committed offsets on, and commit",
        autocompletion=complete_group,
        show_default=False,
    ),
]
FormatterName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How records are printed: default, json, logging, noop, checksum, and of internal topics "
        "offsets, group-metadata, transaction-log; or the class name in Kafka",
        show_default=False,
    ),
]
FormatterProperty = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="print.timestamp=true, and so with partition, offset, delivery, epoch, headers, key, value; "
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
    str | None, typer.Option(metavar="TYPE", help="Type of values, as of keys", show_default=False)
]
Isolation = Annotated[
    IsolationLevel | None,
    typer.Option(help="read_committed leaves out open and aborted transactions", show_default=False),
]
SkipMessageOnError = Annotated[
    bool, typer.Option("--skip-message-on-error", help="Go on after a record that cannot be printed")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        help="Tell which partitions a member gets and gives up, and show the traceback of an error",
    ),
]
