"""ROWS: the configurations of coordinators' threads, share groups and streams groups, and the
names of KIP-939.

kcli knows, checks, stores and shows them; they have no effect. `inert_configs` loads them when one is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.config.config_definition import (
    INT_MAX,
    UpdateMode,
    at_least,
    between,
    boolean,
    integer,
    one_of,
    short,
    string,
    words,
)

if TYPE_CHECKING:
    from kcli.broker.config.config_definition import ConfigDefinition

_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE

ROWS: tuple[ConfigDefinition[Any], ...] = (
    # Threads of the group coordinator
    integer("group.coordinator.threads", 4, "Threads that work on requests of groups.", check=at_least(1)),
    integer(
        "group.coordinator.background.threads",
        2,
        "Threads for slow work of groups, such as matching patterns of topics.",
        check=at_least(1),
    ),
    integer(
        "group.coordinator.append.linger.ms",
        -1,
        "Time that changes of groups are collected before a write, in ms; -1 adapts to the load.",
        check=at_least(-1),
    ),
    integer(
        "group.coordinator.cached.buffer.max.bytes",
        1_048_588,
        "Largest write buffer that the coordinator of groups keeps for the next write.",
        check=at_least(512 << 10),
        mode=_CLUSTER_WIDE,
    ),
    words(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        "Protocols that groups may use; kcli has `classic` and `consumer`.",
        check=one_of("consumer", "classic", "share", "streams"),
    ),
    # Share groups
    words("group.share.assignors", ("simple",), "Assignor of share groups."),
    integer("group.share.max.size", 200, "Members that a share group may have.", check=between(1, 1000)),
    integer(
        "group.share.max.share.sessions",
        2000,
        "Sessions of share groups that a broker keeps.",
        check=at_least(1),
    ),
    string(
        "group.share.persister.class.name",
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        "Class that stores the state of share groups.",
        internal=True,
    ),
    integer(
        "group.share.initialize.retry.interval.ms",
        30_000,
        "Pause before the state of a share group is set up again after a failure, in ms.",
        check=at_least(1),
        internal=True,
    ),
    integer(
        "group.share.session.timeout.ms",
        45_000,
        "Silence after which a member of a share group is removed, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.share.min.session.timeout.ms",
        45_000,
        "Shortest session timeout that a share group may have, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.share.max.session.timeout.ms",
        60_000,
        "Longest session timeout that a share group may have, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.share.heartbeat.interval.ms",
        5000,
        "Time between two heartbeats of a member of a share group, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.share.min.heartbeat.interval.ms",
        5000,
        "Shortest heartbeat interval that a share group may have, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.share.max.heartbeat.interval.ms",
        15_000,
        "Longest heartbeat interval that a share group may have, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.share.assignment.interval.ms",
        1000,
        "Least time between two assignments of a share group, in ms.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "group.share.min.assignment.interval.ms",
        0,
        "Shortest assignment interval that a share group may have, in ms.",
        check=at_least(0),
    ),
    integer(
        "group.share.max.assignment.interval.ms",
        15_000,
        "Longest assignment interval that a share group may have, in ms.",
        check=at_least(0),
    ),
    integer(
        "group.share.delivery.count.limit",
        5,
        "Times that a record is delivered to a share group before it counts as rejected.",
        check=between(2, 10),
    ),
    integer(
        "group.share.min.delivery.count.limit",
        2,
        "Smallest delivery count that a share group may have.",
        check=between(2, 5),
    ),
    integer(
        "group.share.max.delivery.count.limit",
        10,
        "Largest delivery count that a share group may have.",
        check=between(5, 25),
    ),
    integer(
        "group.share.partition.max.record.locks",
        2000,
        "Records of a partition that a share group may hold at a time.",
        check=between(100, 10_000),
    ),
    integer(
        "group.share.min.partition.max.record.locks",
        100,
        "Smallest number of held records that a share group may have.",
        check=between(100, 2000),
    ),
    integer(
        "group.share.max.partition.max.record.locks",
        4000,
        "Largest number of held records that a share group may have.",
        check=between(2000, 10_000),
    ),
    integer(
        "group.share.record.lock.duration.ms",
        30_000,
        "Time that a member of a share group holds a record, in ms.",
        check=between(1000, 3_600_000),
    ),
    integer(
        "group.share.min.record.lock.duration.ms",
        15_000,
        "Shortest time to hold a record that a share group may have, in ms.",
        check=between(1000, 30_000),
    ),
    integer(
        "group.share.max.record.lock.duration.ms",
        60_000,
        "Longest time to hold a record that a share group may have, in ms.",
        check=between(30_000, 3_600_000),
    ),
    # State of share groups
    integer(
        "share.coordinator.threads", 1, "Threads that work on the state of share groups.", check=at_least(1)
    ),
    integer(
        "share.coordinator.append.linger.ms",
        -1,
        "Time that states of share groups are collected before a write, in ms; -1 adapts to the load.",
        check=at_least(-1),
    ),
    integer(
        "share.coordinator.cached.buffer.max.bytes",
        1_048_588,
        "Largest write buffer that the coordinator of share groups keeps for the next write.",
        check=at_least(512 << 10),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "share.coordinator.load.buffer.size",
        5 << 20,
        "Bytes read at a time while loading the state of share groups.",
        check=at_least(1),
    ),
    integer(
        "share.coordinator.write.timeout.ms",
        5000,
        "Time that a write of state waits for its replicas, in ms.",
        check=at_least(1),
    ),
    integer(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "Changes of a share group's state that are written between two snapshots of it.",
        check=between(0, 500),
    ),
    integer(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        300_000,
        "How often a state that does not change gets a snapshot, in ms.",
        check=at_least(1),
        internal=True,
    ),
    integer(
        "share.coordinator.state.topic.num.partitions",
        50,
        "Partitions of a new `__share_group_state`.",
        check=at_least(1),
    ),
    short(
        "share.coordinator.state.topic.replication.factor",
        3,
        "Replication factor of a new `__share_group_state`.",
        check=at_least(1),
    ),
    short(
        "share.coordinator.state.topic.min.isr",
        2,
        "In-sync replicas that a write to `__share_group_state` needs.",
        check=at_least(1),
    ),
    integer(
        "share.coordinator.state.topic.segment.bytes",
        100 << 20,
        "Size of a segment of `__share_group_state`, in bytes.",
        check=at_least(1),
    ),
    integer(
        "share.coordinator.state.topic.compression.codec",
        0,
        "Compression of batches in `__share_group_state`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    integer(
        "share.coordinator.state.topic.prune.interval.ms",
        300_000,
        "How often records of `__share_group_state` that nobody needs are removed, in ms.",
        check=at_least(1),
        internal=True,
    ),
    # Streams groups
    integer("group.streams.max.size", INT_MAX, "Members that a streams group may have.", check=at_least(1)),
    integer(
        "group.streams.session.timeout.ms",
        45_000,
        "Silence after which a member of a streams group is removed, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.streams.min.session.timeout.ms",
        45_000,
        "Shortest session timeout that a streams group may have, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.streams.max.session.timeout.ms",
        60_000,
        "Longest session timeout that a streams group may have, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.streams.heartbeat.interval.ms",
        5000,
        "Time between two heartbeats of a member of a streams group, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.streams.min.heartbeat.interval.ms",
        5000,
        "Shortest heartbeat interval that a streams group may have, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.streams.max.heartbeat.interval.ms",
        15_000,
        "Longest heartbeat interval that a streams group may have, in ms.",
        check=at_least(1),
    ),
    integer(
        "group.streams.assignment.interval.ms",
        1000,
        "Least time between two assignments of a streams group, in ms.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "group.streams.min.assignment.interval.ms",
        0,
        "Shortest assignment interval that a streams group may have, in ms.",
        check=at_least(0),
    ),
    integer(
        "group.streams.max.assignment.interval.ms",
        15_000,
        "Longest assignment interval that a streams group may have, in ms.",
        check=at_least(0),
    ),
    integer(
        "group.streams.num.standby.replicas", 0, "Standby copies of each task's state.", check=at_least(0)
    ),
    integer(
        "group.streams.max.standby.replicas",
        2,
        "Largest number of standby copies that a streams group may have.",
        check=at_least(0),
    ),
    integer(
        "group.streams.initial.rebalance.delay.ms",
        3000,
        "How long an empty streams group waits for more members before its first assignment, in ms.",
        check=at_least(0),
    ),
    # Transactions of outside coordinators (KIP-939)
    boolean(
        "transaction.two.phase.commit.enable",
        False,
        "Whether a transaction may leave its commit to an outside coordinator.",
    ),
)
