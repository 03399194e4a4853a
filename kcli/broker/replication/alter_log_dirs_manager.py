"""AlterLogDirsManager: moves replicas between the log directories of a node (KIP-113).

It copies a replica's log to a future log piece by piece, while the replica stays in service. A complete copy
takes the place of the log between two appends. If the log is truncated meanwhile, the copy is truncated by
the same comparison of epochs as between two nodes (class `ReplicaAlterLogDirsThread`).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import trio

from kcli.broker.replication import follower_log
from kcli.broker.replication.replica_fetcher import TURN_BYTES, read_slice
from kcli.broker.replication.replication_throttle import ReplicationThrottle
from kcli.broker.waiting.threads import run_in_thread
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from kcli.storage import disk
from kcli.storage.disk import is_shortage
from kcli.storage.log.log_read import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.replication.hosted_partitions import HostedPartitions
    from kcli.broker.replication.partition import Partition
    from kcli.storage.dirs.log_manager import LogManager
    from kcli.storage.log.unified_log import UnifiedLog

MAX_FILE_NAME = 255
FUTURE_NAME_ADDS = len(".-future") + 32
"""What the name of a future log's directory has behind topic and partition, with an id of 32 digits."""

SHORTAGE_SECONDS = 1.0
"""The time until a move that lacked descriptors or memory goes on."""

_log = logging.getLogger(__name__)


