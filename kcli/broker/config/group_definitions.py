"""GROUP_CONFIGS: what may be configured for a single group while it works (KIP-848, class `GroupConfig`).

The broker's own settings are the default of each and set its limits. A value that was stored under other
limits counts as the nearest one that they allow. What concerns share groups and groups of Kafka Streams is
checked, kept and shown, and has no effect: kcli has neither.

GroupConfig: the settings of the group coordinator, in the units its shards use.

The names are those of Kafka's broker properties without their prefix, the defaults Kafka's but for the
initial rebalance delay and the assignment interval: they protect a fleet that starts, and only delay a
developer.

GroupSettings: the broker configurations of the group coordinator, and their form for its shards.

Names, types and defaults are Kafka's (class `GroupCoordinatorConfig`), but for the initial rebalance delay
and the assignment interval: they protect a fleet that starts, and only delay a developer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kcli.broker.config.config_definition import (
    INT_MAX,
    Check,
    ConfigDefinition,
    InvalidConfig,
    UpdateMode,
    at_least,
    between,
    boolean,
    integer,
    long,
    one_of,
    string,
    words,
)
from kcli.protocol.configs import ConfigType

if TYPE_CHECKING:
    from collections.abc import Mapping


DAY_MS = 24 * 60 * 60 * 1000

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
"""What may be configured for one group, by Kafka's names."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Times in milliseconds; `migration_policy`: bidirectional, upgrade, downgrade or disabled (KIP-848)."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * DAY_MS
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_assignment_interval_ms: int = 0
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000


_PLACES = {
    SESSION_TIMEOUT: "session_timeout_ms",
    HEARTBEAT_INTERVAL: "heartbeat_interval_ms",
    ASSIGNMENT_INTERVAL: "assignment_interval_ms",
}


def value_of(config: GroupConfig, name: str) -> int:
    """Return the value that one of Kafka's names has in the settings of a group, or of the broker."""
    value: int = getattr(config, f"consumer_{_PLACES[name]}")
    return value


def limits(config: GroupConfig, name: str) -> tuple[int, int]:
    """Return the lowest and the highest value that a group may be given under one of Kafka's names."""
    place = _PLACES[name]
    return getattr(config, f"consumer_min_{place}"), getattr(config, f"consumer_max_{place}")


def of_group(config: GroupConfig, overrides: Mapping[str, str]) -> GroupConfig:
    """Return the settings of a group that has configurations of its own, within the broker's limits."""
    own = {}
    for name, place in _PLACES.items():
        text = overrides.get(name, "")
        if text.isdecimal():
            lowest, highest = limits(config, name)
            own[f"consumer_{place}"] = min(max(int(text), lowest), highest)
    return replace(config, **own) if own else config  # type: ignore[arg-type]  # they are all numbers


_DEFAULTS = GroupConfig()
_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE)


def _acting(name: str, doc: str, check: Check) -> ConfigDefinition[int]:
    default = value_of(_DEFAULTS, name)
    return integer(name, default, doc, check=check, mode=UpdateMode.CLUSTER_WIDE)


def _inert(name: str, default: int, lowest: int, highest: int) -> ConfigDefinition[int]:
    return integer(name, default, "No effect.", check=between(lowest, highest))


def _check_reset(value: str) -> str | None:
    if value in {"earliest", "latest"} or _DURATION.fullmatch(value):
        return None
    return "must be earliest, latest or by_duration:PnDTnHnMn.nS"


_ACTING = (
    _acting(
        ASSIGNMENT_INTERVAL,
        "How long after an assignment the next one of this group is computed at the earliest.",
        at_least(0),
    ),
    _acting(
        HEARTBEAT_INTERVAL, "How often the members of this group are told to send a heartbeat.", at_least(1)
    ),
    _acting(
        SESSION_TIMEOUT, "How long a member of this group may be silent before it is removed.", at_least(1)
    ),
)

