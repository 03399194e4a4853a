"""The transaction coordinator of a node: the runtime whose shards hold transactional ids.

The modules of a shard are imported with the first shard: most brokers never coordinate a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kcli.broker.config.config_definition import view
from kcli.broker.config.transaction_definitions import TransactionConfig
from kcli.broker.controller.feature_control import TRANSACTION_VERSION
from kcli.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kcli.broker.coordinator.runtime.shard_host import CoordinatorSettings
from kcli.protocol.internal.coordinator_records import decode_transaction_record
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.replication.replica_manager import ReplicaManager

TransactionRuntime: TypeAlias = "CoordinatorRuntime[TransactionCoordinator]"


def transaction_runtime(
    broker_config: Callable[[], BrokerConfig],
    *,
    image: Callable[[], MetadataImage],
    replica_manager: ReplicaManager,
    new_producer_id: Callable[[], int],
    wall_ms: Callable[[], int],
    send: Callable[[Any], None],
) -> TransactionRuntime:
    """Return the coordinator of a node, whose newest configuration is `broker_config()`."""

    def new_shard(index: int, leader_epoch: int) -> TransactionCoordinator:
        from kcli.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator

        return TransactionCoordinator(
            index,
            leader_epoch,
            view(TransactionConfig, broker_config()),
            level=lambda: image().features.get(TRANSACTION_VERSION, 0),
            new_id=new_producer_id,
        )

    config = broker_config()
    settings = CoordinatorSettings(
        partitions=config.transaction_state_log_num_partitions,
        keeps_partition_count=True,
        load_buffer_bytes=config.transaction_state_log_load_buffer_size,
        commit_timeout_ms=config.request_timeout_ms,
        sweep_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )
    return CoordinatorRuntime(
        TRANSACTION_STATE_TOPIC,
        new_shard=new_shard,
        sweep=lambda shard, now: shard.forget_expired(now),
        decode=decode_transaction_record,
        settings=settings,
        replica_manager=replica_manager,
        wall_ms=wall_ms,
        send=send,
    )


def reconfigure_transactions(transactions: TransactionRuntime, broker_config: BrokerConfig) -> None:
    """Give every shard the node's new configuration."""
    config = view(TransactionConfig, broker_config)
    for shard in transactions.every_shard():
        shard.reconfigure(config)
