"""LogManager: all logs of one node, over its log directories.

A start creates and locks the directories (`open`), then loads every log (`load`): cheap after a clean
stop, with recovery by several threads after a crash. A directory with an I/O error goes offline with all
its logs and stays so until the next start; the node goes on with the others.

The periodic work on them is in `log_upkeep` (Kafka class `LogManager`).

FutureLogs: the copies of replicas that are on their way to another log directory of the node (KIP-113).

A copy lies in `<topic>-<partition>.<id>-future` until it has everything; then it takes the replica's name and
place, and what it replaces is deleted. One that a stop interrupted is found at the next start and goes on.

The periodic work on all logs of a node, in synchronous pieces for the broker's housekeeping to call.

What is slow, fsyncs and unlinking, comes as plans, to be run in a thread and committed afterwards (Kafka
class `LogManager`).

Presence: whether log directories, and the replicas in them, are still where they were opened.

What is removed or moved away under a running process can still be written, and nobody finds it again. Kafka
meets that when it next makes a file there: a checkpoint, a segment. Here it is looked for, so that what is
there again under its name, and a replica that never fills its segment, are noticed as well.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.errors import KcliError, reason_of
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import random_uuid
from kcli.storage.checkpoints import write_partition_metadata
from kcli.storage.dirs.directory_loading import load_directory
from kcli.storage.dirs.log_directories import LogDirectories
from kcli.storage.dirs.offset_checkpoints import CHECKPOINTS, CheckpointPlan, OffsetCheckpoints
from kcli.storage.log.local_log import DeletionPlan, PendingDeletions, plan_due_flush
from kcli.storage.log.log_config import LogConfig
from kcli.storage.log.log_loader import PRODUCER_ID_EXPIRATION_MS, load_log
from kcli.storage.log.retention import delete_old_segments
from kcli.storage.log.unified_log import truncate_fully_and_start_at
from kcli.storage.log_paths import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    replica_directory_name,
    suffixed_directory_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcli.storage.dirs.log_directory import LogDirectory
    from kcli.storage.log.local_log import FlushPlan
    from kcli.storage.log.unified_log import UnifiedLog


class FutureLogs:
    """The future logs of one node, by topic and partition."""

    __slots__ = ("logs",)

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, UnifiedLog] = {}

    def get(self, topic: str, partition: int) -> UnifiedLog | None:
        """Return the copy of a replica, None if it is not being moved."""
        return self.logs.get(TopicPartition(topic, partition))


def create_future_log(manager: LogManager, log: UnifiedLog, *, directory: str, now_ms: int) -> UnifiedLog:
    """Begin a copy of `log`, empty, in another log directory. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
    name = suffixed_directory_name(log.topic_partition, FUTURE_DIRECTORY_SUFFIX, random_uuid().hex())
    path = f"{directory}/{name}"
    try:
        os.makedirs(path)
        if log.topic_id is not None:
            write_partition_metadata(path, log.topic_id)
        copy = manager.load_log(
            path,
            topic_partition=log.topic_partition,
            topic_id=log.topic_id,
            now_ms=now_ms,
            is_clean=False,
            config=log.config,
        )
    except OSError as error:
        message = f"cannot create a copy of {log.topic_partition} in `{directory}`: {reason_of(error)}"
        manager.directories.path_failed(path, message)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
    manager.add(copy)
    if log.log_start_offset:
        truncate_fully_and_start_at(copy, log.log_start_offset, now_ms=now_ms)
    return copy