# The limits are those of a broker that sets none (`group.share.max.session.timeout.ms` and the like).
_WITHOUT_EFFECT = (
    _inert("share.assignment.interval.ms", 1000, 0, 15_000),
    string("share.auto.offset.reset", "latest", "No effect.", check=_check_reset),
    _inert("share.delivery.count.limit", 5, 2, 10),
    _inert("share.heartbeat.interval.ms", 5000, 5000, 15_000),
    string(
        "share.isolation.level",
        "read_uncommitted",
        "No effect.",
        check=one_of("read_committed", "read_uncommitted"),
    ),
    _inert("share.partition.max.record.locks", 2000, 100, 4000),
    _inert("share.record.lock.duration.ms", 30_000, 15_000, 60_000),
    boolean("share.renew.acknowledge.enable", True, "No effect."),
    _inert("share.session.timeout.ms", 45_000, 45_000, 60_000),
    _inert("streams.assignment.interval.ms", 1000, 0, 15_000),
    _inert("streams.heartbeat.interval.ms", 5000, 5000, 15_000),
    _inert("streams.initial.rebalance.delay.ms", 3000, 0, INT_MAX),
    _inert("streams.num.standby.replicas", 0, 0, 2),
    _inert("streams.session.timeout.ms", 45_000, 45_000, 60_000),
)

_OF_GROUPS_ALONE = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)
"""Those that a broker has no default for."""

GROUP_CONFIGS: Mapping[str, ConfigDefinition[Any]] = {row.name: row for row in (*_ACTING, *_WITHOUT_EFFECT)}


def acts(name: str) -> bool:
    """True if the configuration of a group has an effect."""
    return GROUP_CONFIGS[name] in _ACTING


def broker_synonym(name: str) -> str:
    """Return the name under which the default of a group's configuration is found."""
    return name if name in _OF_GROUPS_ALONE else f"group.{name}"


def check_group_configs(values: Mapping[str, str], broker: GroupConfig) -> None:
    """Raise `InvalidConfig` unless a group may have these values under the broker's limits."""
    for name, text in values.items():
        if name not in GROUP_CONFIGS:
            raise InvalidConfig(f"unknown group config name: {name}")
        value = GROUP_CONFIGS[name].parse(text)
        if not acts(name):
            continue
        lowest, highest = limits(broker, name)
        if not lowest <= value <= highest:
            raise InvalidConfig(
                f"invalid value `{text}` for `{name}`: must be between {lowest} and {highest}"
            )
    config = of_group(broker, values)
    if config.consumer_session_timeout_ms <= config.consumer_heartbeat_interval_ms:
        raise InvalidConfig(f"`{SESSION_TIMEOUT}` must be above `{HEARTBEAT_INTERVAL}`")


_MINUTE_MS = 60_000

ASSIGNORS = ("uniform", "range")
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


def _positive(name: str, default: int, doc: str) -> ConfigDefinition[int]:
    return integer(name, default, doc, check=at_least(1))


