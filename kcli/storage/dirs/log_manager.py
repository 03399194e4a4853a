"""LogManager: all logs of one node, over its log directories.

A start creates and locks the directories (`open`), then loads every log (`load`): cheap after a clean stop,
with recovery by several threads after a crash. A directory with an I/O error goes offline with all its logs
until the next start; the node goes on with the others (Kafka class `LogManager`).

A future log is the copy of a replica on its way to another log directory of the node (KIP-113). It lies in
`<topic>-<partition>.<id>-future` until it has everything; then it takes the replica's name and place, and the
replica is deleted. The next start goes on with a copy that a stop interrupted.

The periodic work is synchronous. What is slow in it, fsyncs and unlinking, comes as plans: run them in a
thread, then commit them.
"""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import TYPE_CHECKING

from kcli.errors import KcliError, reason_of
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import random_uuid
from kcli.storage import disk
from kcli.storage.checkpoints import CLEANER_OFFSET_CHECKPOINT, write_partition_metadata
from kcli.storage.dirs.directory_loading import DirectoryLoader, run_all
from kcli.storage.dirs.log_directories import LogDirectories
from kcli.storage.dirs.offset_checkpoints import CHECKPOINTS, CheckpointPlan, OffsetCheckpoints
from kcli.storage.disk import StorageShortage
from kcli.storage.log.local_log import DeletionPlan, PendingDeletions
from kcli.storage.log.log_config import PRODUCER_ID_EXPIRATION_MS, LogConfig, LogSettings
from kcli.storage.log.log_loader import Checkpointed, load_log
from kcli.storage.log_paths import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    replica_directory_name,
    suffixed_directory_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcli.storage.dirs.directory_loading import FoundReplica
    from kcli.storage.dirs.log_directory import LogDirectory
    from kcli.storage.log.local_log import FlushPlan
    from kcli.storage.log.unified_log import UnifiedLog

UNKNOWN_BROKER_EPOCH = -1
_UNCLEAN = Checkpointed(is_clean=False)


class DirectoryCheckPlan:
    """Replica directories to check; `run` collects the logs without one in `missing`.

    A directory that was removed or moved away under a running process can still be written, but its data is
    lost. Kafka notices when it next creates a file there; a replica that never fills its segment creates
    none.
    """

    __slots__ = ("_places", "missing")

    def __init__(self, places: Sequence[tuple[UnifiedLog, str]]) -> None:
        self.missing: list[UnifiedLog] = []
        self._places = places

    def run(self) -> None:
        """Check the directories, in any thread."""
        self.missing = [log for log, directory in self._places if disk.is_missing(directory)]