def drop_future_log(manager: LogManager, topic_partition: TopicPartition, *, now_ms: int) -> None:
    """Give up a copy, if there is one. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
    copy = manager.future.logs.pop(topic_partition, None)
    if copy is not None:
        manager.retire(copy, now_ms)


def promote_future_log(manager: LogManager, topic_partition: TopicPartition, *, now_ms: int) -> UnifiedLog:
    """Put a copy that has everything in the place of its replica, and return it. Raises `KafkaError`."""
    copy = manager.future.logs.pop(topic_partition)
    former = manager.get(*topic_partition)
    manager.replace(copy)
    manager.checkpoints.entries_expired([topic_partition])
    if former is not None:
        copy.set_high_watermark(former.high_watermark)
        manager.retire(former, now_ms)
    copy.rename_directory(replica_directory_name(topic_partition))
    copy.is_future = False
    return copy


UNKNOWN_BROKER_EPOCH = -1


def _silent(message: str) -> None:
    """Drop a message: nobody asked for it."""


def _random_below(limit: int) -> int:
    return int.from_bytes(os.urandom(8), "big") % limit


class LogManager:
    """The logs of one node, by topic and partition.

    `config_for(topic)` gives a topic's configuration, `default_config` serves without it. `report` takes
    one line for every event worth a log line; `on_directory_failure` learns of a directory that went
    offline, after its logs are gone from here.
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
        report: Callable[[str], None] = _silent,
        on_directory_failure: Callable[[LogDirectory], None] | None = None,
    ) -> None:
        self.directories = LogDirectories(log_dirs, on_failure=self._directory_failed)
        self.default_config = default_config or LogConfig()
        self.recovery_threads = recovery_threads
        self.on_directory_failure = on_directory_failure
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._config_for = config_for
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self.report = report
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self.future = FutureLogs()
        # Where somebody wants replicas to be made that are not here yet.
        self.preferred_directories: dict[TopicPartition, str] = {}
        self._offline: set[TopicPartition] = set()
        self.deletions = PendingDeletions()
        self.checkpoints = OffsetCheckpoints(CHECKPOINTS)

    # --- start

    def open(self, *, now_ms: int, directory_id: bytes | None = None) -> None:
        """Create, lock and identify the directories; one that fails goes offline.

        `directory_id` is for the only one without an id; by default each of those gets a new one.
        Raises `KcliError` when a directory is in use or belongs to another node, or when none is left.
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

        `keep(topic_partition, topic_id)` says whether the node has this replica, the id being None where the
        directory does not tell; without it every replica is kept. The others are renamed to `-stray`. Raises
        `KcliError` when a replica is found twice, or when no directory is left.
        """
        for directory in self.directories.online:
            try:
                load_directory(self, directory, now_ms=now_ms, keep=keep)
            except OSError as error:
                why = f"{reason_of(error)}{_file_of(error, directory.path)}"
                self.directories.fail(directory, f"cannot load log directory `{directory.path}`: {why}")
        self.directories.check()

    def load_log(
        self,
        path: str,
        *,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        now_ms: int,
        is_clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        config: LogConfig | None = None,
    ) -> UnifiedLog:
        """Load one log from its directory. Raises `OSError`."""
        return load_log(
            path,
            topic_partition=topic_partition,
            topic_id=topic_id,
            config=config or self._config_of(topic_partition.topic),
            now_ms=now_ms,
            is_clean=is_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            report=self.report,
            on_failure=self._log_failed,
            random_below=_random_below,
        )

    def _config_of(self, topic: str) -> LogConfig:
        return self.default_config if self._config_for is None else self._config_for(topic)

    def add(self, log: UnifiedLog) -> None:
        """Take a loaded log in. Raises `KcliError` when there is one of its name."""
        logs = self.future.logs if log.is_future else self._logs
        other = logs.setdefault(log.topic_partition, log)
        if other is not log:
            raise KcliError(
                f"{log.topic_partition} is found twice: `{other.directory}` and `{log.directory}`",
                hint="delete the one that is out of date",
            )

    # --- logs

    def __iter__(self) -> Iterator[UnifiedLog]:
        """Iterate over all logs, not those that are being moved here."""
        return iter(tuple(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic: str, partition: int) -> UnifiedLog | None:
        """Return a log, None if there is none. Raises `KafkaError` 56 if its directory is offline."""
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
        """Return a log, made now if there is none: in the directory given, else in that with fewest logs.

        A log that is not new (`is_new`) is not made while a directory is offline: it may well be there.
        Raises `KafkaError` KAFKA_STORAGE_ERROR and INCONSISTENT_TOPIC_ID.
        """
        log = self.get(topic, partition)
        if log is not None:
            self._settle_topic_id(log, topic_id)
            return log
        topic_partition = TopicPartition(topic, partition)
        if not is_new and self.directories.offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition} may be in a directory that is offline"
            )
        for name in self.checkpoints.stale_files(topic_partition):
            self.checkpoint(name)
        return self._create(
            topic_partition, topic_id, config=config, directory_id=directory_id, now_ms=now_ms
        )

    def _create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        *,
        config: LogConfig | None,
        directory_id: bytes | None,
        now_ms: int,
    ) -> UnifiedLog:
        preferred = self.preferred_directories.pop(topic_partition, None)
        logs = (*self._logs.values(), *self.future.logs.values())
        directory = self.directories.for_new_log(logs, directory_id=directory_id, preferred=preferred)
        path = f"{directory.path}/{replica_directory_name(topic_partition)}"
        try:
            os.makedirs(path, exist_ok=True)
            if topic_id is not None:
                write_partition_metadata(path, topic_id)
            # A crash may have left a part of it behind.
            log = self.load_log(
                path,
                topic_partition=topic_partition,
                topic_id=topic_id,
                now_ms=now_ms,
                is_clean=False,
                config=config,
            )
        except OSError as error:
            message = f"cannot create {topic_partition} in `{directory.path}`: {reason_of(error)}"
            self.directories.fail(directory, message)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
        self.add(log)
        return log

    def _settle_topic_id(self, log: UnifiedLog, topic_id: bytes | None) -> None:
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
        drop_future_log(self, topic_partition, now_ms=now_ms)
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return False
        self.checkpoints.entries_expired([topic_partition])
        self.retire(log, now_ms)
        return True

    def retire(self, log: UnifiedLog, now_ms: int) -> None:
        """Mark the directory of a log deleted that nobody uses any more. Raises `KafkaError`."""
        name = suffixed_directory_name(log.topic_partition, DELETE_DIRECTORY_SUFFIX, random_uuid().hex())
        log.close_handlers()
        log.rename_directory(name)
        self.deletions.add(log.directory, now_ms=now_ms, delay_ms=log.config.file_delete_delay_ms)

    def replace(self, log: UnifiedLog) -> None:
        """Put a log in the place of the one of its name."""
        self._logs[log.topic_partition] = log

    # --- failures

    def _log_failed(self, log: UnifiedLog, message: str) -> None:
        self.directories.fail(self.directories.of(log), message)

    def _directory_failed(self, directory: LogDirectory, message: str) -> None:
        """Have all logs in a directory go with it."""
        self.report(f"{message}; the directory is offline")
        for logs in (self._logs, self.future.logs):
            for log in list(logs.values()):
                if log.parent_directory == directory.path:
                    del logs[log.topic_partition]
                    log.go_offline(message)
                    if logs is self._logs:
                        self._offline.add(log.topic_partition)
        directory.release()
        if self.on_directory_failure is not None:
            self.on_directory_failure(directory)

    # --- settings and checkpoints

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """Have every log, now and later, forget producers that have been silent for `expiration_ms`."""
        self._producer_id_expiration_ms = expiration_ms
        for log in (*self._logs.values(), *self.future.logs.values()):
            log.producer_state.producer_id_expiration_ms = expiration_ms

    def checkpoint(self, name: str) -> None:
        """Write one kind of checkpoint, at once; see `CHECKPOINTS`."""
        plan = self.plan_checkpoint(name)
        plan.run()
        self.commit_checkpoint(plan)

    def plan_checkpoint(self, name: str) -> CheckpointPlan:
        """Return what writes one kind of checkpoint (see `CHECKPOINTS`) in all directories.

        Run it, in a thread, then call `commit_checkpoint`.
        """
        offset_of = CHECKPOINTS[name]
        by_directory: dict[str, dict[TopicPartition, int]] = {each.path: {} for each in self.directories}
        for log in self:
            offset = offset_of(log)
            if offset is not None:
                by_directory[log.parent_directory][log.topic_partition] = offset
        files = [(f"{each.path}/{name}", by_directory[each.path]) for each in self.directories.loaded]
        return self.checkpoints.plan(name, files)

    def commit_checkpoint(self, plan: CheckpointPlan) -> None:
        """Take note that a checkpoint was written; the directories where it was not go offline."""
        self.checkpoints.commit(plan)
        for path, error in plan.failures:
            self.directories.path_failed(path, f"cannot write `{path}`: {reason_of(error)}")

    # --- stop

    def close(self, *, clean: bool = True, broker_epoch: int = UNKNOWN_BROKER_EPOCH, now_ms: int) -> None:
        """Flush and close every log, write the checkpoints and the clean-stop marker, unlock.

        Without `clean` only files and locks are let go of, as a killed process would. A directory that fails
        on the way goes offline, without a marker.
        """
        if clean:
            self.each(lambda log: _close_log(log, now_ms), (*self, *self.future.logs.values()))
            for name in CHECKPOINTS:
                self.checkpoint(name)
            for directory in self.directories.loaded:
                try:
                    directory.write_clean_marker(broker_epoch)
                except OSError as error:
                    self.directories.fail(directory, f"cannot mark a clean stop: {reason_of(error)}")
        for log in (*self._logs.values(), *self.future.logs.values()):
            log.close_handlers()
        self.directories.release()

    def each(self, action: Callable[[UnifiedLog], int], logs: Sequence[UnifiedLog] | None = None) -> int:
        """Sum what an action gives for every log; one that fails has taken its directory offline."""
        total = 0
        for log in tuple(self) if logs is None else logs:
            # One that fails has reported it; its directory is offline then, with all logs in it.
            with suppress(KafkaError):
                total += action(log) if self.directories.of(log).is_online else 0
        return total


