"""Where the configurations of a kcli broker differ from Apache Kafka's and why; values to ask both for."""

from __future__ import annotations

NEVER_SHOWN_BY_KAFKA = {
    "leader.replication.throttled.rate": "kcli has it among the others, Kafka shows it once it is set",
    "follower.replication.throttled.rate": "the same",
    "replica.alter.log.dirs.io.max.bytes.per.second": "the same",
}

DIFFERENCES = {
    ("controller.listener.names", "default"): "optional: the controller is in the same process",
    ("group.consumer.assignment.interval.ms", "default"): "0: a developer's group need not wait",
    ("group.initial.rebalance.delay.ms", "default"): "0: a developer's group need not wait",
    ("listener.security.protocol.map", "read only"): "listeners are opened once, at the start",
    ("listeners", "read only"): "listeners are opened once, at the start",
    ("log.dir", "default"): "the data directory is an option of the command",
    ("node.id", "default"): "nodes are numbered from 1",
    ("process.roles", "default"): "optional: a node is both",
    ("socket.listen.backlog.size", "default"): "a burst of clients need not wait",
    ("socket.receive.buffer.bytes", "default"): "the system's buffers were faster",
    ("socket.send.buffer.bytes", "default"): "a measured size",
}
"""By name and what differs."""

VALUES = {
    "background.threads": ("x", "0", "4", "5", "20", "21", "1.5", ""),
    "config.providers": ("", "file", "a,b"),
    "cordoned.log.dirs": ("", "/nowhere"),
    "follower.fetch.last.tiered.offset.enable": ("true", "yes"),
    "group.coordinator.cached.buffer.max.bytes": ("524287", "524288"),
    "group.coordinator.threads": ("4",),
    "group.consumer.assignment.interval.ms": ("0", "-1", "100", "100000"),
    "group.share.assignment.interval.ms": ("0", "15000", "15001"),
    "group.streams.assignment.interval.ms": ("-1", "15000", "15001"),
    "log.cleaner.backoff.ms": ("-1", "0", "9223372036854775807", "9223372036854775808"),
    "log.cleaner.dedupe.buffer.size": ("1048576", "1048577"),
    "log.cleaner.enable": ("true",),
    "log.cleaner.io.buffer.load.factor": ("x", "-1", "0.5", "1000"),
    "log.cleaner.io.buffer.size": ("-1", "0"),
    "log.cleaner.io.max.bytes.per.second": ("-1", "1e3"),
    "log.cleaner.threads": ("0", "1", "2", "3"),
    "log.flush.interval.ms": ("-1", "5"),
    "max.connection.creation.rate": ("-1", "0", "1"),
    "max.connections": ("-1", "0", "1000"),
    "metric.reporters": ("", "com.example.Reporter"),
    "num.io.threads": ("3", "4", "16", "17"),
    "num.network.threads": ("0", "1", "6", "7"),
    "num.partitions": ("2",),
    "num.recovery.threads.per.data.dir": ("0", "1", "4", "5"),
    "process.roles": ("broker",),
    "queued.max.requests": ("500",),
    "remote.fetch.max.wait.ms": ("0", "1"),
    "remote.log.manager.copier.thread.pool.size": ("4", "5", "20", "21"),
    "remote.log.manager.copy.max.bytes.per.second": ("0", "1"),
    "remote.log.manager.follower.thread.pool.size": ("0", "1", "4", "5"),
    "remote.log.reader.threads": ("4", "5", "20", "21"),
    "sasl.enabled.mechanisms": ("PLAIN",),
    "sasl.kerberos.min.time.before.relogin": ("x", "-5", "58000"),
    "sasl.kerberos.service.name": ("kafka",),
    "sasl.kerberos.ticket.renew.jitter": ("x", "0.1", "1000"),
    "sasl.login.refresh.min.period.seconds": ("32767", "32768"),
    "ssl.client.auth": ("required", "none", "x"),
    "ssl.keystore.location": ("/a",),
    "ssl.protocol": ("TLSv1.3",),
    "transaction.partition.verification.enable": ("false", "no"),
}
"""Values to ask both brokers for, by name."""

SECURITY = "kcli does not act on it, and nobody shall believe it does"
VERDICTS = {
    (
        "log.flush.interval.ms",
        "-1",
    ): "as the topic's `flush.ms`, of which it is the default, it is not negative",
    ("metric.reporters", "com.example.Reporter"): "there are no classes that could be missing",
    ("sasl.kerberos.service.name", "kafka"): SECURITY,
    ("ssl.client.auth", "required"): SECURITY,
    ("ssl.client.auth", "none"): SECURITY,
}
"""The values of which kcli thinks otherwise."""