class LogManager:
    """The logs of one node, by topic and partition; iterating leaves out future logs.

    `config_for(topic)` returns a topic's configuration; without it, `default_config` serves. `report` takes
    one line for each event worth a log line. `on_directory_failure` is called after a directory went offline
    and its logs were removed.
    """

    def __init__(
        self,
        log_dirs: Sequence[str],
        *,
        node_id: int,
        cluster_id: str,
        default_config: LogConfig | None = None,
        config_for: Callable[[str], LogConfig] | None = None,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        recovery_threads: int = 2,
        report: Callable[[str], None] = lambda message: None,
        on_directory_failure: Callable[[LogDirectory], None] | None = None,
    ) -> None:
        self.directories = LogDirectories(log_dirs, on_failure=self._directory_failed)
        self.default_config = default_config or LogConfig()
        self.recovery_threads = recovery_threads
        self._on_directory_failure = on_directory_failure
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._config_for = config_for or (lambda topic: self.default_config)
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._verifies_transactions = False
        self.report = report
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._future_logs: dict[TopicPartition, UnifiedLog] = {}
        # The directories in which to create replicas that do not exist yet.
        self.preferred_directories: dict[TopicPartition, str] = {}
        self._offline: set[TopicPartition] = set()
        self._deletions = PendingDeletions()
        self._checkpoints = OffsetCheckpoints(CHECKPOINTS)

    def open(self, *, now_ms: int, directory_id: bytes | None = None) -> None:
        """Create, lock and identify the directories; one that fails goes offline.

        `directory_id` is for the only one without an id; by default each of them gets a new one. Raises
        `KcliError` if a directory is in use or belongs to another node, or if none is left.
        """
        self.directories.open(
            cluster_id=self._cluster_id,
            node_id=self._node_id,
            now_ms=now_ms,
            new_id=random_uuid if directory_id is None else lambda: directory_id,
        )

    def load(
        self, *, now_ms: int, keep: Callable[[TopicPartition, bytes | None], bool] | None = None
    ) -> None:
        """Load the logs of all directories.

        `keep(topic_partition, topic_id)` returns whether the node has this replica; the id is None if the
        directory does not name it. The others are renamed to `-stray`. Without `keep`, all are kept. Raises
        `KcliError` if a replica is found twice, or if no directory is left.
        """
        for directory in self.directories.online:
            try:
                self._load_directory(directory, now_ms=now_ms, keep=keep)
            except OSError as error:
                why = f"{reason_of(error)}{_file_of(error, directory.path)}"
                message = f"cannot load log directory `{directory.path}`: {why}"
                self.directories.error_in(directory, error, message)
        self.directories.check()

    def _load_directory(
        self,
        directory: LogDirectory,
        *,
        now_ms: int,
        keep: Callable[[TopicPartition, bytes | None], bool] | None,
    ) -> None:
        loader = DirectoryLoader(directory, self.report)
        for path in loader.deleted:
            self._deletions.add(path, now_ms=now_ms, delay_ms=self.default_config.file_delete_delay_ms)
        if keep is not None:
            loader.set_aside_unless(keep)

        def load_replica(replica: FoundReplica) -> None:
            topic_partition = replica.topic_partition
            log = self._load_log(
                replica.path,
                topic_partition,
                replica.topic_id,
                now_ms=now_ms,
                checkpointed=loader.checkpointed(topic_partition),
            )
            log.set_high_watermark(loader.high_watermark(topic_partition))
            clean_until = loader.cleaner_offset(topic_partition)
            # Records that take the place of lost ones are dirty.
            log.cleaner_offset = None if (clean_until or 0) > log.log_end_offset else clean_until
            self._add(log)

        jobs = [partial(load_replica, replica) for replica in loader.replicas]
        if jobs and not directory.was_clean:
            self.report(f"recovering {len(jobs)} logs in `{directory.path}` after an unclean stop")
        # A clean start reads next to nothing, and Python runs it on one core anyway.
        run_all(jobs, 1 if directory.was_clean else self.recovery_threads)
        self._checkpoints.entries_expired(loader.checkpointed_names - {log.topic_partition for log in self})
        directory.is_loaded = True

    def _load_log(
        self,
        path: str,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        *,
        now_ms: int,
        checkpointed: Checkpointed,
        config: LogConfig | None = None,
    ) -> UnifiedLog:
        settings = LogSettings(
            config=config or self._config_for(topic_partition.topic),
            report=self.report,
            on_failure=self._log_failed,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            verifies_transactions=self._verifies_transactions,
            on_lowered_cleaner_offset=partial(self.checkpoint, CLEANER_OFFSET_CHECKPOINT),
            random_below=lambda limit: int.from_bytes(os.urandom(8), "big") % limit,
        )
        return load_log(
            path,
            topic_partition,
            topic_id=topic_id,
            settings=settings,
            now_ms=now_ms,
            checkpointed=checkpointed,
        )

    def _add(self, log: UnifiedLog) -> None:
        """Add a loaded log. Raises `KcliError` if one of its name exists."""
        logs = self._future_logs if log.is_future else self._logs
        other = logs.setdefault(log.topic_partition, log)
        if other is not log:
            raise KcliError(
                f"{log.topic_partition} is found twice: `{other.directory}` and `{log.directory}`",
                hint="delete the one that is out of date",
            )

    def __iter__(self) -> Iterator[UnifiedLog]:
        return iter(tuple(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def all_logs(self) -> tuple[UnifiedLog, ...]:
        """All logs, including future logs."""
        return (*self._logs.values(), *self._future_logs.values())

    def get(self, topic: str, partition: int) -> UnifiedLog | None:
        """Return a log, None without one. Raises `KafkaError` 56 if its directory is offline."""
        topic_partition = TopicPartition(topic, partition)
        if topic_partition in self._offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {topic_partition} is offline"
            )
        return self._logs.get(topic_partition)

    def get_or_create(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: bytes | None,
        config: LogConfig | None = None,
        directory_id: bytes | None = None,
        now_ms: int,
        is_new: bool = True,
    ) -> UnifiedLog:
        """Return a log; create it, if it does not exist, in that directory or the one with the fewest logs.

        A log that is not new (`is_new`) is not created while a directory is offline, which may hold it.
        Raises `KafkaError` KAFKA_STORAGE_ERROR and INCONSISTENT_TOPIC_ID.
        """
        log = self.get(topic, partition)
        if log is not None:
            self._set_topic_id(log, topic_id)
            return log
        topic_partition = TopicPartition(topic, partition)
        if not is_new and self.directories.offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition} may be in a directory that is offline"
            )
        for name in self._checkpoints.stale_files(topic_partition):
            self.checkpoint(name)
        preferred = self.preferred_directories.pop(topic_partition, None)
        directory = self.directories.for_new_log(
            self.all_logs, directory_id=directory_id, preferred=preferred
        )
        return self._create(directory, topic_partition, topic_id, config, now_ms)

    def _create(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig | None,
        now_ms: int,
        *,
        is_future: bool = False,
    ) -> UnifiedLog:
        name, what = replica_directory_name(topic_partition), str(topic_partition)
        if is_future:
            name = suffixed_directory_name(topic_partition, FUTURE_DIRECTORY_SUFFIX, random_uuid().hex())
            what = f"a copy of {topic_partition}"
        path = f"{directory.path}/{name}"
        try:
            disk.make_directory(path)
            if topic_id is not None:
                write_partition_metadata(path, topic_id)
            # Unclean, because a crash may have left a part of it.
            log = self._load_log(
                path, topic_partition, topic_id, now_ms=now_ms, checkpointed=_UNCLEAN, config=config
            )
        except OSError as error:
            message = f"cannot create {what} in `{directory.path}`: {reason_of(error)}"
            self.directories.error_in(directory, error, message)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
        self._add(log)
        return log

    def _set_topic_id(self, log: UnifiedLog, topic_id: bytes | None) -> None:
        if topic_id is None or topic_id == log.topic_id:
            return
        if log.topic_id is not None:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"`{log.directory}` belongs to another topic of that name"
            )
        try:
            write_partition_metadata(log.directory, topic_id)
        except OSError as error:
            raise log.failed("identify", error) from error
        log.topic_id = topic_id

    def delete(self, topic: str, partition: int, *, now_ms: int) -> bool:
        """Take a log out of service and mark its directory deleted; `plan_deletions` unlinks it later.

        Return whether there was one. Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        topic_partition = TopicPartition(topic, partition)
        self._offline.discard(topic_partition)
        self.drop_future_log(topic_partition, now_ms=now_ms)
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return False
        self._checkpoints.entries_expired([topic_partition])
        try:
            self._retire(log, now_ms)
        except StorageShortage:
            # Its directory still has the name, which a new topic must not take over.
            self._logs[topic_partition] = log
            raise
        return True

    def _retire(self, log: UnifiedLog, now_ms: int) -> None:
        """Close a log and mark its directory deleted. Raises `KafkaError`."""
        name = suffixed_directory_name(log.topic_partition, DELETE_DIRECTORY_SUFFIX, random_uuid().hex())
        log.close_handlers()
        log.rename_directory(name)
        self._deletions.add(log.directory, now_ms=now_ms, delay_ms=log.config.file_delete_delay_ms)

    def future_log(self, topic: str, partition: int) -> UnifiedLog | None:
        return self._future_logs.get(TopicPartition(topic, partition))

    def create_future_log(self, log: UnifiedLog, *, directory: str, now_ms: int) -> UnifiedLog:
        """Begin a copy of `log`, empty, in another log directory. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        target = self.directories.at(directory)
        copy = self._create(target, log.topic_partition, log.topic_id, log.config, now_ms, is_future=True)
        if log.log_start_offset:
            copy.truncate_fully_and_start_at(log.log_start_offset, now_ms=now_ms)
        return copy

    def drop_future_log(self, topic_partition: TopicPartition, *, now_ms: int) -> None:
        """Delete a future log, if there is one. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        copy = self._future_logs.pop(topic_partition, None)
        if copy is not None:
            self._retire(copy, now_ms)

    def promote_future_log(self, topic_partition: TopicPartition, *, now_ms: int) -> UnifiedLog:
        """Put a complete future log in the place of its replica, and return it. Raises `KafkaError`."""
        copy = self._future_logs.pop(topic_partition)
        former = self.get(*topic_partition)
        self._logs[topic_partition] = copy
        self._checkpoints.entries_expired([topic_partition])
        if former is not None:
            try:
                copy.set_high_watermark(former.high_watermark)
            except OSError as error:
                raise copy.failed("read", error) from error
            copy.cleaner_offset = former.cleaner_offset
            copy.producer_state.guards = former.producer_state.guards
            self._retire(former, now_ms)
        copy.rename_directory(replica_directory_name(topic_partition))
        copy.is_future = False
        return copy

    def _log_failed(self, path: str, message: str) -> None:
        self.directories.fail(self.directories.at(path), message)

    def _directory_failed(self, directory: LogDirectory, message: str) -> None:
        self.report(f"{message}; the directory is offline")
        for logs in (self._logs, self._future_logs):
            for log in list(logs.values()):
                if log.parent_directory == directory.path:
                    del logs[log.topic_partition]
                    log.go_offline(message)
                    if logs is self._logs:
                        self._offline.add(log.topic_partition)
        directory.release()
        if self._on_directory_failure is not None:
            self._on_directory_failure(directory)

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """Make every log, now and later, forget producers that have been silent for `expiration_ms`."""
        self._producer_id_expiration_ms = expiration_ms
        for log in self.all_logs:
            log.producer_state.producer_id_expiration_ms = expiration_ms

    def set_transaction_verification(self, *, verifies: bool) -> None:
        """Make every log, now and later, refuse transactional data that is not verified, or not."""
        self._verifies_transactions = verifies
        for log in self.all_logs:
            log.producer_state.verifies_transactions = verifies

    def checkpoint(self, name: str) -> None:
        """Write one kind of checkpoint, at once; see `CHECKPOINTS`. Raises `StorageShortage`."""
        plan = self.plan_checkpoint(name)
        plan.run()
        self.commit_checkpoint(plan)

    def plan_checkpoint(self, name: str) -> CheckpointPlan:
        """Return the plan to write one kind of checkpoint (see `CHECKPOINTS`) in all directories.

        Run it, in a thread, then call `commit_checkpoint`.
        """
        offset_of = CHECKPOINTS[name]
        by_directory: dict[str, dict[TopicPartition, int]] = {each.path: {} for each in self.directories}
        for log in self:
            offset = offset_of(log)
            if offset is not None:
                by_directory[log.parent_directory][log.topic_partition] = offset
        files = [
            (f"{each.path}/{name}", by_directory[each.path])
            for each in self.directories.loaded
            # Most nodes never compact: they do without the file.
            if by_directory[each.path]
            or name != CLEANER_OFFSET_CHECKPOINT
            or os.path.exists(f"{each.path}/{name}")
        ]
        return self._checkpoints.plan(name, files)

    def commit_checkpoint(self, plan: CheckpointPlan) -> None:
        """Commit a checkpoint plan; the directories in which it failed go offline.

        Raises `StorageShortage` if it has to be written again.
        """
        if not any(disk.is_shortage(error) for _, error in plan.failures):
            self._checkpoints.commit(plan)
        for path, error in sorted(plan.failures, key=lambda failure: disk.is_shortage(failure[1])):
            self.directories.error_at(path, error, f"cannot write `{path}`: {reason_of(error)}")

    def apply_retention(self, now_ms: int) -> int:
        """Delete the old segments of every log; return how many."""
        counts: list[int] = []
        self._each(lambda log: counts.append(log.delete_old_segments(now_ms)), tuple(self))
        return sum(counts)

    def plan_flushes(self, now_ms: int) -> list[tuple[UnifiedLog, FlushPlan]]:
        """Return what to sync now: logs that rolled, or whose `flush.ms` or `flush.messages` is due.

        Run each plan, in a thread, then call the log's `commit_flush`, or its `failed` with the `OSError`.
        """
        plans: list[tuple[UnifiedLog, FlushPlan]] = []

        def plan_flush(log: UnifiedLog) -> None:
            plan = log.plan_due_flush(now_ms)
            if plan is not None:
                plans.append((log, plan))

        self._each(plan_flush, tuple(self))
        return plans

    def expire_producers(self, now_ms: int) -> int:
        """Forget the producers that have been silent too long; return how many."""
        return sum(log.producer_state.remove_expired(now_ms) for log in self)

    def plan_deletions(self, now_ms: int) -> DeletionPlan | None:
        """Return the plan to unlink the files and directories that are due, None without any.

        Run it, in a thread, then call `commit_deletions`.
        """
        due = self._deletions.take_due(now_ms)
        for log in self:
            due += log.take_due_deletions(now_ms)
        return DeletionPlan(due) if due else None

    def commit_deletions(self, plan: DeletionPlan, now_ms: int) -> None:
        """Take directories offline in which something could not be unlinked; after a shortage try again."""
        for path, error in plan.failures:
            if disk.is_shortage(error):
                self._deletions.add(path, now_ms=now_ms, delay_ms=0)
            else:
                self.directories.error_at(path, error, f"cannot delete `{path}`: {reason_of(error)}")

    def plan_directory_check(self) -> DirectoryCheckPlan:
        """Take missing log directories offline; return the plan to look for the replicas in the others.

        Run it, in a thread, then call `commit_directory_check`.
        """
        for directory in self.directories.online:
            if not directory.is_in_place():
                self.directories.fail(directory, f"log directory `{directory.path}` was removed or replaced")
        return DirectoryCheckPlan([(log, log.directory) for log in self.all_logs])

    def commit_directory_check(self, plan: DirectoryCheckPlan) -> None:
        """Take the log directories offline in which replicas are missing.

        Each is checked again, because a log may have been deleted or renamed since.
        """
        for log in plan.missing:
            # `all_logs` again for each: the first that fails takes the others of its directory offline.
            if log.failure is None and log in self.all_logs and disk.is_missing(log.directory):
                log.failed("find", FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))

    def close(self, *, clean: bool = True, broker_epoch: int = UNKNOWN_BROKER_EPOCH, now_ms: int) -> None:
        """Flush and close every log, write the checkpoints and the clean-stop marker, unlock.

        Without `clean` only files and locks are released, as by a killed process. A directory that fails goes
        offline, without a marker.
        """
        if clean:
            try:
                self._close_cleanly(broker_epoch, now_ms)
            except StorageShortage as error:
                self.report(f"{error.message}; the next start recovers")
        for log in self.all_logs:
            log.close_handlers()
        self.directories.release()

    def _close_cleanly(self, broker_epoch: int, now_ms: int) -> None:
        """Raise `StorageShortage` before any marker is written for what is not on disk."""
        failed = self._each(lambda log: log.close(now_ms=now_ms), self.all_logs)
        for name in CHECKPOINTS:
            self.checkpoint(name)
        unclean = {log.parent_directory for log in failed}
        for directory in self.directories.loaded:
            if directory.path in unclean:
                continue
            try:
                directory.write_clean_marker(broker_epoch)
            except OSError as error:
                self.directories.error_in(directory, error, f"cannot mark a clean stop: {reason_of(error)}")

    def _each(self, action: Callable[[UnifiedLog], None], logs: Sequence[UnifiedLog]) -> list[UnifiedLog]:
        """Call an action for every log online; return the logs for which it failed.

        Such a log has taken its directory offline, or has met a shortage, which is reported.
        """
        failed = []
        for log in logs:
            try:
                if self.directories.of(log).is_online:
                    action(log)
            except StorageShortage as error:
                self.report(error.message)
                failed.append(log)
            except KafkaError:
                failed.append(log)
        return failed


def _file_of(error: OSError, directory: str) -> str:
    """Return the part of a message about a directory that names the file that failed."""
    is_other = isinstance(error.filename, str) and error.filename != directory
    return f": `{error.filename}`" if is_other else ""
