"""BrokerSettings: the broker configurations that kcli acts on, one typed row each.

The class body is the table: each row has Kafka's name, type and default, its check and how it may change
while the broker runs. The rows of the group coordinator stand in `group_settings`, those of replication in
`replication_settings`, the defaults of topics in `topic_configs`. Names that Kafka knows and kcli does not
act on stand in `inert_configs`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kcli.broker.config_definition import (
    INT_MAX,
    ConfigDefinition,
    InvalidConfig,
    UpdateMode,
    at_least,
    boolean,
    integer,
    long,
    optional,
    string,
    words,
)
from kcli.broker.group_settings import GroupSettings
from kcli.broker.inert_configs import is_inert
from kcli.broker.node_settings import NodeSettings
from kcli.broker.replication_settings import ReplicationSettings
from kcli.broker.topic_configs import LOG_BROKER_CONFIGS
from kcli.protocol.configs import no_effect

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE
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
