"""Dynamic configurations: each that may change while the broker runs acts when it does."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.config.broker_definitions import SETTINGS
from kcli.broker.config.config_definition import UpdateMode
from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.config.topic_definitions import TOPIC_CONFIGS
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.protocol.configs import ConfigOperation, ConfigResourceType, ConfigType
from kcli.protocol.topics import GROUP_METADATA_TOPIC
from kcli.storage.log.log_config import LogConfig
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kcli.broker.node.broker import Broker
    from kcli.storage.log.unified_log import UnifiedLog

IN_EFFECT: dict[str, tuple[str, Callable[[Broker], object], object]] = {
    "log.cleaner.threads": ("2", lambda broker: broker.config.log_cleaner_threads, 2),
    "log.cleaner.backoff.ms": ("7", lambda broker: broker.config.log_cleaner_backoff_ms, 7),
    "log.cleaner.dedupe.buffer.size": (
        "7000000",
        lambda broker: broker.config.log_cleaner_dedupe_buffer_size,
        7_000_000,
    ),
    "log.cleaner.io.buffer.load.factor": (
        "0.5",
        lambda broker: broker.config.log_cleaner_io_buffer_load_factor,
        0.5,
    ),
    "log.cleaner.io.buffer.size": ("7", lambda broker: broker.config.log_cleaner_io_buffer_size, 7),
    "log.cleaner.io.max.bytes.per.second": (
        "7",
        lambda broker: broker.config.log_cleaner_io_max_bytes_per_second,
        7.0,
    ),
    "max.connections": ("7", lambda broker: broker._quotas.max_connections, 7),
    "max.connections.per.ip": ("7", lambda broker: broker._quotas.limit("::1"), 7),
    "max.connections.per.ip.overrides": ("::1:5", lambda broker: broker._quotas.limit("::1"), 5),
    "producer.id.expiration.ms": (
        "7",
        lambda broker: [log.producer_state.producer_id_expiration_ms for log in broker.log_manager],
        [7, 7],
    ),
    "transaction.partition.verification.enable": (
        "false",
        lambda broker: [log.producer_state.verifies_transactions for log in broker.log_manager],
        [False, False],
    ),
    "num.replica.fetchers": ("7", lambda broker: broker.replica_manager.fetchers.per_leader, 7),
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "7",
        lambda broker: broker.replica_manager.alter_log_dirs_manager.throttle.rate,
        7,
    ),
    "leader.replication.throttled.rate": ("7", lambda broker: broker.replica_manager.leader_throttle.rate, 7),
    "follower.replication.throttled.rate": (
        "7",
        lambda broker: broker.replica_manager.follower_throttle.rate,
        7,
    ),
    "num.recovery.threads.per.data.dir": ("7", lambda broker: broker.log_manager.recovery_threads, 7),
}
"""By name: a value, what shows whether it is in effect, and what that shows then."""

OF_GROUPS = "group.consumer.assignment.interval.ms"
OF_LISTENERS = "ssl."
"""How settings begin that change for one listener at a time."""

LOG_FIELDS = {field.name for field in fields(LogConfig)}
OTHER_VALUES = {
    ConfigType.INT: "2",
    ConfigType.LONG: "77",
    ConfigType.DOUBLE: "0.25",
    ConfigType.BOOLEAN: "true",
}
PARTICULAR_VALUES = {
    "log.segment.bytes": "2000000",
    "log.cleanup.policy": "compact",
    "compression.type": "zstd",
    "log.message.timestamp.type": "LogAppendTime",
    "log.retention.bytes": "77",
    "log.index.size.max.bytes": "1000",
}
LOG_DEFAULTS = {
    topic.synonyms[0].name: (topic, topic.synonyms[0].definition.type)
    for topic in TOPIC_CONFIGS.values()
    if topic.synonyms and topic.name.replace(".", "_") in LOG_FIELDS
}


def set_default(broker: Broker, name: str, value: str) -> None:
    change = ConfigChange(name, ConfigOperation.SET, value)
    resource = (ConfigResourceType.BROKER, "")
    outcomes = broker.controller.incremental_alter_configs(
        [(resource, [change])], defaults=TopicDefaults(configs=broker.config.topic_defaults)
    )
    assert outcomes == [None]


def create(broker: Broker, name: str) -> UnifiedLog:
    (outcome,) = broker.controller.create_topics([NewTopic(name, 1, 1)], defaults=TopicDefaults())
    assert not isinstance(outcome, Exception)
    log = broker.log_manager.get(name, 0)
    assert log is not None
    return log


def test_every_dynamic_setting_is_tried_here() -> None:
    dynamic = {name for name, row in SETTINGS.items() if row.mode is UpdateMode.CLUSTER_WIDE}
    assert {name for name in dynamic if not name.startswith(OF_LISTENERS)} == {*IN_EFFECT, OF_GROUPS}


@pytest.mark.parametrize("name", IN_EFFECT)
async def test_a_dynamic_setting_acts_at_once(name: str, tmp_path: Path) -> None:
    value, look, expected = IN_EFFECT[name]
    async with running_cluster(tmp_path) as cluster:
        (broker,) = cluster.brokers
        create(broker, "before")
        set_default(broker, name, value)
        create(broker, "after")
        assert look(broker) == expected


async def test_a_setting_of_groups_acts_on_those_that_are_there_and_on_later_ones(tmp_path: Path) -> None:
    def intervals(broker: Broker) -> list[int]:
        shards = broker.groups.every_shard()
        return [shard._registry.config_of("g").consumer_assignment_interval_ms for shard in shards]

    async with running_cluster(tmp_path) as cluster:
        (broker,) = cluster.brokers
        create(broker, GROUP_METADATA_TOPIC)
        assert intervals(broker) == [0]
        set_default(broker, OF_GROUPS, "7")
        assert intervals(broker) == [7]
    async with running_cluster(tmp_path) as cluster:
        assert intervals(cluster.brokers[0]) == [7]


async def test_a_dynamic_setting_is_in_effect_after_the_next_start(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        for name in ("producer.id.expiration.ms", "num.recovery.threads.per.data.dir"):
            set_default(cluster.brokers[0], name, "7")
        create(cluster.brokers[0], "t")
    async with running_cluster(tmp_path) as cluster:
        manager = cluster.brokers[0].log_manager
        assert manager.recovery_threads == 7
        assert [log.producer_state.producer_id_expiration_ms for log in manager] == [7]


async def test_every_default_of_topics_reaches_the_logs_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        (broker,) = cluster.brokers
        log = create(broker, "t")
        unchanged: dict[str, Any] = {}
        for name, (topic, type) in LOG_DEFAULTS.items():
            before = log.config
            set_default(broker, name, PARTICULAR_VALUES.get(name) or OTHER_VALUES[type])
            field = topic.name.replace(".", "_")
            if getattr(log.config, field) == getattr(before, field):
                unchanged[name] = getattr(before, field)
        assert unchanged == {}
