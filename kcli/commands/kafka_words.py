"""What Kafka's scripts and their sub-commands are called in kcli: hints for who types them by habit."""

from __future__ import annotations

SCRIPTS = {
    "broker-api-versions": "kcli cluster api-versions",
    "cluster": "kcli cluster",
    "configs": "kcli configs",
    "console-consumer": "kcli consume",
    "console-producer": "kcli produce",
    "consumer-groups": "kcli consumer-groups",
    "delete-records": "kcli delete-records",
    "dump-log": "kcli dump-log",
    "get-offsets": "kcli get-offsets",
    "groups": "kcli consumer-groups list",
    "leader-election": "kcli preferred-replica-election",
    "log-dirs": "kcli log-dirs",
    "metadata-shell": "kcli dump-log --cluster-metadata-decoder",
    "preferred-replica-election": "kcli preferred-replica-election",
    "reassign-partitions": "kcli reassign-partitions",
    "replica-verification": "kcli verify-index",
    "server-start": "kcli broker start",
    "server-stop": "kcli broker stop",
    "topics": "kcli topics",
}
"""The names of Kafka's scripts, without `kafka-` and `.sh`, and the commands that do the same."""

OTHER_SCRIPTS = {
    "storage": "`kcli broker start` formats its directories by itself",
    **dict.fromkeys(
        (
            "acls",
            "client-metrics",
            "console-share-consumer",
            "consumer-perf-test",
            "delegation-tokens",
            "e2e-latency",
            "features",
            "jmx",
            "metadata-quorum",
            "producer-perf-test",
            "run-class",
            "share-consumer-perf-test",
            "share-groups",
            "streams-application-reset",
            "streams-groups",
            "transactions",
            "verifiable-consumer",
            "verifiable-producer",
        ),
        "kcli has no such command; Kafka's own tool speaks to a kcli broker as far as that has the API",
    ),
}
"""The scripts that no command stands for, and what to do instead."""

VERBS = {
    "kcli cluster": {
        "api-version": "kcli cluster api-versions",
        "broker-api-versions": "kcli cluster api-versions",
        "cluster-id": "kcli cluster id",
        "list-endpoints": "kcli cluster nodes",
    },
    "kcli consumer-groups": {
        "copy": "kcli consumer-groups clone",
        "reset": "kcli consumer-groups reset-offsets",
    },
}
"""The sub-commands of Kafka's tools, and other words for kcli's, by the group in which they are typed."""

OPTIONS = {
    "--broker-list": "`-b HOST:PORT` names the brokers",
    "--zookeeper": "no ZooKeeper is asked: `-b HOST:PORT` names the brokers",
}
"""Options that Kafka's tools had once, of commands that ask brokers, and what to do instead."""


def hint_for(path: str, word: str) -> str | None:
    """Return what kcli has for a word of Kafka's that the group `path` does not know, if there is one."""
    if path != "kcli":
        return VERBS.get(path, {}).get(word)
    name = word.rpartition("/")[2].removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    return SCRIPTS.get(name) or OTHER_SCRIPTS.get(name)
