"""BrokerSettings: the broker configurations that kcli acts on, one typed row each.

The class body is the table: each row has Kafka's name, type and default, its check and how it may change
while the broker runs. The rows of the group coordinator stand in `group_settings`, those of replication in
`replication_settings`, the defaults of topics in `topic_configs`. Names that Kafka knows and kcli does not
act on stand in `inert_configs`.

ControllerSettings: how patient the controller is with brokers, and what it does of its own accord.

NodeSettings: the broker configurations by which nodes and their controller know of each other.

ReplicationSettings: the broker configurations of copying partitions from node to node.

Names, types and defaults are Kafka's (classes `ReplicationConfigs` and `QuotaConfig`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.broker.config.config_definition import (
    INT_MAX,
    LONG_MAX,
    ConfigDefinition,
    InvalidConfig,
    UpdateMode,
    at_least,
    between,
    boolean,
    integer,
    long,
    optional,
    string,
    words,
)
from kcli.broker.config.group_definitions import GroupSettings
from kcli.broker.config.inert_configs import is_inert
from kcli.broker.config.topic_definitions import LOG_BROKER_CONFIGS
from kcli.protocol.configs import no_effect

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The configuration of the node that is in office, as far as the controller goes by it.

    Leaders are given back to the preferred replicas of a broker when more than
    `leader_imbalance_percentage` of the partitions that prefer it are led elsewhere.
    """

    broker_session_timeout_ms: int = 9000
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    leader_imbalance_percentage: int = 0
    unclean_election_interval_ms: int = 300_000


class NodeSettings:
    """Heartbeats, sessions and the controller's own undertakings; on an instance each reads as its value."""

    broker_heartbeat_interval_ms = integer(
        "broker.heartbeat.interval.ms", 2000, "How often a node says that it is there.", check=at_least(1)
    )
    broker_session_timeout_ms = integer(
        "broker.session.timeout.ms",
        9000,
        "How long a node may be silent before the controller takes its leaderships away.",
        check=at_least(1),
    )
    controller_quorum_fetch_timeout_ms = integer(
        "controller.quorum.fetch.timeout.ms",
        2000,
        "How long the controller's node may be out of reach before another takes office.",
        check=at_least(0),
    )
    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable", True, "Whether preferred replicas are made leaders again."
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often it is looked whether preferred replicas lead.",
        check=at_least(1),
    )
    leader_imbalance_per_broker_percentage = integer(
        "leader.imbalance.per.broker.percentage",
        0,
        "How many percent of the partitions that prefer a node may be led elsewhere, as before Kafka 4.",
        check=between(0, 100),
        internal=True,
    )
    unclean_leader_election_interval_ms = long(
        "unclean.leader.election.interval.ms",
        300_000,
        "How often partitions without a leader are looked for whose topics would rather lose records.",
        check=at_least(1),
    )


def controller_settings(settings: NodeSettings) -> ControllerSettings:
    """Return what the controller goes by when the node with these settings holds its office."""
    return ControllerSettings(
        broker_session_timeout_ms=int(settings.broker_session_timeout_ms),
        auto_leader_rebalance=bool(settings.auto_leader_rebalance_enable),
        leader_imbalance_check_interval_ms=int(settings.leader_imbalance_check_interval_seconds) * 1000,
        leader_imbalance_percentage=int(settings.leader_imbalance_per_broker_percentage),
        unclean_election_interval_ms=int(settings.unclean_leader_election_interval_ms),
    )


_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE
_MEBIBYTE = 1 << 20

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"


def _selector(value: str) -> str | None:
    return None if value in {_LEADER_SELECTOR, RACK_AWARE_SELECTOR} else f"must be `{RACK_AWARE_SELECTOR}`"


