"""ReplicaManager: keeps the replicas of one node as the metadata says (class `ReplicaManager`).

`apply` creates a log for each replica that the controller placed here, gives it its role, starts fetchers for
the partitions that other nodes lead, and deletes what is gone.

`read_from_log` serves fetches. Followers read up to the log end, and only from the leader. Consumers read
below the high watermark, from any replica if their version knows of that. A leader sends a consumer with a
rack to an in-sync replica in that rack which holds its offset (KIP-392, class `RackAwareReplicaSelector`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.broker.config.broker_definitions import RACK_AWARE_SELECTOR
from kcli.broker.metadata.encoded_metadata import EncodedMetadata
from kcli.broker.metadata.registrations import UNASSIGNED_DIRECTORY
from kcli.broker.replication.alter_log_dirs_manager import AlterLogDirsManager
from kcli.broker.replication.alter_partition_manager import AlterPartitionManager
from kcli.broker.replication.assignments_manager import AssignmentsManager
from kcli.broker.replication.fetch_data import FetchedPartition
from kcli.broker.replication.hosted_partitions import HostedPartitions
from kcli.broker.replication.partition import Partition
from kcli.broker.replication.replica_fetcher import FetcherManager
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import INTERNAL_TOPICS, TopicPartition
from kcli.protocol.uuids import ZERO_UUID
from kcli.storage.disk import is_shortage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from kcli.broker.controller.directory_control import DirectoryAssignment
    from kcli.broker.metadata.metadata_image import MetadataDelta, MetadataImage, TopicImage
    from kcli.broker.replication.fetch_data import FetchPartition
    from kcli.broker.replication.hosted_partitions import ReplicationContext
    from kcli.broker.replication.leader_endpoint import LeaderEndPoint
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kcli.storage.dirs.log_manager import LogManager
    from kcli.storage.log.log_read import Isolation

_log = logging.getLogger(__name__)

CONSUMER_ID = -1
_SAY_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class FetchParams(NamedTuple):
    """A follower by its node id, or a consumer with its `rack`, and how far it may read."""

    isolation: Isolation
    replica_id: int = CONSUMER_ID
    broker_epoch: int = -1
    from_leader_only: bool = True
    each_min_one: bool = False
    rack: str = ""


class ReplicaManager(HostedPartitions):
    def __init__(
        self,
        context: ReplicationContext,
        log_manager: LogManager,
        *,
        link_to: Callable[[int], LeaderEndPoint],
        alter_partition: Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]],
        assign_directories: Callable[[Sequence[DirectoryAssignment]], object],
    ) -> None:
        super().__init__(context)
        self.log_manager = log_manager
        self.encoded_metadata = EncodedMetadata()
        self.fetchers = FetcherManager(self, link_to)
        self.alter_partition_manager = AlterPartitionManager(
            self.node_id, broker_epoch=context.broker_epoch, send=alter_partition
        )
        self.alter_log_dirs_manager = AlterLogDirsManager(self, log_manager, moved=self._replica_moved)
        self._assignments_manager = AssignmentsManager(self.node_id, log_manager, assign_directories)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Copy from other leaders, and maintain the ISR of led partitions, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.alter_partition_manager.run)
            await nursery.start(self.fetchers.run)
            nursery.start_soon(self._expire_isr)
            nursery.start_soon(self.alter_log_dirs_manager.run)
            nursery.start_soon(self._assignments_manager.run)
            task_status.started()

    async def _expire_isr(self) -> None:
        while True:
            await trio.sleep(self.config.replica_lag_time_max_ms / 2000)
            await self.gate.passed()
            for partition in self.led_with_followers():
                partition.maybe_shrink_isr()
                partition.maybe_expand_isr()

    def _replica_moved(self, partition: Partition) -> None:
        self.touch(partition.key)
        topic = None if self.image is None else self.image.topics_by_id.get(partition.topic_id)
        if topic is not None:
            self._assignments_manager.compare(partition, topic.partitions[partition.index])

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over an image; `delta` holds the changes.

        Deletions come first, because one delta may delete and create topics of the same name. A log directory
        that fails takes only its own partitions offline.
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
                partition.maybe_expand_isr()

    def _apply_partition(self, topic: TopicImage, index: int) -> None:
        registration = topic.partitions[index]
        key = TopicPartition(topic.name, index)
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
            if key not in self._lacking:
                _log.error("%s-%d is offline: %s", topic.name, index, error.message)
            self._take_offline(key)
            if is_shortage(error):
                self._lacking[key] = error.message
            return
        self._lacking.pop(key, None)
        if is_new_epoch:
            if partition.is_leader or partition.leader < 0:
                self.fetchers.stop(key)
            else:
                self.fetchers.follow(partition)
        self._assignments_manager.compare(partition, registration)
        if partition.is_alone and topic.name not in INTERNAL_TOPICS:
            self.by_name_bytes[topic.name.encode(), index] = partition
            self.by_topic_id[topic.topic_id, index] = partition
        else:
            self._is_not_alone(topic.name, topic.topic_id, index)

    def open_lacking(self) -> bool:
        """Try again to open the replicas that lacked descriptors or memory; return whether one is back."""
        former = list(self._lacking)
        for key in former:
            topic = None if self.image is None else self.image.topics.get(key.topic)
            if topic is not None and key.partition < len(topic.partitions):
                self._apply_partition(topic, key.partition)
                if key in self.partitions:
                    _log.info("%s is online", key)
            else:
                del self._lacking[key]
        return len(self._lacking) < len(former)

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
            config=self.config.log_config(self.image.topic_config(topic.name)),
            directory_id=directory_id,
            now_ms=self.wall_ms(),
        )
        partition = Partition(
            TopicPartition(topic.name, index),
            topic.topic_id,
            log=log,
            context=self.replica_context,
            submit=self.alter_partition_manager.submit,
        )
        self.partitions[partition.key] = partition
        self._offline.discard(partition.key)
        self.alter_log_dirs_manager.resume(partition)
        return partition

    def _delete(self, topic: TopicImage, index: int) -> None:
        key = TopicPartition(topic.name, index)
        self._offline.discard(key)
        self._lacking.pop(key, None)
        partition = self.partitions.pop(key, None)
        self._is_not_alone(topic.name, topic.topic_id, index)
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
        """Act on another configuration of the broker, which may change that of every log."""
        self._update_configs(self.partitions.values())
        self.fetchers.resize()

    def _update_configs(self, partitions: Iterable[Partition]) -> None:
        assert self.image is not None
        for partition in partitions:
            config = self.config.log_config(self.image.topic_config(partition.topic))
            if config != partition.log.config:
                partition.log.update_config(config)
                if partition.is_leader:
                    partition.isr_moved()  # A smaller `min.insync.replicas` may suffice now.

    def directory_failed(self, path: str) -> None:
        """Take the partitions of a failed log directory offline."""
        for partition in list(self.partitions.values()):
            if partition.log.parent_directory == path:
                partition.resign()
                self._take_offline(partition.key)

    def _take_offline(self, key: TopicPartition) -> None:
        self._offline.add(key)
        self.fetchers.stop(key)
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self._is_not_alone(partition.topic, partition.topic_id, partition.index)
        self.purgatory.touch(key)

    def _is_not_alone(self, topic: str, topic_id: bytes, index: int) -> None:
        self.by_name_bytes.pop((topic.encode(), index), None)
        self.by_topic_id.pop((topic_id, index), None)

    def read_from_log(
        self, wanted: Iterable[FetchPartition], params: FetchParams, max_bytes: int
    ) -> list[FetchedPartition]:
        """Read partitions in order, within one budget of `max_bytes`.

        The first partition that has records returns at least one whole batch, with `each_min_one` each
        partition does. Any other batch that does not fit is left out. Errors become rows.
        """
        rows = []
        left, min_one = max_bytes, True
        for request in wanted:
            row = self._read_partition(request, params, min(request.max_bytes, left), min_one)
            rows.append(row)
            if row.size:
                min_one = params.each_min_one
                left = max(0, left - row.size)
        return rows

    def _read_partition(
        self, request: FetchPartition, params: FetchParams, max_bytes: int, min_one: bool
    ) -> FetchedPartition:
        topic = request.topic
        if topic is None:
            return FetchedPartition(request, ErrorCode.UNKNOWN_TOPIC_ID)
        try:
            partition = self.partition(topic, request.index)
            if request.topic_id not in (ZERO_UUID, partition.topic_id):
                return FetchedPartition(request, ErrorCode.INCONSISTENT_TOPIC_ID)
            epoch = request.current_leader_epoch
            if params.from_leader_only:
                partition.check_leader(epoch)
            else:
                partition.check_epoch(epoch)
            if params.replica_id >= 0:
                partition.check_follower(params.replica_id, params.broker_epoch, epoch)
            elif params.rack:
                preferred = self.preferred_replica(partition, request.fetch_offset, params.rack)
                if preferred is not None:
                    row = FetchedPartition(request)
                    row.preferred_read_replica = preferred
                    row.high_watermark = partition.log.high_watermark
                    return row
            row = partition.read(request, isolation=params.isolation, max_bytes=max_bytes, min_one=min_one)
            if params.replica_id >= 0 and row.diverging is None:
                partition.follower_fetched(
                    params.replica_id,
                    request.fetch_offset,
                    log_start_offset=request.log_start_offset,
                    broker_epoch=params.broker_epoch,
                )
            return row
        except KafkaError as error:
            row = FetchedPartition(request, error.code)
            if error.code in _SAY_LEADER:
                row.current_leader = self.current_leader(topic, request.index)
            return row

    def preferred_replica(self, partition: Partition, fetch_offset: int, rack: str) -> int | None:
        """Return the node that a consumer in `rack` should read from, None for this node."""
        in_sync, image = partition.in_sync, self.image
        if in_sync is None or image is None or self.config.replica_selector_class != RACK_AWARE_SELECTOR:
            return None
        own = image.brokers.get(self.node_id)
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
        return max(
            candidates, key=lambda each: (each.log_end_offset, each.caught_up_ms, each.node_id)
        ).node_id
