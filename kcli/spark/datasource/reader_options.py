"""The options of the data source, with the defaults, precedence and refusals of Spark's own Kafka source.

Option names are case-insensitive. `startingTimestamp` wins over `startingOffsetsByTimestamp`, which wins over
`startingOffsets`; the options for the end follow the same order.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from kcli.errors import UsageError
from kcli.security.config_providers import resolved
from kcli.spark.filters.timestamps import parse_duration_ms
from kcli.spark.source.ranges.json_forms import parse_offsets, parse_partitions, parse_timestamps
from kcli.spark.source.ranges.offset_specs import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    OnNoMatch,
    RangeRules,
    check_batch,
)
from kcli.spark.source.ranges.selection import Assign, Selection, Subscribe, SubscribePattern, compiled
from kcli.spark.source.ranges.trigger_limits import DEFAULT_MAX_TRIGGER_DELAY_MS, TriggerLimits
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import COLUMNS, OnCorrupt, Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from enum import StrEnum

    from kcli.spark.source.ranges.offset_specs import OffsetSpec
    from kcli.spark.source.source import Source

    Choice = TypeVar("Choice", bound=StrEnum)

_MAX_INT64 = 2**63 - 1
_PREFIX = "kafka."


class OptionValues:
    """Options with case-insensitive names; a bad value raises `UsageError` with the option's name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._names = tuple(options)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def get(self, name: str, default: str) -> str:
        """Return an option's text without surrounding blanks."""
        return self._values.get(name.lower(), default).strip()

    def kafka_properties(self) -> dict[str, str]:
        """Return the options that begin with `kafka.`, without it; their names are in lower case.

        What they refer to, in the environment or in files, is read here, on the driver.
        """
        return resolved(
            {
                name.lower().removeprefix(_PREFIX): self[name]
                for name in self._names
                if name.lower().startswith(_PREFIX)
            }
        )

    def list(self, name: str) -> tuple[str, ...]:
        """Return the parts of a comma-separated list; blank parts are left out."""
        parts = (part.strip() for part in self.get(name, "").split(","))
        return tuple(dict.fromkeys(part for part in parts if part))

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise UsageError(f"invalid value for `{name}`: {text}", hint="use true or false")
        return text == "true"

    def number(self, name: str, default: int) -> int:
        text = self.get(name, str(default))
        if not re.fullmatch(r"[+-]?[0-9]+", text) or not -_MAX_INT64 - 1 <= int(text) <= _MAX_INT64:
            raise UsageError(f"invalid value for `{name}`: {text}", hint="use a whole number")
        return int(text)

    def positive(self, name: str) -> int | None:
        """Return a whole number above 0, None if the option is absent."""
        if name not in self:
            return None
        value = self.number(name, 0)
        if value <= 0:
            raise UsageError(f"`{name}` must be positive: {value}")
        return value

    def choice(self, name: str, default: Choice) -> Choice:
        kind = type(default)
        try:
            return kind(self.get(name, default).lower())
        except ValueError:
            words = ", ".join(kind)
            raise UsageError(
                f"invalid value for `{name}`: {self[name]}", hint=f"use one of {words}"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of the data source, checked without asking a broker.

    Either `bootstrap` or `log_dirs` is given. `properties` are client properties without the prefix `kafka.`;
    they may hold passwords, which `kcli.spark.source.brokers.cluster_access` masks.
    """

    selection: Selection
    bootstrap: str | None = None
    log_dirs: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    rules: RangeRules = field(default_factory=RangeRules)
    limits: SplitLimits = field(default_factory=SplitLimits)
    reading: Reading = field(default_factory=Reading)
    triggers: TriggerLimits = field(default_factory=TriggerLimits)
    offset_attempts: int = 3
    offset_retry_ms: int = 10
    pushdown: bool = False
    notes: tuple[str, ...] = ()
    """One sentence per option that has no effect."""


def source_options(options: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Return the parsed options of a batch query or a stream; raise `UsageError` for what is refused."""
    given = OptionValues(options)
    _refuse_kafka_options(given)
    properties = given.kafka_properties()
    bootstrap, log_dirs = _place(given, properties)
    rules = _rules(given, properties, streaming=streaming)
    triggers = _triggers(given)
    if not streaming:
        check_batch(rules.starting, rules.ending)
    return SourceOptions(
        selection=_selection(given),
        bootstrap=bootstrap,
        log_dirs=log_dirs,
        properties=_client_properties(given, properties),
        rules=rules,
        limits=SplitLimits(
            split_bytes=given.positive("splitBytes"),
            min_partitions=given.positive("minPartitions"),
            max_records=given.positive("maxRecordsPerPartition"),
        ),
        reading=Reading(
            columns=_columns(given),
            read_committed=rules.read_committed,
            on_corrupt=given.choice("onCorrupt", OnCorrupt.FAIL),
            fail_on_data_loss=rules.fail_on_data_loss,
        ),
        triggers=triggers,
        offset_attempts=given.positive("fetchOffset.numRetries") or 3,
        offset_retry_ms=given.number("fetchOffset.retryIntervalMs", 10),
        pushdown=given.flag("pushdown", default=False),
        notes=_notes(given, streaming=streaming),
    )


_REFUSED = {
    "auto.offset.reset": "set `startingOffsets` instead",
    "key.deserializer": "keys are bytes: decode them with DataFrame operations",
    "value.deserializer": "values are bytes: decode them with DataFrame operations",
    "enable.auto.commit": "no offsets are committed: a checkpoint keeps them",
    "interceptor.classes": "records are read as they are",
}
"""The Kafka properties that Spark's source refuses, and what to use instead."""

_TRIGGER_OPTIONS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ENDINGS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_STRATEGIES = ("assign", "subscribe", "subscribePattern")


def _refuse_kafka_options(given: OptionValues) -> None:
    for name, hint in _REFUSED.items():
        if f"kafka.{name}" in given:
            raise UsageError(f"the option `kafka.{name}` is not supported", hint=hint)


def _place(given: OptionValues, properties: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    bootstrap = properties.get("bootstrap.servers")
    directories = given.list("logDirs")
    if (bootstrap is None) == (not directories):
        what = "both" if directories else "neither"
        raise UsageError(
            f"{what} of the options `kafka.bootstrap.servers` and `logDirs` given", hint="give one of them"
        )
    return bootstrap, directories


def _selection(given: OptionValues) -> Selection:
    chosen = [name for name in _STRATEGIES if name in given]
    if len(chosen) != 1:
        what = "none" if not chosen else "more than one"
        raise UsageError(
            f"{what} of the options `assign`, `subscribe` and `subscribePattern` given",
            hint="give exactly one of them",
        )
    (name,) = chosen
    text = given[name].strip()
    if name == "assign":
        partitions = parse_partitions(text, name)
        if partitions:
            return Assign(partitions)
    elif name == "subscribe":
        if topics := given.list(name):
            return Subscribe(topics)
    elif text:
        compiled(text)
        return SubscribePattern(text)
    raise UsageError(f"the option `{name}` names nothing: {given[name]!r}")


def _rules(given: OptionValues, properties: Mapping[str, str], *, streaming: bool) -> RangeRules:
    if streaming:
        for name in _ENDINGS:
            if name in given:
                raise UsageError(f"the option `{name}` is not valid for a stream", hint="a stream has no end")
    isolation = given.get("isolationLevel", properties.get("isolation.level", "read_uncommitted")).lower()
    if isolation not in ("read_uncommitted", "read_committed"):
        raise UsageError(
            f"invalid isolation level: {isolation}", hint="use read_uncommitted or read_committed"
        )
    return RangeRules(
        starting=_spec(given, "starting", Latest() if streaming else Earliest()),
        ending=_spec(given, "ending", Latest()),
        on_no_match=given.choice("startingOffsetsByTimestampStrategy", OnNoMatch.ERROR),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        read_committed=isolation == "read_committed",
    )


def _spec(given: OptionValues, side: str, default: OffsetSpec) -> OffsetSpec:
    by_time, by_times, by_offset = (
        f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets",
    )  # fmt: skip
    if by_time in given:
        return AtTimestamp(given.number(by_time, 0))
    if by_times in given:
        return AtTimestamps(parse_timestamps(given[by_times], by_times))
    if by_offset not in given:
        return default
    text = given[by_offset].strip()
    match text.lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    return AtOffsets(parse_offsets(text, by_offset))


def _triggers(given: OptionValues) -> TriggerLimits:
    least, most = given.positive("minOffsetsPerTrigger"), given.positive("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise UsageError(f"`minOffsetsPerTrigger` is higher than `maxOffsetsPerTrigger`: {least} > {most}")
    delay_ms = DEFAULT_MAX_TRIGGER_DELAY_MS
    if "maxTriggerDelay" in given:
        delay_ms = parse_duration_ms(given["maxTriggerDelay"], "maxTriggerDelay")
    return TriggerLimits(most, least, delay_ms)


def _columns(given: OptionValues) -> tuple[str, ...]:
    columns = given.list("columns") or COLUMNS[:-1]
    for name in columns:
        if name not in COLUMNS:
            raise UsageError(f"no such column: {name}", hint=f"the columns are {', '.join(COLUMNS)}")
    if len(set(columns)) < len(columns):
        raise UsageError(f"a column is named twice: {', '.join(columns)}")
    if given.flag("includeHeaders", default=False) and "headers" not in columns:
        columns = (*columns, "headers")
    return columns


def _client_properties(given: OptionValues, properties: dict[str, str]) -> dict[str, str]:
    """Return the client properties; a group id or prefix becomes the beginning of the client id."""
    prefix = properties.pop("group.id", given.get("groupIdPrefix", "spark-kafka-source"))
    properties.pop("bootstrap.servers", None)
    properties.pop("isolation.level", None)
    properties.setdefault("client.id", f"{prefix}-kcli")
    if "kafkaConsumer.pollTimeoutMs" in given:
        # How long a reader waits for a record, for whatever reason none comes.
        limit_ms = given.positive("kafkaConsumer.pollTimeoutMs")
        properties.setdefault("default.api.timeout.ms", str(limit_ms))
    return properties


def _notes(given: OptionValues, *, streaming: bool) -> tuple[str, ...]:
    notes = [
        f"`{name}` has no effect in a batch" for name in _TRIGGER_OPTIONS if name in given and not streaming
    ]
    if "kafka.group.id" in given:
        notes.append("no group is joined: `kafka.group.id` only begins the client id")
    return tuple(notes)


_logger = logging.getLogger("kcli.spark")


@contextmanager
def opened(options: SourceOptions) -> Iterator[Source]:
    source = open_source(options)
    try:
        yield source
    finally:
        source.close()


def open_source(options: SourceOptions) -> Source:
    """Return the brokers or log directories of the options; they are imported only here."""
    if options.bootstrap is not None:
        from kcli.spark.source.brokers.brokers_source import BrokersSource

        fails = options.rules.fail_on_data_loss
        return BrokersSource(options.bootstrap, options.properties, fail_on_data_loss=fails)
    from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource

    return LogDirsSource(options.log_dirs, _logger.warning)
