"""ReplicaManager: the partitions of one node (class `ReplicaManager`).

It follows the metadata: `apply` makes logs for the replicas that the controller placed here, gives each its
role, has fetchers copy those that others lead, and removes those that are gone. Handlers find partitions
through it, and get Kafka's errors for those that are not here.

Which replica a consumer should read from: one in its own rack, if there is one (KIP-392).

Only the leader says so, and only of in-sync replicas that hold what the consumer asks for; of several the one
that has come furthest wins (class `RackAwareReplicaSelector`).

Reading the replicas of a node for a fetch, in order and within one budget; errors become rows.

Followers read from the leader, up to the end of its log. Consumers read below the high watermark, from any
replica if they know that there are several, and a leader may tell them of a nearer one (KIP-392).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from kcli.broker.config.broker_definitions import RACK_AWARE_SELECTOR
from kcli.broker.metadata.encoded_metadata import EncodedMetadata
from kcli.broker.metadata.registrations import UNASSIGNED_DIRECTORY
from kcli.broker.replication import partition as partition_reading
from kcli.broker.replication.alter_log_dirs_manager import LogDirMoves
from kcli.broker.replication.alter_partition_manager import IsrChanges
from kcli.broker.replication.assignments_manager import DirectoryAssignments
from kcli.broker.replication.fetch_data import FetchedPartition
from kcli.broker.replication.group_commit import GroupCommit
from kcli.broker.replication.leader_endpoint import FollowerSession
from kcli.broker.replication.partition import Partition, consider_expansion, shrink
from kcli.broker.replication.replica_fetcher import FetcherManager
from kcli.broker.replication.replication_throttle import ReplicationThrottle
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import INTERNAL_TOPICS
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.controller.directory_control import DirectoryAssignment
    from kcli.broker.metadata.metadata_image import MetadataDelta, MetadataImage, TopicImage
    from kcli.broker.replication.fetch_data import FetchPartition
    from kcli.broker.replication.leader_endpoint import PeerLink
    from kcli.broker.replication.partition import IsrChange, PartitionId
    from kcli.broker.waiting.purgatory import Purgatory
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kcli.storage.dirs.log_manager import LogManager
    from kcli.storage.log.log_config import LogConfig
    from kcli.storage.log.log_read import Isolation


_log = logging.getLogger(__name__)


class Surroundings(Protocol):
    """What replication needs of the node that it runs on."""

    config: BrokerConfig
    epoch: int

    @property
    def is_paused(self) -> bool:
        """True while the node does nothing."""
        ...

    async def until_awake(self) -> None:
        """Return once the node is not paused."""
        ...

    def link_to(self, node_id: int) -> PeerLink:
        """Return the way to another node."""
        ...

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Have the controller change in-sync replicas. Raises `KafkaError` and `PeerUnreachable`."""
        ...

    def assign_directories(self, assignments: Sequence[DirectoryAssignment]) -> None:
        """Tell the controller which log directories replicas lie in. Raises `KafkaError`."""
        ...


