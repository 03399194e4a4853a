"""What `spark-export` reads: from where, of which topics, and which offsets."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.arguments import not_empty
from kcli.commands.shared.options import CommandConfig, Profile, Property, complete_topic
from kcli.commands.shared.output import note
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.spark.filters.pushdown import Narrowing
    from kcli.spark.source.ranges.offset_specs import OffsetSpec, RangeRules
    from kcli.spark.source.ranges.selection import Selection
    from kcli.spark.source.source import Source

BOOTSTRAP_VARIABLE = "KCLI_BOOTSTRAP_SERVER"

NO_EFFECT = {
    "isolation.level": "use `--isolation-level`",
    "auto.offset.reset": "use `--starting-offsets`",
    "group.id": "no group is joined",
    "enable.auto.commit": "no offsets are committed to the cluster",
}
"""Client properties that an export ignores; files that consumers share contain them."""


class Isolation(StrEnum):
    """Which records of transactions are read."""

    UNCOMMITTED = "read_uncommitted"
    COMMITTED = "read_committed"


class NoMatch(StrEnum):
    """Where to begin when no record is as late as a starting timestamp; `OnNoMatch` of kcli.spark."""

    ERROR = "error"
    LATEST = "latest"


class Reset(StrEnum):
    """What to do with a topic that was created again; `OnReset` of kcli.spark."""

    FAIL = "fail"
    EARLIEST = "earliest"
    REPLACE = "replace"


class ConnectionChoice(NamedTuple):
    """How the client connects."""

    command_config: CommandConfig = None
    command_property: Property = None
    profile: Profile = None

    def properties(self) -> dict[str, str]:
        """Return the client's properties; warn of those without effect and leave out `NO_EFFECT`."""
        from kcli.client.config import property_warnings
        from kcli.commands.shared.session import client_properties

        properties = client_properties(
            self.command_config,
            self.command_property,
            {"client.id": "kcli-spark-export"},
            profile=self.profile,
        )
        for line in property_warnings(properties):
            warn(line)
        for name, instead in NO_EFFECT.items():
            if properties.pop(name, None) is not None:
                warn(f"`{name}` has no effect: {instead}")
        return properties


class SourceChoice(NamedTuple):
    """Where records come from, and of which topics."""

    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...",
            help="The topics to export",
            autocompletion=complete_topic,
            show_default=False,
        ),
    ] = None
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            help="Brokers to read from  [env var: KCLI_BOOTSTRAP_SERVER; default: localhost:9092]",
            show_default=False,
        ),
    ] = None
    log_dir: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Read a broker's log directory, a copy of one, or a data directory of kcli, "
            "without a broker (repeatable: of several replicas the most complete one is "
            "read)",
            show_default=False,
        ),
    ] = None
    assign: Annotated[
        str | None, typer.Option(metavar="JSON", help='Only these partitions: {"orders": [0, 1]}')
    ] = None
    topic_pattern: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Topics whose name contains a match")
    ] = None

    def selection(self) -> Selection:
        """Return which topics and partitions to read; raise `UsageError` unless one option says so."""
        from kcli.spark.source.ranges.json_forms import parse_partitions
        from kcli.spark.source.ranges.selection import Assign, Subscribe, SubscribePattern, compiled

        if sum([bool(self.topics), self.assign is not None, self.topic_pattern is not None]) > 1:
            raise UsageError("`TOPIC`, `--assign` and `--topic-pattern` exclude each other")
        if self.assign is not None:
            partitions = parse_partitions(self.assign, "--assign")
            if not partitions:
                raise UsageError(f"`--assign` names no partition: {self.assign}")
            return Assign(partitions)
        if self.topic_pattern is not None:
            compiled(self.topic_pattern)
            return SubscribePattern(self.topic_pattern)
        if not self.topics:
            raise UsageError(
                "missing argument `TOPIC`", hint="or `--topic-pattern REGEX`, or `--assign JSON`"
            )
        return Subscribe(tuple(not_empty(topic, "topic") for topic in dict.fromkeys(self.topics)))

    def check(self) -> None:
        """Raise `UsageError` if both kinds of sources are named."""
        if self.log_dir and self.bootstrap_server is not None:
            raise UsageError("`--bootstrap-server` and `--log-dir` exclude each other")

    def open(self, connection: ConnectionChoice) -> Source:
        """Return the source; it reads nothing yet."""
        if self.log_dir:
            from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource

            return LogDirsSource([str(path) for path in self.log_dir], warn)
        from kcli.commands.shared.session import addresses
        from kcli.spark.source.brokers.brokers_source import BrokersSource

        properties, servers = connection.properties(), self.bootstrap_server
        if servers is None:
            servers = os.environ.get(BOOTSTRAP_VARIABLE) or None
        return BrokersSource(addresses(servers, properties), properties)


