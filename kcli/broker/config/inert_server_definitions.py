"""ROWS: the configurations of threads, sockets, quotas, the quorum and the metadata log.

kcli knows, checks, stores and shows them; they have no effect. `inert_configs` loads them when one is named.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kcli.broker.config.config_definition import (
    INT_MAX,
    LONG_MAX,
    UpdateMode,
    at_least,
    boolean,
    class_name,
    integer,
    long,
    one_of,
    optional,
    string,
    words,
)

if TYPE_CHECKING:
    from kcli.broker.config.config_definition import ConfigDefinition

_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE
_PER_BROKER = UpdateMode.PER_BROKER

_ADDRESS = re.compile(r".+:\d{1,5}")
_VOTER = re.compile(r"\d+@.+:\d{1,5}", re.ASCII)


def _servers(value: tuple[str, ...]) -> str | None:
    return None if all(map(_ADDRESS.fullmatch, value)) else "must be a list of host:port"


def _voters(value: tuple[str, ...]) -> str | None:
    return None if all(map(_VOTER.fullmatch, value)) else "must be a list of id@host:port"


ROWS: tuple[ConfigDefinition[Any], ...] = (
    # Threads and queues
    integer(
        "num.network.threads",
        3,
        "Threads of each listener that read requests and write responses.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "num.io.threads",
        8,
        "Threads that work on requests, disk access included.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "background.threads",
        10,
        "Threads for chores such as deleting files and expiring state.",
        check=at_least(1),
        mode=_CLUSTER_WIDE,
    ),
    optional(
        integer(
            "num.replica.alter.log.dirs.threads",
            0,
            "Threads that move replicas between log directories; by default one for each directory.",
        )
    ),
    integer(
        "queued.max.requests",
        500,
        "Requests that may wait for a thread before the network threads stop reading.",
        check=at_least(1),
    ),
    long(
        "queued.max.request.bytes",
        -1,
        "Bytes of waiting requests before the network threads stop reading; -1 is no limit.",
    ),
    # Connections
    integer(
        "max.connection.creation.rate",
        INT_MAX,
        "New connections that the broker accepts each second.",
        check=at_least(0),
        mode=_CLUSTER_WIDE,
    ),
    integer(
        "controller.socket.timeout.ms",
        30_000,
        "Time that a request between controller and broker may take, in ms.",
    ),
    long(
        "socket.connection.setup.timeout.ms", 10_000, "Time that a first attempt to connect may take, in ms."
    ),
    long(
        "socket.connection.setup.timeout.max.ms",
        30_000,
        "Upper bound of the time to connect, which doubles with every failed attempt, in ms.",
    ),
    optional(string("inter.broker.listener.name", "", "Listener that brokers use among themselves.")),
    optional(words("early.start.listeners", (), "Listeners that open before the authorizer is ready.")),
    # Shutdown and registration
    boolean(
        "controlled.shutdown.enable",
        True,
        "Whether a broker hands its partitions over before it stops; kcli always does.",
    ),
    integer(
        "initial.broker.registration.timeout.ms",
        60_000,
        "Time within which a starting broker must register with the controller, in ms.",
    ),
    long(
        "server.max.startup.time.ms",
        LONG_MAX,
        "Time within which the server must be up, in ms; for tests.",
        check=at_least(0),
        internal=True,
    ),
    long(
        "log.dir.failure.timeout.ms",
        30_000,
        "Time within which the controller must learn of a failed log directory, or the broker stops, in ms.",
        check=at_least(1),
    ),
    words(
        "cordoned.log.dirs",
        (),
        "Log directories that get no new replicas; `*` means all of them.",
        mode=_PER_BROKER,
    ),
    # Replication
    integer(
        "replica.fetch.min.bytes",
        1,
        "Fewest bytes that a follower wants in a response before `replica.fetch.wait.max.ms` is over.",
    ),
    integer(
        "replica.socket.receive.buffer.bytes",
        65_536,
        "Receive buffer of the connections to leaders, in bytes.",
    ),
    boolean(
        "follower.fetch.last.tiered.offset.enable",
        False,
        "Whether an empty follower starts behind the offsets that are in remote storage.",
        mode=_CLUSTER_WIDE,
    ),
    # Purgatories
    integer(
        "producer.purgatory.purge.interval.requests",
        1000,
        "Produce requests after which the purgatory drops the ones that are done.",
    ),
    integer(
        "fetch.purgatory.purge.interval.requests",
        1000,
        "Fetch requests after which the purgatory drops the ones that are done.",
    ),
    integer(
        "delete.records.purgatory.purge.interval.requests",
        1,
        "DeleteRecords requests after which the purgatory drops the ones that are done.",
    ),
    integer(
        "share.fetch.purgatory.purge.interval.requests",
        1000,
        "ShareFetch requests after which the purgatory drops the ones that are done.",
    ),
    # Quotas
    optional(
        class_name(
            "client.quota.callback.class",
            "",
            "Class that computes the quotas of clients instead of the stored ones.",
        )
    ),
    integer(
        "controller.quota.window.num",
        11,
        "Samples in the measurement of changes to topics.",
        check=at_least(1),
    ),
    integer(
        "controller.quota.window.size.seconds",
        1,
        "Length of a sample in the measurement of changes to topics, in seconds.",
        check=at_least(1),
    ),
    integer(
        "replication.quota.window.num",
        11,
        "Samples in the measurement of throttled replication.",
        check=at_least(1),
    ),
    integer(
        "replication.quota.window.size.seconds",
        1,
        "Length of a sample in the measurement of throttled replication, in seconds.",
        check=at_least(1),
    ),
    integer(
        "alter.log.dirs.replication.quota.window.num",
        11,
        "Samples in the measurement of moves between log directories.",
        check=at_least(1),
    ),
    integer(
        "alter.log.dirs.replication.quota.window.size.seconds",
        1,
        "Length of a sample in the measurement of moves between log directories, in seconds.",
        check=at_least(1),
    ),
    # Policies, providers and metrics
    optional(
        class_name("create.topic.policy.class.name", "", "Class that may refuse the creation of a topic.")
    ),
    optional(
        class_name("alter.config.policy.class.name", "", "Class that may refuse a change of configuration.")
    ),
    words(
        "config.providers",
        (),
        "Names of the providers that fill in `${provider:key}` in values.",
        mode=_CLUSTER_WIDE,
    ),
    words(
        "metric.reporters",
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "Classes that receive the metrics.",
        mode=_CLUSTER_WIDE,
    ),
    integer("metrics.num.samples", 2, "Samples that a metric is computed from.", check=at_least(1)),
    long("metrics.sample.window.ms", 30_000, "Length of one sample of a metric, in ms.", check=at_least(1)),
    string(
        "metrics.recording.level",
        "INFO",
        "Least important level of metrics that are recorded: INFO, DEBUG or TRACE.",
    ),
    words("kafka.metrics.reporters", (), "Classes that receive the older kind of metrics (Yammer)."),
    integer(
        "kafka.metrics.polling.interval.secs",
        10,
        "How often the older kind of reporters reads metrics, in seconds.",
        check=at_least(1),
    ),
    integer(
        "telemetry.max.bytes",
        1 << 20,
        "Largest push of metrics that a client may send, in bytes.",
        check=at_least(1),
    ),
    # Roles, quorum and metadata log
    words(
        "process.roles",
        ("broker", "controller"),
        "Roles of the node; a node of kcli is broker and controller.",
        check=one_of("broker", "controller"),
    ),
    words(
        "controller.quorum.voters",
        (),
        "Controllers that vote, as id@host:port; for quorums that never change.",
        check=_voters,
    ),
    words(
        "controller.quorum.bootstrap.servers",
        (),
        "Addresses at which a node finds the quorum, as host:port.",
        check=_servers,
    ),
    boolean("controller.quorum.auto.join.enable", False, "Whether a controller joins the voters on its own."),
    integer(
        "controller.quorum.election.timeout.ms",
        1000,
        "Time without a leader after which a voter calls an election, in ms.",
        check=at_least(0),
    ),
    integer(
        "controller.quorum.election.backoff.max.ms",
        1000,
        "Longest pause before a voter calls another election, in ms.",
        check=at_least(0),
    ),
    integer(
        "controller.quorum.request.timeout.ms",
        2000,
        "Time that a request to the quorum may take, in ms.",
        check=at_least(0),
    ),
    integer(
        "controller.quorum.retry.backoff.ms",
        20,
        "Pause before a failed request to the quorum is sent again, in ms.",
        check=at_least(0),
    ),
    integer(
        "controller.quorum.append.linger.ms",
        25,
        "Time that the leader collects records before it writes them, in ms.",
        check=at_least(0),
    ),
    integer(
        "controller.quorum.fetch.max.bytes",
        1 << 20,
        "Bytes of the metadata log in one response to a follower.",
        check=at_least(1),
    ),
    integer(
        "controller.quorum.fetch.snapshot.max.bytes",
        1 << 20,
        "Bytes of a snapshot in one response to a follower.",
        check=at_least(1),
    ),
    optional(
        string("metadata.log.dir", "", "Directory of the metadata log; by default the first log directory.")
    ),
    integer(
        "metadata.log.segment.bytes",
        1 << 30,
        "Size at which the metadata log rolls to a new segment, in bytes.",
        check=at_least(8 << 20),
    ),
    long(
        "metadata.log.segment.ms", 604_800_000, "Age at which the metadata log rolls to a new segment, in ms."
    ),
    long(
        "metadata.log.max.record.bytes.between.snapshots",
        20 << 20,
        "Bytes of new records after which a snapshot is due.",
        check=at_least(1),
    ),
    long(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        "Age of a snapshot after which the next is due, in ms; 0 looks at the size alone.",
        check=at_least(0),
    ),
    integer(
        "metadata.max.idle.interval.ms",
        500,
        "How often an idle controller writes a record without content, in ms; 0 is never.",
        check=at_least(0),
    ),
    long(
        "metadata.max.retention.bytes",
        100 << 20,
        "Size of metadata log and snapshots above which the oldest files go.",
    ),
    long(
        "metadata.max.retention.ms",
        604_800_000,
        "Age above which files of the metadata log and snapshots go, in ms.",
    ),
    long(
        "controller.performance.sample.period.ms",
        60_000,
        "How often the controller logs how long its events take, in ms.",
        check=at_least(100),
        internal=True,
    ),
    long(
        "controller.performance.always.log.threshold.ms",
        2000,
        "Duration of an event above which the controller logs it, in ms.",
        check=at_least(0),
        internal=True,
    ),
    optional(
        integer(
            "internal.metadata.log.segment.bytes",
            0,
            "Size of a segment of the metadata log, for tests.",
            internal=True,
        )
    ),
    integer(
        "internal.metadata.max.batch.size.in.bytes",
        8 << 20,
        "Size of a batch in the metadata log, for tests.",
        internal=True,
    ),
    long(
        "internal.metadata.delete.delay.millis",
        60_000,
        "How long a deleted file of the metadata log stays on disk, for tests.",
        internal=True,
    ),
    boolean(
        "unstable.api.versions.enable",
        False,
        "Whether versions of APIs that are still in development are offered.",
        internal=True,
    ),
    boolean(
        "unstable.feature.versions.enable",
        False,
        "Whether levels of features that are still in development are offered.",
        internal=True,
    ),
)