def _file_of(error: OSError, directory: str) -> str:
    """Return what to add to a message about a directory, so that it names the file that failed."""
    is_other = isinstance(error.filename, str) and error.filename != directory
    return f": `{error.filename}`" if is_other else ""


def _close_log(log: UnifiedLog, now_ms: int) -> int:
    log.close(now_ms=now_ms)
    return 1


def apply_retention(manager: LogManager, now_ms: int) -> int:
    """Apply retention to every log that is not only compacted; return how many segments went."""
    return manager.each(lambda log: delete_old_segments(log, now_ms))


def flush_plans(manager: LogManager, now_ms: int) -> list[tuple[UnifiedLog, FlushPlan]]:
    """Return what to sync now: logs that rolled, or whose `flush.ms` or `flush.messages` is due.

    Run each plan, in a thread, and call `commit_flush`, or the log's `failed` with its `OSError`.
    """
    plans: list[tuple[UnifiedLog, FlushPlan]] = []

    def add_plan(log: UnifiedLog) -> int:
        plan = plan_due_flush(log, now_ms)
        if plan is not None:
            plans.append((log, plan))
        return 0

    manager.each(add_plan)
    return plans


def expire_producers(manager: LogManager, now_ms: int) -> int:
    """Forget the producers that have been silent too long; return how many."""
    return sum(log.producer_state.remove_expired(now_ms) for log in manager)


