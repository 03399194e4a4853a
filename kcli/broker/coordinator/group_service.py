"""The group coordinator of a node: its runtime, and the topic in which groups and offsets are kept.

The topic is created when the first client asks for a coordinator. It gets as many replicas as configured, or
as there can be: Kafka would wait for more brokers, and a cluster of one would wait for ever.

What a shard is made of is imported with the first one: brokers that nobody asks for a group do without.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias

from kcli.broker.config.group_definitions import group_config, group_topic_configs
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime, CoordinatorSettings
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import decode_record
from kcli.protocol.topics import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from kcli.broker.coordinator.group_coordinator import GroupCoordinator
    from kcli.broker.metadata.metadata_image import TopicImage
    from kcli.broker.node.broker import Broker

_log = logging.getLogger(__name__)

GroupRuntime: TypeAlias = "CoordinatorRuntime[GroupCoordinator]"


def group_runtime(broker: Broker) -> GroupRuntime:
    """Return what coordinates the groups of a node."""
    config = group_config(broker.config)

    def new_shard() -> GroupCoordinator:
        from uuid import uuid4

        from kcli.broker.coordinator.group_coordinator import GroupCoordinator

        return GroupCoordinator(config, image=lambda: broker.image, new_id=lambda: str(uuid4()))

    settings = CoordinatorSettings(
        partitions=broker.config.offsets_topic_num_partitions,
        load_buffer_bytes=broker.config.offsets_load_buffer_size,
        commit_timeout_ms=broker.config.offsets_commit_timeout_ms,
        codec=Codec(broker.config.offsets_topic_compression_codec),
        sweep_interval_ms=broker.config.offsets_retention_check_interval_ms,
    )
    return CoordinatorRuntime(
        GROUP_METADATA_TOPIC,
        new_shard=new_shard,
        sweep=lambda shard, now: shard.expire_offsets(now),
        decode=decode_record,
        settings=settings,
        replica_manager=broker.replica_manager,
        wall_ms=broker.wall_ms,
    )


def group_metadata_topic(broker: Broker) -> TopicImage:
    """Return the topic of groups and offsets, which is created if it is missing.

    Raises `KafkaError` COORDINATOR_NOT_AVAILABLE if that is not possible now.
    """
    topic = broker.image.topics.get(GROUP_METADATA_TOPIC)
    if topic is not None:
        return topic
    config, controller = broker.config, broker.controller
    replicas = sum(each.is_active for each in broker.image.brokers.values())
    wanted = NewTopic(
        GROUP_METADATA_TOPIC,
        config.offsets_topic_num_partitions,
        max(min(config.offsets_topic_replication_factor, replicas), 1),
        configs=group_topic_configs(config),
    )
    (outcome,) = controller.create_topics([wanted], defaults=TopicDefaults(configs=config.topic_defaults))
    if isinstance(outcome, KafkaError):
        _log.error("cannot create `%s`: %s", GROUP_METADATA_TOPIC, outcome.message)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.message)
    return broker.image.topics.get(GROUP_METADATA_TOPIC, outcome)
