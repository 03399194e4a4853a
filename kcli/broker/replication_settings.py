"""ReplicationSettings: the broker configurations of copying partitions from node to node.

Names, types and defaults are Kafka's (classes `ReplicationConfigs` and `QuotaConfig`).
"""

from __future__ import annotations

from kcli.broker.config_definition import LONG_MAX, UpdateMode, at_least, integer, long, optional, string

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