class GroupSettings:
    """A broker's settings for groups; on an instance each reads as its value."""

    # Groups whose members assign
    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms", 6000, "Shortest session timeout that a member may ask for."
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms", 1_800_000, "Longest session timeout that a member may ask for."
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        0,
        "How long an empty group waits for more members before its first rebalance.",
    )
    group_max_size = _positive("group.max.size", INT_MAX, "How many members a group may have.")

    # Groups whose coordinator assigns (KIP-848)
    group_consumer_session_timeout_ms = _positive(
        "group.consumer.session.timeout.ms", 45_000, "How long a member may be silent before it is removed."
    )
    group_consumer_min_session_timeout_ms = _positive(
        "group.consumer.min.session.timeout.ms", 45_000, "Shortest session timeout a group may be given."
    )
    group_consumer_max_session_timeout_ms = _positive(
        "group.consumer.max.session.timeout.ms", 60_000, "Longest session timeout a group may be given."
    )
    group_consumer_heartbeat_interval_ms = _positive(
        "group.consumer.heartbeat.interval.ms", 5000, "How often members are told to send a heartbeat."
    )
    group_consumer_min_heartbeat_interval_ms = _positive(
        "group.consumer.min.heartbeat.interval.ms", 5000, "Shortest interval a group may be given."
    )
    group_consumer_max_heartbeat_interval_ms = _positive(
        "group.consumer.max.heartbeat.interval.ms", 15_000, "Longest interval a group may be given."
    )
    group_consumer_max_size = _positive(
        "group.consumer.max.size", INT_MAX, "How many members a group of the consumer protocol may have."
    )
    group_consumer_assignors = words(
        "group.consumer.assignors",
        ASSIGNORS,
        "Assignors that members may choose from; the first is for those who do not.",
        check=one_of(*ASSIGNORS),
    )
    # Kafka waits a while, which would only delay a developer.
    group_consumer_assignment_interval_ms = integer(
        "group.consumer.assignment.interval.ms",
        0,
        "How long after an assignment the next one of a group is computed at the earliest.",
        check=at_least(0),
    )
    group_consumer_min_assignment_interval_ms = integer(
        "group.consumer.min.assignment.interval.ms",
        0,
        "Shortest interval between assignments a group may be given.",
        check=at_least(0),
    )
    group_consumer_max_assignment_interval_ms = integer(
        "group.consumer.max.assignment.interval.ms",
        15_000,
        "Longest interval between assignments a group may be given.",
        check=at_least(0),
    )
    group_consumer_migration_policy = string(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which way a group with members may change its protocol: bidirectional, upgrade (to the consumer "
        "protocol), downgrade or disabled.",
        check=lambda value: one_of(*MIGRATION_POLICIES)(value.lower()),
    )
    group_consumer_regex_refresh_interval_ms = integer(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        "How old the topics that a subscribed pattern matched may become before they are looked for again.",
        check=at_least(10_000),
    )

    # Offsets
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes", 4096, "How long the text may be that goes with a committed offset."
    )
    offsets_retention_minutes = _positive(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long committed offsets are kept that nobody in their group needs.",
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        600_000,
        "How often offsets are looked for that are not needed any more.",
        check=at_least(1),
    )
    offsets_commit_timeout_ms = _positive(
        "offsets.commit.timeout.ms", 5000, "How long a commit waits to be replicated before it fails."
    )
    offsets_load_buffer_size = _positive(
        "offsets.load.buffer.size", 5 << 20, "How many bytes are read at a time when groups are loaded."
    )
    offsets_topic_num_partitions = _positive(
        "offsets.topic.num.partitions",
        50,
        "How many partitions `__consumer_offsets` gets when it is created.",
    )
    # Kafka waits for so many brokers; with fewer, a developer would wait for ever.
    offsets_topic_replication_factor: ConfigDefinition[int] = ConfigDefinition(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "How many replicas `__consumer_offsets` gets when it is made, if there are as many brokers.",
        check=at_least(1),
    )
    # Kafka takes less than the MiB that `segment.bytes` wants, and then cannot create the topic.
    offsets_topic_segment_bytes = _positive(
        "offsets.topic.segment.bytes",
        100 << 20,
        "Size at which a segment of `__consumer_offsets` is closed and a new one begun.",
    )
    offsets_topic_compression_codec = integer(
        "offsets.topic.compression.codec",
        0,
        "How batches in `__consumer_offsets` are compressed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
    )


def group_config(settings: GroupSettings) -> GroupConfig:
    """Return the settings as the coordinator's shards use them."""
    return GroupConfig(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        max_size=settings.group_max_size,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * _MINUTE_MS,
        consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        consumer_min_session_timeout_ms=settings.group_consumer_min_session_timeout_ms,
        consumer_max_session_timeout_ms=settings.group_consumer_max_session_timeout_ms,
        consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        consumer_min_heartbeat_interval_ms=settings.group_consumer_min_heartbeat_interval_ms,
        consumer_max_heartbeat_interval_ms=settings.group_consumer_max_heartbeat_interval_ms,
        consumer_max_size=settings.group_consumer_max_size,
        consumer_assignors=settings.group_consumer_assignors,
        consumer_assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
        consumer_min_assignment_interval_ms=settings.group_consumer_min_assignment_interval_ms,
        consumer_max_assignment_interval_ms=settings.group_consumer_max_assignment_interval_ms,
        migration_policy=settings.group_consumer_migration_policy.lower(),
        regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
    )


def group_topic_configs(settings: GroupSettings) -> dict[str, str]:
    """Return the configuration of `__consumer_offsets`, unlike what other topics get."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.offsets_topic_segment_bytes),
    }