class ReplicaManager:
    """The replicas on node `node_id`, by topic and partition.

    `log_config` gives a topic's effective configuration from its overrides; it is asked anew when either
    may have changed. `clock_ms` is what the lag of followers is measured with.
    """

    def __init__(
        self,
        node_id: int,
        *,
        log_manager: LogManager,
        purgatory: Purgatory,
        log_config: Callable[[Mapping[str, str]], LogConfig],
        wall_ms: Callable[[], int],
        node: Surroundings,
        clock_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self.node_id = node_id
        self.log_manager = log_manager
        self.purgatory = purgatory
        self.encoded_metadata = EncodedMetadata()
        self.group_commit = GroupCommit(wall_ms)
        self.partitions: dict[PartitionId, Partition] = {}
        self.direct: dict[tuple[bytes, int], Partition] = {}
        """The partitions that nobody else has a replica of, by encoded name; none of internal topics."""
        self.image: MetadataImage | None = None
        self.touch = purgatory.touch
        self.wall_ms = wall_ms
        self.clock_ms = clock_ms
        self.fetchers = FetcherManager(self, node.link_to)
        self.isr_changes = IsrChanges(node_id, broker_epoch=lambda: node.epoch, send=node.alter_partition)
        self.submit: Callable[[IsrChange], None] = self.isr_changes.submit
        self.leader_throttle = ReplicationThrottle(
            "leader.replication.throttled.replicas",
            node_id,
            rate=lambda: node.config.leader_replication_throttled_rate,
        )
        self.follower_throttle = ReplicationThrottle(
            "follower.replication.throttled.replicas",
            node_id,
            rate=lambda: node.config.follower_replication_throttled_rate,
        )
        self._node = node
        self.log_dir_moves = LogDirMoves(self)
        self._directories = DirectoryAssignments(node_id, log_manager, node.assign_directories)
        self._log_config = log_config
        self._offline: set[PartitionId] = set()

    @property
    def config(self) -> BrokerConfig:
        """The node's configuration."""
        return self._node.config

    @property
    def max_lag_ms(self) -> int:
        """How long an in-sync replica may be behind."""
        return self._node.config.replica_lag_time_max_ms

    @property
    def broker_epoch(self) -> int:
        """The epoch that the node is registered with."""
        return self._node.epoch

    @property
    def is_paused(self) -> bool:
        """True while the node does nothing."""
        return self._node.is_paused

    async def until_awake(self) -> None:
        """Return once the node is not paused."""
        await self._node.until_awake()

    def broker_epoch_of(self, node_id: int) -> int | None:
        """Return the epoch of a node that may be in sync, None for one that may not."""
        broker = None if self.image is None else self.image.brokers.get(node_id)
        return broker.epoch if broker is not None and broker.is_active else None

    # --- replication -----------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Copy what others lead, and keep the in-sync replicas of what is led here up to date, for ever."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.isr_changes.run)
            await nursery.start(self.fetchers.run)
            nursery.start_soon(self._expire_isr)
            nursery.start_soon(self.log_dir_moves.run)
            nursery.start_soon(self._directories.run)
            task_status.started()

    async def _expire_isr(self) -> None:
        while True:
            await trio.sleep(self.max_lag_ms / 2000)
            await self.until_awake()
            for partition in self.led_with_followers():
                shrink(partition)
                consider_expansion(partition)

    def replica_moved(self, partition: Partition) -> None:
        """Act on a replica that lies in another log directory now."""
        self.touch(partition.key)
        topic = None if self.image is None else self.image.topics_by_id.get(partition.topic_id)
        if topic is not None:
            self._directories.compare(partition, topic.partitions[partition.index])

    def led_with_followers(self) -> Iterator[Partition]:
        """Yield the partitions that this node leads and others copy."""
        for partition in list(self.partitions.values()):
            if partition.in_sync is not None:
                yield partition

    def open_session(self, follower_id: int, broker_epoch: int) -> FollowerSession:
        """Let a fetcher of another node watch partitions here."""
        return FollowerSession(self, follower_id, broker_epoch)

    # --- following the metadata ------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over an image; `delta` says what changed since the one before.

        Deletions come first: a topic may be deleted and created again under its name in one delta. A log
        directory that fails takes only its own partitions out of service.
        """
        self.image = image
        if delta.changed_brokers:
            self.encoded_metadata.clear()
        elif delta.deleted_topics:
            self.encoded_metadata.forget_topics({topic.topic_id for topic in delta.deleted_topics})
        for topic in delta.deleted_topics:
            for index, _ in enumerate(topic.partitions):
                self._delete(topic, index)
        for topic in (*delta.created_topics, *delta.changed_topics):
            for index in sorted(delta.changed_partitions.get(topic.topic_id, ())):
                self._apply_partition(topic, index)
        self._apply_configs(delta)
        if delta.changed_brokers:
            for partition in self.led_with_followers():
                consider_expansion(partition)

    def _apply_partition(self, topic: TopicImage, index: int) -> None:
        registration = topic.partitions[index]
        key = (topic.name, index)
        if self.node_id not in registration.replicas:
            if key in self.partitions:
                self._delete(topic, index)
            return
        partition = self.partitions.get(key)
        try:
            if partition is None:
                partition = self._create(topic, index)
            is_new_epoch = partition.apply(registration)
        except KafkaError as error:
            _log.error("%s-%d is offline: %s", topic.name, index, error.message)
            self._take_offline(key)
            return
        if is_new_epoch:
            self._follow(partition)
        self._directories.compare(partition, registration)
        if partition.is_alone and topic.name not in INTERNAL_TOPICS:
            self.direct[topic.name.encode(), index] = partition
        else:
            self.direct.pop((topic.name.encode(), index), None)

    def _follow(self, partition: Partition) -> None:
        if partition.is_leader or partition.leader < 0:
            self.fetchers.stop(partition.key)
        else:
            self.fetchers.follow(partition)

    def _create(self, topic: TopicImage, index: int) -> Partition:
        assert self.image is not None
        registration = topic.partitions[index]
        directory_id = None
        if registration.directories:
            directory_id = registration.directories[registration.replicas.index(self.node_id)]
            if directory_id == UNASSIGNED_DIRECTORY:
                directory_id = None
        log = self.log_manager.get_or_create(
            topic.name,
            index,
            topic_id=topic.topic_id,
            config=self._log_config(self.image.topic_config(topic.name)),
            directory_id=directory_id,
            now_ms=self.wall_ms(),
        )
        partition = Partition(
            topic.name,
            index,
            topic.topic_id,
            node_id=self.node_id,
            log=log,
            host=self,
        )
        self.partitions[partition.key] = partition
        self._offline.discard(partition.key)
        self.log_dir_moves.resume(partition)
        return partition

    def _delete(self, topic: TopicImage, index: int) -> None:
        key = (topic.name, index)
        self._offline.discard(key)
        partition = self.partitions.pop(key, None)
        self.direct.pop((topic.name.encode(), index), None)
        if partition is None:
            return
        self.fetchers.stop(key)
        partition.resign()
        self.purgatory.touch(key)
        try:
            self.log_manager.delete(topic.name, index, now_ms=self.wall_ms())
        except KafkaError as error:
            _log.error("%s-%d could not be deleted: %s", topic.name, index, error.message)

    def _apply_configs(self, delta: MetadataDelta) -> None:
        assert self.image is not None
        topics = {name for kind, name in delta.changed_configs if kind == ConfigResourceType.TOPIC}
        for name in topics:
            overrides = self.image.topic_config(name)
            self.leader_throttle.configure(name, overrides)
            self.follower_throttle.configure(name, overrides)
        if topics:
            self._update_configs(
                partition for partition in self.partitions.values() if partition.topic in topics
            )

    def config_changed(self) -> None:
        """Act on another configuration of the broker: every log's may be another with it."""
        self._update_configs(self.partitions.values())
        self.fetchers.resize()

    def _update_configs(self, partitions: Iterable[Partition]) -> None:
        assert self.image is not None
        for partition in partitions:
            config = self._log_config(self.image.topic_config(partition.topic))
            if config != partition.log.config:
                partition.log.update_config(config)
                if partition.is_leader:
                    partition.isr_moved()  # Fewer replicas may be enough now.

    def directory_failed(self, path: str) -> None:
        """Take the partitions of a failed log directory out of service."""
        for key, partition in list(self.partitions.items()):
            if partition.log.parent_directory == path:
                partition.resign()
                self._take_offline(key)

    def _take_offline(self, key: PartitionId) -> None:
        self._offline.add(key)
        self.fetchers.stop(key)
        self.partitions.pop(key, None)
        self.direct.pop((key[0].encode(), key[1]), None)
        self.purgatory.touch(key)

    # --- finding partitions ----------------------------------------------------------------------

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

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, None if the cluster has no such id."""
        topic = None if self.image is None else self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def _missing(self, topic: str, index: int) -> KafkaError:
        name = f"{topic}-{index}"
        if (topic, index) in self._offline:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {name} has failed")
        known = None if self.image is None else self.image.topics.get(topic)
        if known is None or not 0 <= index < len(known.partitions):
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {name}")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {self.node_id} has no replica of {name}")

    def current_leader(self, topic: str, index: int) -> tuple[int, int] | None:
        """Return (leader, leader epoch) of any partition as the metadata has it, None if it has none."""
        known = None if self.image is None else self.image.topics.get(topic)
        if known is None or not 0 <= index < len(known.partitions):
            return None
        registration = known.partitions[index]
        return registration.leader, registration.leader_epoch


def preferred_replica(
    manager: ReplicaManager, partition: Partition, fetch_offset: int, rack: str
) -> int | None:
    """Return the node that a consumer in `rack` should read from, None if it is this one."""
    in_sync, image = partition.in_sync, manager.image
    if in_sync is None or image is None or manager.config.replica_selector_class != RACK_AWARE_SELECTOR:
        return None
    own = image.brokers.get(manager.node_id)
    if own is not None and own.rack == rack:
        return None
    candidates = [
        remote
        for node_id, remote in in_sync.remotes.items()
        if node_id in in_sync.committed
        and (broker := image.brokers.get(node_id)) is not None
        and broker.rack == rack
        and not broker.fenced
        and remote.log_start_offset <= fetch_offset <= remote.log_end_offset
    ]
    if not candidates:
        return None
    return max(candidates, key=lambda each: (each.log_end_offset, each.caught_up_ms, each.node_id)).node_id


CONSUMER_ID = -1
_SAY_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Reader(NamedTuple):
    """Who reads: a follower by its node id, or a consumer, and how far. `rack` is where a consumer is."""

    isolation: Isolation
    replica_id: int = CONSUMER_ID
    broker_epoch: int = -1
    from_leader_only: bool = True
    each_min_one: bool = False
    rack: str = ""


def read_replicas(
    manager: ReplicaManager, wanted: Iterable[FetchPartition], reader: Reader, max_bytes: int
) -> list[FetchedPartition]:
    """Read partitions in order, within one budget of `max_bytes`.

    The first partition that has anything gives at least one whole batch, with `each_min_one` every partition
    does; otherwise a batch that does not fit is left out.
    """
    rows = []
    left, min_one = max_bytes, True
    for request in wanted:
        row = _read(manager, request, reader, min(request.max_bytes, left), min_one)
        rows.append(row)
        if row.size:
            min_one = reader.each_min_one
            left = max(0, left - row.size)
    return rows


def _read(
    manager: ReplicaManager, request: FetchPartition, reader: Reader, max_bytes: int, min_one: bool
) -> FetchedPartition:
    topic = request.topic
    if topic is None:
        return FetchedPartition(request, ErrorCode.UNKNOWN_TOPIC_ID)
    try:
        partition = manager.partition(topic, request.index)
        if request.topic_id not in (ZERO_UUID, partition.topic_id):
            return FetchedPartition(request, ErrorCode.INCONSISTENT_TOPIC_ID)
        epoch = request.current_leader_epoch
        if reader.from_leader_only:
            partition.check_leader(epoch)
        else:
            partition.check_epoch(epoch)
        if reader.replica_id >= 0:
            partition.check_follower(reader.replica_id, reader.broker_epoch, epoch)
        elif reader.rack:
            preferred = preferred_replica(manager, partition, request.fetch_offset, reader.rack)
            if preferred is not None:
                return _elsewhere(request, preferred, partition.log.high_watermark)
        row = partition_reading.read(
            partition, request, isolation=reader.isolation, max_bytes=max_bytes, min_one=min_one
        )
        if reader.replica_id >= 0 and row.diverging is None:
            partition.follower_fetched(
                reader.replica_id,
                request.fetch_offset,
                log_start_offset=request.log_start_offset,
                broker_epoch=reader.broker_epoch,
            )
        return row
    except KafkaError as error:
        row = FetchedPartition(request, error.code)
        if error.code in _SAY_LEADER:
            row.current_leader = manager.current_leader(topic, request.index)
        return row


def _elsewhere(request: FetchPartition, node_id: int, high_watermark: int) -> FetchedPartition:
    """Return the row that sends a consumer to another replica."""
    row = FetchedPartition(request)
    row.preferred_read_replica = node_id
    row.high_watermark = high_watermark
    return row
