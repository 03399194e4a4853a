"""ROWS: the configurations of tiered storage.

kcli knows, checks, stores and shows them; they have no effect. `inert_configs` loads them when one is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.config.config_definition import (
    LONG_MAX,
    UpdateMode,
    at_least,
    between,
    boolean,
    double,
    integer,
    long,
    not_empty,
    optional,
    string,
)

if TYPE_CHECKING:
    from kcli.broker.config.config_definition import ConfigDefinition

_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE

ROWS: tuple[ConfigDefinition[Any], ...] = (
    # Remote storage
    boolean(
        "remote.log.storage.system.enable",
        False,
        "Whether the broker has tiered storage, which kcli has not.",
    ),
    optional(
        string(
            "remote.log.storage.manager.class.name",
            "",
            "Class that stores segments elsewhere.",
            check=not_empty,
        )
    ),
    optional(
        string(
            "remote.log.storage.manager.class.path",
            "",
            "Class path of the class that stores segments elsewhere.",
        )
    ),
    string(
        "remote.log.storage.manager.impl.prefix",
        "rsm.config.",
        "Prefix of the properties for the class that stores segments elsewhere.",
        check=not_empty,
    ),
    string(
        "remote.log.metadata.manager.class.name",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "Class that keeps track of remote segments.",
        check=not_empty,
    ),
    optional(
        string(
            "remote.log.metadata.manager.class.path",
            "",
            "Class path of the class that keeps track of remote segments.",
        )
    ),
    string(
        "remote.log.metadata.manager.impl.prefix",
        "rlmm.config.",
        "Prefix of the properties for the class that keeps track of remote segments.",
        check=not_empty,
    ),
    optional(
        string(
            "remote.log.metadata.manager.listener.name",
            "",
            "Listener at which the class that keeps track of remote segments reaches this broker.",
            check=not_empty,
        )
    ),
    integer(
        "remote.log.metadata.custom.metadata.max.bytes",
        128,
        "Bytes that the storing class may add to what is known of a segment.",
        check=at_least(0),
    ),
    # Copying, deleting and reading remote segments
    integer(
        "remote.log.manager.thread.pool.size",
        2,
        "Older name of `remote.log.manager.follower.thread.pool.size`.",
        check=at_least(1),
    ),
    integer(
        "remote.log.manager.follower.thread.pool.size",
        2,
        "Threads of followers that learn how far the leader has copied.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "remote.log.manager.copier.thread.pool.size",
        10,
        "Threads that copy segments to remote storage.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "remote.log.manager.expiration.thread.pool.size",
        10,
        "Threads that delete expired segments from remote storage.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    long(
        "remote.log.manager.task.interval.ms",
        30_000,
        "How often to look for segments to copy or delete, in ms.",
        check=at_least(1),
    ),
    long(
        "remote.log.manager.task.retry.backoff.ms",
        500,
        "First pause after a failed task, in ms.",
        check=at_least(1),
        internal=True,
    ),
    long(
        "remote.log.manager.task.retry.backoff.max.ms",
        30_000,
        "Longest pause after failed tasks, in ms.",
        check=at_least(1),
        internal=True,
    ),
    double(
        "remote.log.manager.task.retry.jitter",
        0.2,
        "Random share of the pause after a failed task, as a fraction of 1.",
        check=between(0, 0.5),
        internal=True,
    ),
    long(
        "remote.log.manager.copy.max.bytes.per.second",
        LONG_MAX,
        "Bytes that all partitions together may copy to remote storage each second.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "remote.log.manager.copy.quota.window.num",
        11,
        "Samples in the measurement of copies to remote storage.",
        check=at_least(1),
    ),
    integer(
        "remote.log.manager.copy.quota.window.size.seconds",
        1,
        "Length of a sample in the measurement of copies to remote storage, in seconds.",
        check=at_least(1),
    ),
    long(
        "remote.log.manager.fetch.max.bytes.per.second",
        LONG_MAX,
        "Bytes that all partitions together may read from remote storage each second.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "remote.log.manager.fetch.quota.window.num",
        11,
        "Samples in the measurement of reads from remote storage.",
        check=at_least(1),
    ),
    integer(
        "remote.log.manager.fetch.quota.window.size.seconds",
        1,
        "Length of a sample in the measurement of reads from remote storage, in seconds.",
        check=at_least(1),
    ),
    integer(
        "remote.log.reader.threads",
        10,
        "Threads that read from remote storage.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "remote.log.reader.max.pending.tasks",
        100,
        "Reads from remote storage that may wait; a fetch beyond them fails.",
        check=at_least(1),
    ),
    long(
        "remote.log.index.file.cache.total.size.bytes",
        1 << 30,
        "Disk space for indexes of remote segments, in bytes.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    long(
        "remote.log.index.file.cache.ttl.ms",
        900_000,
        "Idle time after which the index of a remote segment leaves the cache, in ms.",
        check=at_least(-1),
        internal=True,
    ),
    integer(
        "remote.fetch.max.wait.ms",
        500,
        "Time that a fetch waits for remote storage, in ms.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    long(
        "remote.list.offsets.request.timeout.ms",
        30_000,
        "Time that a lookup of an offset waits for remote storage, in ms.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
)
