"""BrokerSettings: the broker configurations that kcli acts on, one typed row each.

The class body is the table: each row has Kafka's name, type and default, its check and how it may change
while the broker runs (Kafka classes `KafkaConfig`, `GroupCoordinatorConfig`, `ReplicationConfigs` and
`QuotaConfig`). The rows of transactions are in `transaction_definitions`, those of security in
`security_definitions`, the defaults of topics in `topic_definitions`, names without effect in
`inert_configs`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from kcli.broker.config.config_definition import (
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    ConfigDefinition,
    InvalidConfig,
    Options,
    UpdateMode,
    at_least,
    between,
    boolean,
    double,
    integer,
    long,
    one_of,
    optional,
    string,
    taken,
    words,
)
from kcli.broker.config.inert_configs import find_inert_config
from kcli.broker.config.listener_properties import split_name
from kcli.broker.config.security_definitions import LISTENER_CONFIGS, OF_LISTENERS, SecuritySettings
from kcli.broker.config.topic_definitions import LOG_BROKER_CONFIGS
from kcli.broker.config.transaction_definitions import TransactionSettings
from kcli.protocol.configs import ConfigType

if TYPE_CHECKING:
    from collections.abc import Mapping

ASSIGNORS = ("uniform", "range")
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")

_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE
_MEBIBYTE = 1 << 20

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"


def _selector(value: str) -> str | None:
    return None if value in {_LEADER_SELECTOR, RACK_AWARE_SELECTOR} else f"must be `{RACK_AWARE_SELECTOR}`"


_CONNECTION_LIMIT = re.compile(r"\s*[^\s,]+:\s*\d+\s*", re.ASCII)


def _connection_limits(value: str) -> str | None:
    wrong = [item for item in value.split(",") if item.strip() and not _CONNECTION_LIMIT.fullmatch(item)]
    return f"`{wrong[0].strip()}` is not an address:count pair" if wrong else None


def _positive(name: str, default: int, doc: str, **options: Unpack[Options]) -> ConfigDefinition[int]:
    options["check"] = at_least(1)
    return integer(name, default, doc, **options)


def _not_negative(name: str, default: int, doc: str, **options: Unpack[Options]) -> ConfigDefinition[int]:
    options["check"] = at_least(0)
    return integer(name, default, doc, **options)


class BrokerSettings(SecuritySettings, TransactionSettings):
    """A broker's own settings; on an instance each row reads as its value."""

    # Who the broker is
    node_id = _not_negative("node.id", 1, "Id of this node, unique in the cluster.")
    broker_id = integer("broker.id", -1, "Older name of `node.id`; `node.id` wins if both are set.")
    broker_rack = optional(string("broker.rack", "", "Rack of the broker, used to place replicas."))

    # Where its data is
    log_dir = optional(words("log.dir", (), "Log directory; `log.dirs` wins if both are set."))
    log_dirs = optional(words("log.dirs", (), "Log directories, separated by commas."))

    # Listeners and connections
    listeners = words(
        "listeners", ("PLAINTEXT://:9092",), "Addresses to listen on, each as name://host:port."
    )
    advertised_listeners = optional(
        words("advertised.listeners", (), "Addresses given to clients; by default those of `listeners`.")
    )
    listener_security_protocol_map = string(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name, as name:protocol pairs.",
    )
    controller_listener_names = words(
        "controller.listener.names",
        (),
        "Listeners for controllers only; kcli does not open them: its controller is in the same process.",
    )
    # Kafka's defaults are 102400, 102400 and 50. A backlog of 50 makes each client of a burst wait a second.
    # A send buffer that the system tunes grows to megabytes, which leave the processor's caches before a
    # client on the same machine reads them: with this bound consumers were up to 1.4 times as fast, for two
    # thirds of the broker's CPU time.
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        256 * 1024,
        "Send buffer of a connection in bytes; -1 lets the system choose.",
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        -1,
        "Receive buffer of a connection in bytes; -1 lets the system choose.",
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes", 100 << 20, "Maximum size of a request in bytes.", check=at_least(1)
    )
    socket_listen_backlog_size = _positive(
        "socket.listen.backlog.size", 4096, "Maximum number of connections waiting to be accepted."
    )
    max_connections = _not_negative(
        "max.connections", INT_MAX, "Maximum number of open connections.", mode=_CLUSTER_WIDE
    )
    max_connections_per_ip = _not_negative(
        "max.connections.per.ip",
        INT_MAX,
        "Maximum number of open connections from one client address.",
        mode=_CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = string(
        "max.connections.per.ip.overrides",
        "",
        "Connection limits of single addresses, as address:count pairs.",
        check=_connection_limits,
        mode=_CLUSTER_WIDE,
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        600_000,
        "How long a connection may be idle before the broker closes it, in ms.",
    )

    # Quotas of clients
    quota_window_num = integer(
        "quota.window.num", 11, "Number of samples that a client's rate is computed from.", check=at_least(1)
    )
    quota_window_size_seconds = integer(
        "quota.window.size.seconds", 1, "Length of one of these samples in seconds.", check=at_least(1)
    )

    # Topics
    num_partitions = integer(
        "num.partitions", 1, "Default number of partitions of a new topic.", check=at_least(1)
    )
    default_replication_factor = integer(
        "default.replication.factor", 1, "Default replication factor of a new topic."
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable", True, "Whether a client's request for an unknown topic creates it."
    )
    delete_topic_enable = boolean("delete.topic.enable", True, "Whether clients may delete topics.")

    # Logs, beside the defaults of topics
    num_recovery_threads_per_data_dir = _positive(
        "num.recovery.threads.per.data.dir",
        2,
        "Threads per log directory that recover logs at the start; a change counts from the next start.",
        mode=_CLUSTER_WIDE,
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        300_000,
        "How often to look for segments to delete, in ms.",
        check=at_least(1),
    )
    log_flush_offset_checkpoint_interval_ms = _not_negative(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often to write the recovery points to their checkpoint file, in ms.",
    )
    log_flush_start_offset_checkpoint_interval_ms = _not_negative(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "How often to write the log start offsets to their checkpoint file, in ms.",
    )
    log_initial_task_delay_ms = long(
        "log.initial.task.delay.ms",
        30_000,
        "How long after the start the first log housekeeping begins, in ms.",
        check=at_least(0),
        internal=True,
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        "replica.high.watermark.checkpoint.interval.ms",
        5000,
        "How often to write the high watermarks to their checkpoint file, in ms.",
    )
    producer_id_expiration_ms = _positive(
        "producer.id.expiration.ms",
        86_400_000,
        "How long the broker keeps the state of an idle producer, in ms.",
        mode=_CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms = _positive(
        "producer.id.expiration.check.interval.ms",
        600_000,
        "How often to look for idle producers, in ms.",
        internal=True,
    )

    # Compaction
    log_cleaner_enable = boolean(
        "log.cleaner.enable", True, "Whether logs with the policy `compact` are compacted."
    )
    log_cleaner_threads = integer(
        "log.cleaner.threads", 1, "Threads that compact logs.", check=at_least(0), mode=_CLUSTER_WIDE
    )
    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15_000,
        "Pause of a compacting thread that finds nothing to do, in ms.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        128 << 20,
        "Memory for the keys of the logs being compacted, shared by the threads, in bytes.",
        mode=_CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor = double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "How full the memory for keys may be, as a fraction of 1.",
        mode=_CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_size = _not_negative(
        "log.cleaner.io.buffer.size",
        512 << 10,
        "Memory for reading and writing while compacting, shared by the threads, in bytes.",
        mode=_CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second = double(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE_MAX,
        "Bytes that all compacting threads together may read and write each second.",
        mode=_CLUSTER_WIDE,
    )

    # Fetching and describing
    fetch_max_bytes = integer(
        "fetch.max.bytes", 55 << 20, "Maximum bytes of records in a fetch response.", check=at_least(1024)
    )
    max_incremental_fetch_session_cache_slots = _not_negative(
        "max.incremental.fetch.session.cache.slots", 1000, "Maximum number of incremental fetch sessions."
    )
    max_request_partition_size_limit = _positive(
        "max.request.partition.size.limit",
        2000,
        "Maximum number of partitions in a DescribeTopicPartitions response.",
    )

    # Replication
    num_replica_fetchers = _positive(
        "num.replica.fetchers", 1, "Number of fetchers that copy from each other broker.", mode=_CLUSTER_WIDE
    )
    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30_000,
        "How long a replica may lag before it leaves the in-sync replicas, in ms.",
        check=at_least(1),
    )
    replica_fetch_max_bytes = _not_negative(
        "replica.fetch.max.bytes", _MEBIBYTE, "Maximum bytes of one partition in a follower's fetch."
    )
    replica_fetch_response_max_bytes = _not_negative(
        "replica.fetch.response.max.bytes",
        10 * _MEBIBYTE,
        "Maximum bytes of all partitions in a follower's fetch; kcli never fetches more than 1 MiB.",
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms",
        500,
        "How long a leader may wait to tell followers of idle partitions a new high watermark, in ms.",
    )
    replica_fetch_backoff_ms = _not_negative(
        "replica.fetch.backoff.ms",
        1000,
        "How long a follower waits before it fetches a failed partition again, in ms.",
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms", 30_000, "How long a follower waits for another broker's response, in ms."
    )
    request_timeout_ms = integer(
        "request.timeout.ms", 30_000, "How long a request to another broker waits for its response, in ms."
    )
    replica_selector_class = optional(
        string(
            "replica.selector.class",
            "",
            "Class that picks the replica a consumer reads from; by default the leader.",
            check=_selector,
        )
    )
    leader_replication_throttled_rate = long(
        "leader.replication.throttled.rate",
        LONG_MAX,
        "Maximum bytes a second that leaders send to throttled replicas.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    )
    follower_replication_throttled_rate = long(
        "follower.replication.throttled.rate",
        LONG_MAX,
        "Maximum bytes a second that throttled replicas fetch.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG_MAX,
        "Maximum bytes a second copied for replicas that move between log directories.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    )

    # Heartbeats, sessions and what the controller does on its own
    broker_heartbeat_interval_ms = _positive(
        "broker.heartbeat.interval.ms", 2000, "How often a node sends a heartbeat to the controller, in ms."
    )
    broker_session_timeout_ms = _positive(
        "broker.session.timeout.ms",
        9000,
        "How long after a node's last heartbeat the controller fences it, in ms.",
    )
    controller_quorum_fetch_timeout_ms = _not_negative(
        "controller.quorum.fetch.timeout.ms",
        2000,
        "How long the controller may be unreachable before the nodes elect another, in ms.",
    )
    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable",
        True,
        "Whether the controller moves leadership back to preferred replicas.",
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller checks whether preferred replicas lead, in seconds.",
        check=at_least(1),
    )
    leader_imbalance_per_broker_percentage = integer(
        "leader.imbalance.per.broker.percentage",
        0,
        "Percentage of the partitions preferring a node that other nodes may lead, as before Kafka 4.",
        check=between(0, 100),
        internal=True,
    )
    unclean_leader_election_interval_ms = long(
        "unclean.leader.election.interval.ms",
        300_000,
        "How often to look for leaderless partitions of topics with "
        "`unclean.leader.election.enable=true`, in ms.",
        check=at_least(1),
        internal=True,
    )

    # Groups of the classic protocol, whose leader assigns
    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms", 6000, "Minimum session timeout of a member, in ms."
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms", 1_800_000, "Maximum session timeout of a member, in ms."
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        0,
        "How long an empty group waits for more members before its first rebalance, in ms. Kafka's default "
        "is 3000, which spares a fleet that starts some rebalances; here a first member need not wait.",
    )
    group_max_size = _positive("group.max.size", INT_MAX, "Maximum number of members of a group.")

    # Groups of the consumer protocol, whose coordinator assigns (KIP-848)
    group_consumer_session_timeout_ms = _positive(
        "group.consumer.session.timeout.ms",
        45_000,
        "How long after its last heartbeat a member is removed, in ms.",
    )
    group_consumer_min_session_timeout_ms = _positive(
        "group.consumer.min.session.timeout.ms", 45_000, "Minimum session timeout of a group, in ms."
    )
    group_consumer_max_session_timeout_ms = _positive(
        "group.consumer.max.session.timeout.ms", 60_000, "Maximum session timeout of a group, in ms."
    )
    group_consumer_heartbeat_interval_ms = _positive(
        "group.consumer.heartbeat.interval.ms",
        5000,
        "Heartbeat interval that the coordinator gives to members, in ms.",
    )
    group_consumer_min_heartbeat_interval_ms = _positive(
        "group.consumer.min.heartbeat.interval.ms", 5000, "Minimum heartbeat interval of a group, in ms."
    )
    group_consumer_max_heartbeat_interval_ms = _positive(
        "group.consumer.max.heartbeat.interval.ms", 15_000, "Maximum heartbeat interval of a group, in ms."
    )
    group_consumer_max_size = _positive(
        "group.consumer.max.size", INT_MAX, "Maximum number of members of a group of the consumer protocol."
    )
    group_consumer_assignors = words(
        "group.consumer.assignors",
        ASSIGNORS,
        "Assignors that members may choose from; the first is the default.",
        check=one_of(*ASSIGNORS),
    )
    # Kafka's default protects a fleet that starts, and would only delay a developer.
    group_consumer_assignment_interval_ms = _not_negative(
        "group.consumer.assignment.interval.ms",
        0,
        "Minimum time between two assignments of a group, in ms; Kafka's default is 1000.",
        mode=_CLUSTER_WIDE,
    )
    group_consumer_min_assignment_interval_ms = _not_negative(
        "group.consumer.min.assignment.interval.ms", 0, "Minimum assignment interval of a group, in ms."
    )
    group_consumer_max_assignment_interval_ms = _not_negative(
        "group.consumer.max.assignment.interval.ms", 15_000, "Maximum assignment interval of a group, in ms."
    )
    group_consumer_migration_policy = string(
        "group.consumer.migration.policy",
        "bidirectional",
        "How a group with members may change its protocol: bidirectional, upgrade (to the consumer "
        "protocol), downgrade or disabled.",
        check=lambda value: one_of(*MIGRATION_POLICIES)(value.lower()),
    )
    group_consumer_regex_refresh_interval_ms = integer(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        "How often to match subscribed patterns against the topics again, in ms.",
        check=at_least(10_000),
        internal=True,
    )

    # Committed offsets
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes", 4096, "Maximum size of the metadata of a committed offset in bytes."
    )
    offsets_retention_minutes = _positive(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long committed offsets outlive the group's use of them, in minutes.",
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        600_000,
        "How often to look for expired offsets, in ms.",
        check=at_least(1),
    )
    offsets_commit_timeout_ms = _positive(
        "offsets.commit.timeout.ms", 5000, "How long a commit waits for replication before it fails, in ms."
    )
    offsets_load_buffer_size = _positive(
        "offsets.load.buffer.size", 5 << 20, "Bytes read at a time while loading groups."
    )
    offsets_topic_num_partitions = _positive(
        "offsets.topic.num.partitions", 50, "Number of partitions of a new `__consumer_offsets`."
    )
    # Kafka waits until there are that many brokers; a developer with fewer would wait forever.
    offsets_topic_replication_factor: ConfigDefinition[int] = ConfigDefinition(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "Replication factor of a new `__consumer_offsets`; at most the number of brokers.",
        check=at_least(1),
    )
    # Kafka takes less than the MiB that `segment.bytes` wants, and then cannot create the topic.
    offsets_topic_segment_bytes = _positive(
        "offsets.topic.segment.bytes",
        100 << 20,
        "Maximum size of a segment of `__consumer_offsets` in bytes.",
    )
    offsets_topic_compression_codec = integer(
        "offsets.topic.compression.codec",
        0,
        "Compression of batches in `__consumer_offsets`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
    )


SETTINGS: Mapping[str, ConfigDefinition[Any]] = {
    row.name: row
    for table in (BrokerSettings, SecuritySettings, TransactionSettings)
    for row in vars(table).values()
    if isinstance(row, ConfigDefinition)
}
"""The rows of `BrokerSettings` by name."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What the controller takes from the configuration of its node.

    The controller moves leadership back to the preferred replicas of a broker when other brokers lead more
    than `leader_imbalance_percentage` of the partitions that prefer it.
    """

    broker_session_timeout_ms: int = taken(BrokerSettings.broker_session_timeout_ms)
    auto_leader_rebalance: bool = taken(BrokerSettings.auto_leader_rebalance_enable)
    leader_imbalance_check_interval_ms: int = taken(
        BrokerSettings.leader_imbalance_check_interval_seconds, lambda seconds: seconds * 1000
    )
    leader_imbalance_percentage: int = taken(BrokerSettings.leader_imbalance_per_broker_percentage)
    unclean_election_interval_ms: int = taken(BrokerSettings.unclean_leader_election_interval_ms)


BROKER_CONFIGS: Mapping[str, ConfigDefinition[Any]] = {**SETTINGS, **LOG_BROKER_CONFIGS}
"""Every broker configuration with an effect, by name; the internal ones are never shown."""

_SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Return the names whose values `name` may have, the most specific first (`DynamicBrokerConfig`)."""
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    return next((group for group in _SYNONYMS if name in group), (name,))


def find_broker_config(name: str) -> ConfigDefinition[Any] | None:
    """Return the row of a name, with an effect or without, None for an unknown name."""
    row = BROKER_CONFIGS.get(name) or _find_listener_config(name)
    return find_inert_config(name, BROKER_CONFIGS) if row is None else row


def _find_listener_config(name: str) -> ConfigDefinition[Any] | None:
    """Return the row of a property that acts on one listener, as in `listener.name.ssl.ssl.key.password`."""
    base = BROKER_CONFIGS.get(split_name(name)[2])
    if base is None or name in BROKER_CONFIGS:
        return None
    if base.name in LISTENER_CONFIGS or base.name.startswith(OF_LISTENERS):
        return ConfigDefinition(name, base.type, None, base.doc, check=base.check, mode=base.mode)
    return None


def broker_config(name: str) -> ConfigDefinition[Any]:
    """Return the row of a name, with an effect or without; raise `InvalidConfig` for an unknown name."""
    row = find_broker_config(name)
    if row is None:
        raise InvalidConfig(f"unknown broker config name: {name}")
    return row