def plan_deletions(manager: LogManager, now_ms: int) -> DeletionPlan | None:
    """Return what unlinks the files and directories that were marked deleted long enough ago, if any.

    Run it, in a thread, then call `commit_deletions`.
    """
    due = manager.deletions.take_due(now_ms)
    for log in manager:
        due += log.take_due_deletions(now_ms)
    return DeletionPlan(due) if due else None


def commit_deletions(manager: LogManager, plan: DeletionPlan) -> None:
    """Take the directories offline where something could not be unlinked."""
    for path, error in plan.failures:
        manager.directories.path_failed(path, f"cannot delete `{path}`: {reason_of(error)}")


class PresencePlan:
    """Replicas to look for; `missing` are those without a directory, once it was run."""

    __slots__ = ("_places", "missing")

    def __init__(self, places: Sequence[tuple[UnifiedLog, str]]) -> None:
        self.missing: list[UnifiedLog] = []
        self._places = places

    def run(self) -> None:
        """Look for the directories, in any thread."""
        self.missing = [log for log, directory in self._places if not os.path.isdir(directory)]


def plan_presence(manager: LogManager) -> PresencePlan:
    """Take log directories offline that are gone; return what looks for the replicas in the others.

    Run it, in a thread, then call `commit_presence`.
    """
    for directory in manager.directories.online:
        if not directory.is_in_place():
            manager.directories.fail(directory, f"log directory `{directory.path}` was removed or replaced")
    return PresencePlan([(log, log.directory) for log in _all_logs(manager)])


def commit_presence(manager: LogManager, plan: PresencePlan) -> None:
    """Take the log directories offline in which replicas are gone.

    One that was deleted or renamed in the meantime is not: that is looked at again, in the logs' own thread.
    """
    for log in plan.missing:
        # Anew for each: the first that fails takes the others of its directory with it.
        if log.failure is None and log in _all_logs(manager) and not os.path.isdir(log.directory):
            log.failed("find", FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


def _all_logs(manager: LogManager) -> tuple[UnifiedLog, ...]:
    return (*manager, *manager.future.logs.values())