class AlterLogDirsManager:
    def __init__(
        self, hosted: HostedPartitions, log_manager: LogManager, *, moved: Callable[[Partition], None]
    ) -> None:
        self._hosted = hosted
        self._logs = log_manager
        self._moved = moved
        self._moving: dict[TopicPartition, Partition] = {}
        self._wanted = trio.Event()
        self.throttle = ReplicationThrottle(
            "", hosted.node_id, rate=lambda: hosted.config.replica_alter_log_dirs_io_max_bytes_per_second
        )

    def begin(self, topic: str, index: int, directory: str) -> None:
        """Move a replica to a log directory; a replica that is not here yet will be created there.

        Raises `KafkaError` LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR and REPLICA_NOT_AVAILABLE, and
        INVALID_TOPIC_EXCEPTION for a topic whose name leaves no room for what the directory's name adds.
        """
        name = TopicPartition(topic, index)
        if len(f"{topic}-{index}") + FUTURE_NAME_ADDS > MAX_FILE_NAME:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the topic name is too long to move {name}")
        self._check(directory)
        log = self._logs.get(topic, index)
        partition = self._hosted.partitions.get((topic, index))
        if log is None or partition is None:
            self._logs.preferred_directories[name] = directory
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"there is no replica of {name} here")
        copy = self._logs.future_log(topic, index)
        if copy is not None and copy.parent_directory != directory:
            self.stop(partition.key)
            copy = None
        if copy is None and log.parent_directory != directory:
            self._logs.create_future_log(log, directory=directory, now_ms=self._hosted.wall_ms())
        self.resume(partition)

    def resume(self, partition: Partition) -> None:
        """Continue the move of a replica, if it has a future log."""
        if self._logs.future_log(*partition.key) is not None:
            self._moving[partition.key] = partition
            self._wanted.set()

    def stop(self, key: TopicPartition) -> None:
        """Cancel a move. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        self._moving.pop(key, None)
        self._logs.drop_future_log(TopicPartition(*key), now_ms=self._hosted.wall_ms())

    def _check(self, directory: str) -> None:
        for each in self._logs.directories:
            if each.path == directory:
                if each.is_online:
                    return
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory `{directory}` is offline")
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"`{directory}` is not a log directory of this node")

    async def run(self) -> None:
        """Copy pieces of the moving replicas in turn, until cancelled."""
        while True:
            if not self._moving:
                await self._wanted.wait()
                self._wanted = trio.Event()
            for key, partition in list(self._moving.items()):
                await self._hosted.gate.passed()
                while wait_ms := self.throttle.wait_ms(monotonic_ms()):  # noqa: ASYNC110 - for time to pass
                    await trio.sleep(wait_ms / 1000)
                if self._moving.get(key) is partition and not await self._advance(partition):
                    await trio.sleep(SHORTAGE_SECONDS)
            await trio.lowlevel.checkpoint()

    async def _advance(self, partition: Partition) -> bool:
        """Copy a piece of one replica; a complete copy takes the place of the log.

        Return False for a shortage of descriptors or memory, after which it is tried again.
        """
        copy = self._logs.future_log(*partition.key)
        if copy is None or self._hosted.partitions.get(partition.key) is not partition:
            del self._moving[partition.key]
            return True
        try:
            if self._copy(partition.log, copy):
                return True
            if copy.must_flush:
                await self._hosted.group_commit.flush(copy)
                await self._finish_synced(partition, copy)
            elif partition.writing is None:
                self._finish(partition)
        except KafkaError as error:
            _log.error("%s-%d cannot be moved: %s", *partition.key, error.message)
            if is_shortage(error):
                return False
            self._moving.pop(partition.key, None)
        return True

    def _copy(self, log: UnifiedLog, copy: UnifiedLog) -> bool:
        """Copy a piece; return whether there may be more. Raises `KafkaError`."""
        now_ms = self._hosted.wall_ms()
        if copy.log_end_offset < log.log_start_offset:
            copy.truncate_fully_and_start_at(log.log_start_offset, now_ms=now_ms)
        epoch = copy.leader_epochs.latest_epoch
        if epoch >= 0:
            known, end_offset = log.end_offset_for_epoch(epoch)
            if known < epoch or end_offset < copy.log_end_offset:
                follower_log.truncate_to_epoch(copy, known, end_offset, now_ms=now_ms)
                return True
        follower_log.follow_offsets(copy, high_watermark=0, log_start_offset=log.log_start_offset)
        records = log.read(copy.log_end_offset, TURN_BYTES, isolation=Isolation.LOG_END).file_slice
        if records is None:
            return False
        follower_log.append(copy, read_slice(records), now_ms=now_ms)
        self.throttle.record(records.size, monotonic_ms())
        return copy.log_end_offset < log.log_end_offset

    async def _finish_synced(self, partition: Partition, copy: UnifiedLog) -> None:
        """Sync the rest of a copy while nobody writes to the log, then let it take the log's place.

        What was acknowledged is on disk in the log, and has to be in what replaces it. Raises `KafkaError`.
        """
        if partition.writing is not None or not self._is_moving(partition, copy):
            return
        done = partition.writing = trio.Event()
        try:
            while self._copy(partition.log, copy):
                pass
            await self._hosted.group_commit.flush(copy)
            if self._is_moving(partition, copy) and copy.log_end_offset == partition.log.log_end_offset:
                former = partition.log
                self._finish(partition)
                for log in (copy, former):
                    await _sync_name(log)
        finally:
            partition.writing = None
            done.set()

    def _is_moving(self, partition: Partition, copy: UnifiedLog) -> bool:
        """Return whether a copy is still wanted, after a wait."""
        is_wanted = self._moving.get(partition.key) is partition
        return is_wanted and self._logs.future_log(*partition.key) is copy

    def _finish(self, partition: Partition) -> None:
        name = TopicPartition(*partition.key)
        former, copy = partition.log.parent_directory, self._logs.future_log(*name)
        assert copy is not None
        copy.take_epochs_of(partition.log)
        partition.log = self._logs.promote_future_log(name, now_ms=self._hosted.wall_ms())
        del self._moving[partition.key]
        self._moved(partition)
        _log.info("%s has moved from `%s` to `%s`", name, former, partition.log.parent_directory)


async def _sync_name(log: UnifiedLog) -> None:
    """Sync the name of a replica's directory. Raises `KafkaError`."""
    try:
        await run_in_thread(partial(disk.sync_path, log.parent_directory))
    except OSError as error:
        raise log.failed("rename", error) from error
