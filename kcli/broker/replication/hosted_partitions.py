"""HostedPartitions: the replicas of one node by topic and partition, and Kafka's errors for all others.

`ReplicaManager` adds what follows the metadata. Fetchers and fetch sessions see only this class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.replication.group_commit import GroupCommit
from kcli.broker.replication.in_sync_replicas import ReplicaContext
from kcli.broker.replication.replication_throttle import ReplicationThrottle
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.replication.partition import Partition
    from kcli.broker.waiting.pause_gate import PauseGate
    from kcli.broker.waiting.purgatory import Purgatory


@dataclass(frozen=True, slots=True)
class ReplicationContext:
    """What replication needs of its node.

    `config` and `broker_epoch` return the current values. `wall_ms` dates records and files, `clock_ms`
    measures the lag of followers.
    """

    node_id: int
    config: Callable[[], BrokerConfig]
    broker_epoch: Callable[[], int]
    gate: PauseGate
    purgatory: Purgatory
    wall_ms: Callable[[], int]
    clock_ms: Callable[[], int] = monotonic_ms


class HostedPartitions:
    """The replicas on node `node_id`."""

    def __init__(self, context: ReplicationContext) -> None:
        self.context = context
        self.node_id = context.node_id
        self.gate = context.gate
        self.purgatory = context.purgatory
        self.timer = context.purgatory.timer
        self.touch = context.purgatory.touch
        self.wall_ms = context.wall_ms
        self.group_commit = GroupCommit(context.wall_ms)
        self.image: MetadataImage | None = None
        # Keyed by `Partition.key`. Requests look up by a plain tuple: that takes a quarter of the time.
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.by_name_bytes: dict[tuple[bytes, int], Partition] = {}
        """The partitions with no replica elsewhere, by encoded name; none of internal topics."""
        self.by_topic_id: dict[tuple[bytes, int], Partition] = {}
        """The same by topic id."""
        self._offline: set[TopicPartition] = set()
        self._lacking: dict[TopicPartition, str] = {}
        """Why replicas could not be opened for a lack of descriptors or memory, until `open_lacking`."""
        self.replica_context = ReplicaContext(
            context.node_id,
            max_lag_ms=lambda: self.config.replica_lag_time_max_ms,
            clock_ms=context.clock_ms,
            broker_epoch_of=self.broker_epoch_of,
            touch=self.touch,
        )
        self.leader_throttle = ReplicationThrottle(
            "leader.replication.throttled.replicas",
            context.node_id,
            rate=lambda: self.config.leader_replication_throttled_rate,
        )
        self.follower_throttle = ReplicationThrottle(
            "follower.replication.throttled.replicas",
            context.node_id,
            rate=lambda: self.config.follower_replication_throttled_rate,
        )

    @property
    def config(self) -> BrokerConfig:
        return self.context.config()

    def partition(self, topic: str, index: int) -> Partition:
        """Return a replica of this node, whatever its role.

        Raises `KafkaError` UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER when only other nodes have
        it, KAFKA_STORAGE_ERROR when its log directory failed.
        """
        found = self.partitions.get((topic, index))
        if found is None:
            raise self._missing(topic, index)
        return found

    def leader(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """Return a partition that this node leads. Raises `KafkaError`, also for a wrong leader epoch."""
        partition = self.partition(topic, index)
        partition.check_leader(current_leader_epoch)
        return partition

    def led_with_followers(self) -> Iterator[Partition]:
        """Yield the partitions that this node leads and other nodes copy."""
        for partition in list(self.partitions.values()):
            if partition.in_sync is not None:
                yield partition

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, None if the cluster has no topic with this id."""
        topic = None if self.image is None else self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def current_leader(self, topic: str, index: int) -> tuple[int, int] | None:
        """Return (leader, leader epoch) of any partition of the cluster, None if it does not exist."""
        known = None if self.image is None else self.image.topics.get(topic)
        if known is None or not 0 <= index < len(known.partitions):
            return None
        registration = known.partitions[index]
        return registration.leader, registration.leader_epoch

    def broker_epoch_of(self, node_id: int) -> int | None:
        """Return the broker epoch of an active node, None for a node that may not be in sync."""
        broker = None if self.image is None else self.image.brokers.get(node_id)
        return broker.epoch if broker is not None and broker.is_active else None

    def _missing(self, topic: str, index: int) -> KafkaError:
        name = f"{topic}-{index}"
        lacking = self._lacking.get(TopicPartition(topic, index))
        if lacking is not None:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, lacking)
        if (topic, index) in self._offline:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {name} has failed")
        if self.current_leader(topic, index) is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {name}")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {self.node_id} has no replica of {name}")
