"""TransactionSettings: the broker configurations of transactions (Kafka classes `TransactionLogConfig`,
`TransactionStateManagerConfig`, `AddPartitionsToTxnConfig`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.config.config_definition import (
    UpdateMode,
    at_least,
    boolean,
    integer,
    short,
    taken,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class TransactionSettings:
    """A broker's settings for transactions; on an instance each row reads as its value."""

    transactional_id_expiration_ms = integer(
        "transactional.id.expiration.ms",
        604_800_000,
        "Idle time after which a transactional id is forgotten, in ms.",
        check=at_least(1),
    )
    transaction_max_timeout_ms = integer(
        "transaction.max.timeout.ms",
        900_000,
        "Longest timeout that a transaction may ask for, in ms.",
        check=at_least(1),
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often to look for transactions that are over their timeout, in ms.",
        check=at_least(1),
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often to look for transactional ids that are idle for too long, in ms.",
        check=at_least(1),
    )
    transaction_partition_verification_enable = boolean(
        "transaction.partition.verification.enable",
        True,
        "Whether a transactional batch is checked to belong to an open transaction.",
        mode=UpdateMode.CLUSTER_WIDE,
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "First pause before the broker adds a partition to a transaction again, in ms.",
        check=at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "Longest pause before the broker adds a partition to a transaction again, in ms.",
        check=at_least(0),
    )
    transaction_state_log_num_partitions = integer(
        "transaction.state.log.num.partitions",
        50,
        "Number of partitions of a new `__transaction_state`.",
        check=at_least(1),
    )
    # Kafka waits until there are that many brokers; a developer with fewer would wait forever.
    transaction_state_log_replication_factor = short(
        "transaction.state.log.replication.factor",
        3,
        "Replication factor of a new `__transaction_state`; at most the number of brokers.",
        check=at_least(1),
    )
    transaction_state_log_min_isr = integer(
        "transaction.state.log.min.isr",
        2,
        "In-sync replicas that a write to `__transaction_state` needs; at most the number of its replicas.",
        check=at_least(1),
    )
    transaction_state_log_segment_bytes = integer(
        "transaction.state.log.segment.bytes",
        100 << 20,
        "Maximum size of a segment of `__transaction_state` in bytes.",
        check=at_least(1),
    )
    transaction_state_log_load_buffer_size = integer(
        "transaction.state.log.load.buffer.size",
        5 << 20,
        "Bytes read at a time while loading transactions.",
        check=at_least(1),
    )


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """The settings of the transaction coordinator's shards; times are in milliseconds."""

    max_timeout_ms: int = taken(TransactionSettings.transaction_max_timeout_ms)
    timeout_check_interval_ms: int = taken(
        TransactionSettings.transaction_abort_timed_out_transaction_cleanup_interval_ms
    )
    id_expiration_ms: int = taken(TransactionSettings.transactional_id_expiration_ms)


def transaction_topic_configs(settings: TransactionSettings, replicas: int) -> Mapping[str, str]:
    """Return the topic configurations of a `__transaction_state` with so many replicas."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min(settings.transaction_state_log_min_isr, replicas)),
        "segment.bytes": str(settings.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
