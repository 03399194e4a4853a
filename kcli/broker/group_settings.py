"""GroupSettings: the broker configurations of the group coordinator, and their form for its shards.

Names, types and defaults are Kafka's (class `GroupCoordinatorConfig`), but for the initial rebalance delay
and the assignment interval: they protect a fleet that starts, and only delay a developer.
"""

from __future__ import annotations

from kcli.broker.config_definition import (
    INT_MAX,
    ConfigDefinition,
    at_least,
    between,
    integer,
    long,
    one_of,
    string,
    words,
)
from kcli.broker.coordinator.group_config import GroupConfig
from kcli.protocol.configs import ConfigType

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
