"""The group coordinator of a node: the runtime whose shards hold groups and offsets.

The modules of a shard are imported with the first shard: most brokers never coordinate a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kcli.broker.config.config_definition import view
from kcli.broker.config.group_definitions import GroupConfig
from kcli.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kcli.broker.coordinator.runtime.shard_host import CoordinatorSettings
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.internal.coordinator_records import decode_record
from kcli.protocol.topics import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.coordinator.group_coordinator import GroupCoordinator
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.replication.replica_manager import ReplicaManager

GroupRuntime: TypeAlias = "CoordinatorRuntime[GroupCoordinator]"


def group_runtime(
    broker_config: Callable[[], BrokerConfig],
    *,
    image: Callable[[], MetadataImage],
    replica_manager: ReplicaManager,
    wall_ms: Callable[[], int],
) -> GroupRuntime:
    """Return the coordinator of a node, whose newest configuration is `broker_config()`."""

    def new_shard(_index: int, _leader_epoch: int) -> GroupCoordinator:
        from uuid import uuid4

        from kcli.broker.coordinator.group_coordinator import GroupCoordinator
        from kcli.protocol.uuids import random_uuid, uuid_to_text

        return GroupCoordinator(
            view(GroupConfig, broker_config()),
            image=image,
            new_id=lambda: str(uuid4()),
            new_member_id=lambda: uuid_to_text(random_uuid()),
        )

    config = broker_config()
    settings = CoordinatorSettings(
        partitions=config.offsets_topic_num_partitions,
        load_buffer_bytes=config.offsets_load_buffer_size,
        commit_timeout_ms=config.offsets_commit_timeout_ms,
        codec=Codec(config.offsets_topic_compression_codec),
        sweep_interval_ms=config.offsets_retention_check_interval_ms,
    )
    return CoordinatorRuntime(
        GROUP_METADATA_TOPIC,
        new_shard=new_shard,
        sweep=lambda shard, now: shard.expire_offsets(now),
        decode=decode_record,
        settings=settings,
        replica_manager=replica_manager,
        wall_ms=wall_ms,
    )


def reconfigure_groups(groups: GroupRuntime, broker_config: BrokerConfig) -> None:
    """Give every shard the node's new configuration."""
    config = view(GroupConfig, broker_config)
    for shard in groups.every_shard():
        shard.reconfigure(config)