class RangeChoice(NamedTuple):
    """Which offsets to read."""

    starting_offsets: Annotated[
        str | None,
        typer.Option(
            metavar="earliest|JSON",
            help='Where to begin with partitions that were never exported: {"orders": {"0": '
            '23, "1": -2}}, -2 is the first offset  [default: earliest]',
        ),
    ] = None
    ending_offsets: Annotated[
        str | None,
        typer.Option(
            metavar="latest|JSON",
            help='Where to end, exclusive: {"orders": {"0": 99, "1": -1}}, -1 is the end  [default: latest]',
        ),
    ] = None
    starting_timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Begin at the first record with this time or later: ISO 8601 (UTC without a "
            "zone) or milliseconds since 1970",
        ),
    ] = None
    ending_timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="End before the first record with this time or later")
    ] = None
    starting_by_timestamp: Annotated[
        str | None,
        typer.Option(
            "--starting-offsets-by-timestamp",
            metavar="JSON",
            help='A time per partition: {"orders": {"0": 1700000000000}}',
        ),
    ] = None
    ending_by_timestamp: Annotated[
        str | None,
        typer.Option("--ending-offsets-by-timestamp", metavar="JSON", help="A time per partition, as above"),
    ] = None
    strategy: Annotated[
        NoMatch,
        typer.Option(
            "--starting-offsets-by-timestamp-strategy",
            help="If no record is as late as a starting timestamp: fail, or begin at the end",
        ),
    ] = NoMatch.ERROR
    fail_on_data_loss: Annotated[
        bool,
        typer.Option(
            "--fail-on-data-loss/--no-fail-on-data-loss",
            help="Fail if offsets to be read are gone, or report a gap and go on",
        ),
    ] = True
    isolation_level: Annotated[
        Isolation,
        typer.Option(help="read_committed leaves out aborted transactions, and stops before open ones"),
    ] = Isolation.COMMITTED

    @property
    def read_committed(self) -> bool:
        """Return whether records of aborted transactions are left out."""
        return self.isolation_level is Isolation.COMMITTED

    def rules(self, narrowing: Narrowing | None, *, on_reset: Reset, follows: bool) -> RangeRules:
        """Return which offsets to read: as in Spark one timestamp wins over many, and these over offsets."""
        from kcli.spark.source.ranges.offset_specs import (
            Earliest,
            Latest,
            OnNoMatch,
            OnReset,
            RangeRules,
            check_batch,
        )

        starting = offset_spec(
            "starting",
            timestamp=self.starting_timestamp,
            by_timestamp=self.starting_by_timestamp,
            offsets=self.starting_offsets,
        )
        ending = offset_spec(
            "ending",
            timestamp=self.ending_timestamp,
            by_timestamp=self.ending_by_timestamp,
            offsets=self.ending_offsets,
        )
        if follows and ending is not None:
            raise UsageError("`--follow` has no end: leave the `--ending-…` options out")
        starting, ending = starting or Earliest(), ending or Latest()
        if not follows:
            check_batch(starting, ending)
        return RangeRules(
            starting=starting,
            ending=ending,
            on_no_match=OnNoMatch(self.strategy),
            fail_on_data_loss=self.fail_on_data_loss,
            read_committed=self.read_committed,
            on_reset=OnReset(on_reset),
            narrowing=narrowing,
        )


def offset_spec(
    side: str, *, timestamp: str | None, by_timestamp: str | None, offsets: str | None
) -> OffsetSpec | None:
    """Return where one side of a range is, None if no option says so."""
    from kcli.spark.filters.timestamps import parse_timestamp_ms
    from kcli.spark.source.ranges.json_forms import parse_offsets, parse_timestamps
    from kcli.spark.source.ranges.offset_specs import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest

    if timestamp is not None:
        return AtTimestamp(parse_timestamp_ms(timestamp, f"--{side}-timestamp"))
    if by_timestamp is not None:
        return AtTimestamps(parse_timestamps(by_timestamp, f"--{side}-offsets-by-timestamp"))
    if offsets is None:
        return None
    match offsets.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    return AtOffsets(parse_offsets(offsets, f"--{side}-offsets"))


def names_in(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def warn(text: str) -> None:
    note(f"warning: {text}")