class ReplicationSettings:
    """A broker's settings for replication; on an instance each reads as its value."""

    num_replica_fetchers = integer(
        "num.replica.fetchers",
        1,
        "How many fetchers copy from each other broker.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    )
    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30_000,
        "How long a replica may be behind before it is no longer in sync.",
        check=at_least(1),
    )
    replica_fetch_max_bytes = integer(
        "replica.fetch.max.bytes",
        _MEBIBYTE,
        "Most bytes of one partition that a replica fetches at once.",
        check=at_least(0),
    )
    replica_fetch_response_max_bytes = integer(
        "replica.fetch.response.max.bytes",
        10 * _MEBIBYTE,
        "Most bytes of all partitions that a replica fetches at once; never more than a megabyte is.",
        check=at_least(0),
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms",
        500,
        "How long a high watermark that has moved may take to be told to the replicas of idle partitions.",
    )
    replica_fetch_backoff_ms = integer(
        "replica.fetch.backoff.ms",
        1000,
        "How long a partition that could not be fetched is left alone.",
        check=at_least(0),
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms", 30_000, "How long another broker may take to answer."
    )
    replica_selector_class = optional(
        string(
            "replica.selector.class",
            "",
            "How consumers are told which replica to read from; by default always from the leader.",
            check=_selector,
        )
    )
    leader_replication_throttled_rate = long(
        "leader.replication.throttled.rate",
        LONG_MAX,
        "Most bytes a second that leaders send to throttled replicas.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    )
    follower_replication_throttled_rate = long(
        "follower.replication.throttled.rate",
        LONG_MAX,
        "Most bytes a second that throttled replicas fetch.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG_MAX,
        "Most bytes a second that are copied of replicas that move between log directories.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    )


_CONNECTION_LIMIT = re.compile(r"\s*[^\s,]+:\s*\d+\s*", re.ASCII)


def _connection_limits(value: str) -> str | None:
    wrong = [item for item in value.split(",") if item.strip() and not _CONNECTION_LIMIT.fullmatch(item)]
    return f"`{wrong[0].strip()}` is not an address:count pair" if wrong else None


class BrokerSettings(GroupSettings, NodeSettings, ReplicationSettings):
    """A broker's own settings, those for groups included; on an instance each reads as its value."""

    # Who the broker is
    node_id = integer(
        "node.id", 1, "Number of this node, unlike any other of the cluster.", check=at_least(0)
    )
    broker_id = integer("broker.id", -1, "Older name of `node.id`, which wins if both are given.")
    broker_rack = optional(string("broker.rack", "", "Rack that the broker stands in, for placing replicas."))

    # Where its data is
    log_dir = optional(words("log.dir", (), "Directory of the logs; `log.dirs` wins if both are given."))
    log_dirs = optional(words("log.dirs", (), "Directories of the logs, separated by commas."))

    # Listeners and connections
    listeners = words("listeners", ("PLAINTEXT://:9092",), "Addresses to listen on, as name://host:port.")
    advertised_listeners = optional(
        words("advertised.listeners", (), "Addresses that clients are told, if not those of `listeners`.")
    )
    listener_security_protocol_map = string(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name, as name:protocol pairs.",
    )
    controller_listener_names = words(
        "controller.listener.names",
        (),
        "Listeners meant for controllers only; they are not opened, as the controller is in the process.",
    )
    # Not Kafka's own defaults (102400, 102400 and 50). A backlog of 50 makes each client of a burst wait for
    # a second. What the system's own tuning lets wait in a socket, up to megabytes, has left the processor's
    # caches when a client on the same machine takes it: consumers were up to 1.4 times as fast with this
    # bound as without, and the broker took two thirds of the CPU time.
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes", 256 * 1024, "Send buffer of a connection; -1 leaves it to the system."
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes", -1, "Receive buffer of a connection; -1 leaves it to the system."
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes", 100 << 20, "Largest request that is read.", check=at_least(1)
    )
    socket_listen_backlog_size = integer(
        "socket.listen.backlog.size", 4096, "How many connections may wait to be accepted.", check=at_least(1)
    )
    max_connections = integer(
        "max.connections",
        INT_MAX,
        "How many connections the broker holds at once.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip",
        INT_MAX,
        "How many connections one client address may hold at once.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = string(
        "max.connections.per.ip.overrides",
        "",
        "Limits for single addresses, as address:count pairs.",
        check=_connection_limits,
        mode=_CLUSTER_WIDE,
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms", 600_000, "How long a connection may be silent before it is closed."
    )

    # Quotas of clients
    quota_window_num = integer(
        "quota.window.num", 11, "Over how many samples the rate of a client is taken.", check=at_least(1)
    )
    quota_window_size_seconds = integer(
        "quota.window.size.seconds", 1, "How long one of these samples is.", check=at_least(1)
    )

    # Topics
    num_partitions = integer(
        "num.partitions",
        1,
        "How many partitions a topic gets if its creator does not say.",
        check=at_least(1),
    )
    default_replication_factor = integer(
        "default.replication.factor",
        1,
        "How many replicas a partition gets if its topic's creator does not say.",
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable", True, "Whether a topic is created when a client asks about it."
    )
    delete_topic_enable = boolean("delete.topic.enable", True, "Whether topics may be deleted.")

    # Logs, beside the defaults of topics
    num_recovery_threads_per_data_dir = integer(
        "num.recovery.threads.per.data.dir",
        2,
        "How many threads per directory recover logs at start; a change counts from the next start on.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        300_000,
        "How often old segments are looked for.",
        check=at_least(1),
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often the recovery points are written to their file.",
        check=at_least(0),
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "How often the log start offsets are written to their file.",
        check=at_least(0),
    )
    log_initial_task_delay_ms = long(
        "log.initial.task.delay.ms",
        30_000,
        "How long after the start the first round of log housekeeping comes.",
        check=at_least(0),
        internal=True,
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        "replica.high.watermark.checkpoint.interval.ms",
        5000,
        "How often the high watermarks are written to their file.",
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        86_400_000,
        "How long the last sequence of an idle producer is remembered.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms = integer(
        "producer.id.expiration.check.interval.ms",
        600_000,
        "How often idle producers are looked for.",
        check=at_least(1),
        internal=True,
    )

    # Fetching and describing
    fetch_max_bytes = integer(
        "fetch.max.bytes", 55 << 20, "Most bytes of records that one fetch returns.", check=at_least(1024)
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "How many incremental fetch sessions are kept.",
        check=at_least(0),
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        "Most partitions that one answer to DescribeTopicPartitions holds.",
        check=at_least(1),
    )


SETTINGS: Mapping[str, ConfigDefinition[Any]] = {
    row.name: row
    for table in (BrokerSettings, GroupSettings, NodeSettings, ReplicationSettings)
    for row in vars(table).values()
    if isinstance(row, ConfigDefinition)
}
"""The rows of `BrokerSettings` by name."""

BROKER_CONFIGS: Mapping[str, ConfigDefinition[Any]] = {**SETTINGS, **LOG_BROKER_CONFIGS}
"""Every broker configuration that acts, by name; includes the internal ones, which are never shown."""

_SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Return the names whose values stand in for `name`, most specific first (`DynamicBrokerConfig`)."""
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    return next((group for group in _SYNONYMS if name in group), (name,))


def broker_config(name: str) -> ConfigDefinition[Any]:
    """Return the row of a name; raise `InvalidConfig` if there is none."""
    try:
        return BROKER_CONFIGS[name]
    except KeyError:
        if is_inert(name):
            raise InvalidConfig(no_effect(name)) from None
        raise InvalidConfig(f"unknown broker config name: {name}") from None
