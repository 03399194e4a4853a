"""TOPIC_CONFIGS: every topic configuration, and the broker configurations with their defaults.

One row per topic configuration of Kafka 4.3 (class `LogConfig`), with its broker synonyms, the most specific
first (class `ServerTopicConfigSynonyms`); `LOG_BROKER_CONFIGS` is derived from the rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.broker.config.config_definition import (
    INT_MAX,
    LONG_MAX,
    Check,
    ConfigDefinition,
    InvalidConfig,
    UpdateMode,
    at_least,
    between,
    between_or,
    long,
    one_of,
)
from kcli.protocol.configs import ConfigType

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker configuration with the default of a topic configuration; `factor` converts its unit."""

    definition: ConfigDefinition[Any]
    factor: int = 1

    @property
    def name(self) -> str:
        return self.definition.name


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic configuration and its broker synonyms, in order of precedence."""

    definition: ConfigDefinition[Any]
    synonyms: tuple[Synonym, ...] = ()

    @property
    def name(self) -> str:
        return self.definition.name


def topic_row(
    name: str,
    type: ConfigType,
    default: object,
    doc: str,
    *,
    broker: str | None = None,
    check: Check | None = None,
    others: tuple[Synonym, ...] = (),
    negative_is_unlimited: bool = False,
    has_effect: bool = True,
) -> TopicConfig:
    """Return a row. `broker` names the main synonym, which has the same type and check.

    If `others` give the value in another unit, the main synonym has no default. With `negative_is_unlimited`
    it may be any number, and every negative one counts as -1.
    """
    definition = ConfigDefinition(name, type, default, doc, check=check, has_effect=has_effect)
    if broker is None:
        return TopicConfig(definition, others)
    main: ConfigDefinition[Any] = ConfigDefinition(
        broker,
        type,
        None if others else default,
        f"The default of the topic configuration `{name}`: {doc[0].lower()}{doc[1:]}",
        check=None if negative_is_unlimited else check,
        mode=UpdateMode.CLUSTER_WIDE,
        has_effect=has_effect,
    )
    return TopicConfig(definition, (Synonym(main), *others))


def other_unit(name: str, default: int | None, factor: int, doc: str, check: Check | None = None) -> Synonym:
    """Return the synonym with the same value in another unit."""
    return Synonym(ConfigDefinition(name, ConfigType.INT, default, doc, check=check), factor)


_MEBIBYTE = 1 << 20
_WEEK_MS = 7 * 24 * 3600 * 1000
_HOUR_MS = 3600 * 1000
_MINUTE_MS = 60 * 1000
_REPLICA = re.compile(r"\d+:\d+", re.ASCII)


def _throttled_replicas(value: tuple[str, ...]) -> str | None:
    if value in {(), ("*",)} or all(_REPLICA.fullmatch(word) for word in value):
        return None
    return "must be `*` or a list of partition:broker pairs"


_INT, _LONG, _BOOLEAN = ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN
_STRING, _DOUBLE, _LIST = ConfigType.STRING, ConfigType.DOUBLE, ConfigType.LIST

_ROWS = (
    # Segments
    topic_row(
        "segment.bytes",
        _INT,
        1 << 30,
        "Size in bytes at which the log rolls to a new segment.",
        broker="log.segment.bytes",
        check=at_least(_MEBIBYTE),
    ),
    topic_row(
        "segment.ms",
        _LONG,
        _WEEK_MS,
        "Age at which the log rolls to a new segment even if this one is not full, in ms.",
        broker="log.roll.ms",
        check=at_least(1),
        others=(other_unit("log.roll.hours", 168, _HOUR_MS, "`log.roll.ms` in hours.", at_least(1)),),
    ),
    topic_row(
        "segment.jitter.ms",
        _LONG,
        0,
        "Maximum random time subtracted from `segment.ms`, so that segments do not all roll at once, in ms.",
        broker="log.roll.jitter.ms",
        check=at_least(0),
        others=(
            other_unit("log.roll.jitter.hours", 0, _HOUR_MS, "`log.roll.jitter.ms` in hours.", at_least(0)),
        ),
    ),
    topic_row(
        "segment.index.bytes",
        _INT,
        10 << 20,
        "Maximum size of an index file in bytes; a full index makes the log roll.",
        broker="log.index.size.max.bytes",
        check=at_least(4),
    ),
    topic_row(
        "index.interval.bytes",
        _INT,
        4096,
        "Bytes of records between two entries of the offset index.",
        broker="log.index.interval.bytes",
        check=at_least(0),
    ),
    topic_row(
        "preallocate",
        _BOOLEAN,
        False,
        "Whether to give the file of a new segment its full size at once.",
        broker="log.preallocate",
    ),
    # Flushing and deleting
    topic_row(
        "flush.messages",
        _LONG,
        LONG_MAX,
        "Number of records after which the log is flushed to disk.",
        broker="log.flush.interval.messages",
        check=at_least(1),
    ),
    topic_row(
        "flush.ms",
        _LONG,
        LONG_MAX,
        "How long a record may stay unflushed, in ms.",
        broker="log.flush.interval.ms",
        check=at_least(0),
        others=(
            Synonym(
                long(
                    "log.flush.scheduler.interval.ms", LONG_MAX, "How often to look for logs to flush, in ms."
                )
            ),
        ),
    ),
    topic_row(
        "retention.ms",
        _LONG,
        _WEEK_MS,
        "How long records are kept before their segment may be deleted, in ms; -1 keeps them forever.",
        broker="log.retention.ms",
        check=at_least(-1),
        negative_is_unlimited=True,
        others=(
            other_unit("log.retention.minutes", None, _MINUTE_MS, "`log.retention.ms` in minutes."),
            other_unit("log.retention.hours", 168, _HOUR_MS, "`log.retention.ms` in hours."),
        ),
    ),
    topic_row(
        "retention.bytes",
        _LONG,
        -1,
        "Size of a partition in bytes above which its oldest segments are deleted; -1 is no limit.",
        broker="log.retention.bytes",
    ),
    topic_row(
        "cleanup.policy",
        _LIST,
        ("delete",),
        "What happens to old records: `delete` drops whole segments, `compact` keeps the last of each key. "
        "With `compact` every record needs a key.",
        broker="log.cleanup.policy",
        check=one_of("compact", "delete"),
    ),
    topic_row(
        "file.delete.delay.ms",
        _LONG,
        60_000,
        "How long a deleted file stays on disk under another name, in ms.",
        broker="log.segment.delete.delay.ms",
        check=at_least(0),
    ),
    # Compaction
    topic_row(
        "delete.retention.ms",
        _LONG,
        24 * _HOUR_MS,
        "How long a tombstone stays after the compaction that finds it first, in ms.",
        broker="log.cleaner.delete.retention.ms",
        check=at_least(0),
    ),
    topic_row(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        0.5,
        "A log is compacted when its share of bytes not compacted yet is above this.",
        broker="log.cleaner.min.cleanable.ratio",
        check=between(0, 1),
    ),
    topic_row(
        "min.compaction.lag.ms",
        _LONG,
        0,
        "Minimum time that a record is safe from compaction, in ms.",
        broker="log.cleaner.min.compaction.lag.ms",
        check=at_least(0),
    ),
    topic_row(
        "max.compaction.lag.ms",
        _LONG,
        LONG_MAX,
        "How long a record may stay uncompacted before the log is due, whatever the share, in ms.",
        broker="log.cleaner.max.compaction.lag.ms",
        check=at_least(1),
    ),
    # Records
    topic_row(
        "max.message.bytes",
        _INT,
        1_048_588,
        "Maximum size of a record batch in bytes, after compression.",
        broker="message.max.bytes",
        check=at_least(0),
    ),
    topic_row(
        "compression.type",
        _STRING,
        "producer",
        "Codec of stored batches; `producer` keeps the producer's.",
        broker="compression.type",
        check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    topic_row(
        "compression.gzip.level",
        _INT,
        -1,
        "Level for recompressing batches with gzip; -1 is the codec's default.",
        broker="compression.gzip.level",
        check=between_or(1, 9, -1),
    ),
    topic_row(
        "compression.lz4.level",
        _INT,
        9,
        "Level for recompressing batches with lz4.",
        broker="compression.lz4.level",
        check=between(1, 17),
    ),
    topic_row(
        "compression.zstd.level",
        _INT,
        3,
        "Level for recompressing batches with zstd.",
        broker="compression.zstd.level",
        check=between(-131_072, 22),
    ),
    topic_row(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        "Whether a record has the time of its producer or of its append.",
        broker="log.message.timestamp.type",
        check=one_of("CreateTime", "LogAppendTime"),
    ),
    topic_row(
        "message.timestamp.before.max.ms",
        _LONG,
        LONG_MAX,
        "How far a record's timestamp may be behind the broker's clock, in ms.",
        broker="log.message.timestamp.before.max.ms",
        check=at_least(0),
    ),
    topic_row(
        "message.timestamp.after.max.ms",
        _LONG,
        _HOUR_MS,
        "How far a record's timestamp may be ahead of the broker's clock, in ms.",
        broker="log.message.timestamp.after.max.ms",
        check=at_least(0),
    ),
    # Replication
    topic_row(
        "min.insync.replicas",
        _INT,
        1,
        "Minimum number of in-sync replicas for a write with acks=all.",
        broker="min.insync.replicas",
        check=at_least(1),
    ),
    topic_row(
        "unclean.leader.election.enable",
        _BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader when no other can, which may lose records.",
        broker="unclean.leader.election.enable",
    ),
    topic_row(
        "leader.replication.throttled.replicas",
        _LIST,
        (),
        "Replicas whose leader throttles what it sends: partition:broker pairs, or `*` for all.",
        check=_throttled_replicas,
    ),
    topic_row(
        "follower.replication.throttled.replicas",
        _LIST,
        (),
        "Replicas whose follower throttles what it fetches: partition:broker pairs, or `*` for all.",
        check=_throttled_replicas,
    ),
    # kcli has no tiered storage: only values that leave it off are valid.
    topic_row(
        "remote.storage.enable",
        _BOOLEAN,
        False,
        "Whether old segments move to remote storage; only `false` is valid.",
        check=lambda value: "tiered storage is not available" if value else None,
    ),
    topic_row(
        "remote.log.copy.disable",
        _BOOLEAN,
        False,
        "Whether copying to remote storage is stopped.",
        has_effect=False,
    ),
    topic_row(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        False,
        "Whether turning remote storage off deletes its data.",
        has_effect=False,
    ),
    topic_row(
        "local.retention.ms",
        _LONG,
        -2,
        "How long copied segments stay on the local disk, in ms.",
        broker="log.local.retention.ms",
        check=at_least(-2),
        has_effect=False,
    ),
    topic_row(
        "local.retention.bytes",
        _LONG,
        -2,
        "How many copied bytes stay on the local disk.",
        broker="log.local.retention.bytes",
        check=at_least(-2),
        has_effect=False,
    ),
    # Overrides segment.bytes without its lower bound (Kafka since 4.1), for tests with many segments.
    TopicConfig(
        ConfigDefinition(
            "internal.segment.bytes",
            ConfigType.INT,
            None,
            "Size of a segment, for tests.",
            check=between(1, INT_MAX),
            internal=True,
        )
    ),
)

TOPIC_CONFIGS: Mapping[str, TopicConfig] = {row.name: row for row in _ROWS}
"""By name; the internal ones are never shown."""

LOG_BROKER_CONFIGS: Mapping[str, ConfigDefinition[Any]] = {
    synonym.name: synonym.definition for config in TOPIC_CONFIGS.values() for synonym in config.synonyms
}
"""The broker configurations with the defaults of topics, by name."""


def topic_config(name: str) -> TopicConfig:
    """Return the row of a name; raise `InvalidConfig` for an unknown name."""
    try:
        return TOPIC_CONFIGS[name]
    except KeyError:
        raise InvalidConfig(f"unknown topic config name: {name}") from None


def parse_topic_configs(overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed values of a topic's own configurations; raise `InvalidConfig` at the first bad one."""
    return {name: topic_config(name).definition.parse(text) for name, text in overrides.items()}


def check_topic_configs(overrides: Mapping[str, str], defaults: Mapping[str, Any]) -> None:
    """Raise `InvalidConfig` unless these overrides are valid together with the broker's defaults.

    `defaults` gives the typed values of topics that override nothing, by topic configuration name.
    """
    values = {**defaults, **parse_topic_configs(overrides)}
    shortest, longest = (
        values.get(name, TOPIC_CONFIGS[name].definition.default)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if shortest > longest:
        raise InvalidConfig(
            f"`min.compaction.lag.ms` ({shortest}) must not be above `max.compaction.lag.ms` ({longest})"
        )
