"""Compaction of log directories without a broker: `kcli broker compact --log-dirs`.

A real run locks the directories, as a broker does, and refuses those whose broker was not stopped in order:
only a start recovers them. A dry run takes no lock and writes nothing there; it works on views of the
replicas, so a broker may write them meanwhile, and takes the high watermarks of the last checkpoint.

The configurations of topics are those in the metadata log, over the defaults of a broker.
"""

from __future__ import annotations

import os
import shutil
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.metadata.metadata_log import MetadataLog
from kcli.broker.metadata.metadata_replay import replay
from kcli.broker.node.compaction_targets import compacted_among
from kcli.broker.node.log_cleaner import LogCleaner
from kcli.broker.node.replica_view import view_of
from kcli.broker.waiting.pause_gate import PauseGate
from kcli.broker.waiting.timer import wall_ms
from kcli.errors import KcliError, reason_of
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.topics import METADATA_TOPIC
from kcli.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offsets,
)
from kcli.storage.dirs.log_directory import read_identity
from kcli.storage.dirs.log_manager import LogManager
from kcli.storage.log.local_log import DeletionPlan
from kcli.storage.log.log_config import LogSettings
from kcli.storage.log_paths import parse_replica_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.node.compaction_report import CompactionReport
    from kcli.broker.node.compaction_targets import CompactionTargets
    from kcli.broker.node.log_cleaner import RoundOptions
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.dirs.log_directory import MetaProperties
    from kcli.storage.log.log_config import LogConfig
    from kcli.storage.log.unified_log import UnifiedLog

_FOREVER_MS = 2**62


class Failure(NamedTuple):
    """A replica that was not compacted, and why."""

    topic_partition: TopicPartition
    message: str


class LogDirectoriesAtRest:
    """The log directories of one node; `report` takes a line for each event worth telling.

    Raises `KcliError` if they are not those of one node, or their metadata log cannot be read.
    """

    def __init__(self, paths: Sequence[str], report: Callable[[str], None]) -> None:
        self._paths = [os.path.abspath(path) for path in paths]
        self._report = report
        self._identity = _identity_of(self._paths)
        image = _image_in(self._paths)
        node_id = self._identity.node_id
        config = BrokerConfig.from_properties({"node.id": str(node_id)})
        self._config = config.with_dynamic(
            broker=image.config(ConfigResourceType.BROKER, str(node_id)),
            default=image.config(ConfigResourceType.BROKER, ""),
        )
        self._image = image

    def compact(
        self, targets: CompactionTargets, options: RoundOptions
    ) -> tuple[list[CompactionReport], list[Failure]]:
        """Compact the chosen replicas. Raises `KcliError` if that is impossible for all of them."""
        if options.is_dry_run:
            return self._foresee(targets, options)
        manager = LogManager(
            self._paths,
            default_config=self._config.log_config({}),
            config_for=self._log_config,
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
            report=self._report,
            **self._owner,
        )
        epoch = self._open(manager)
        try:
            manager.load(now_ms=wall_ms())
            logs = [*manager]
            targets.check(compacted_among(logs))
            done = self._compact(logs, manager, targets, options)
            _delete_replaced(logs)
        finally:
            manager.close(broker_epoch=epoch, now_ms=wall_ms())
        return done

    def _foresee(
        self, targets: CompactionTargets, options: RoundOptions
    ) -> tuple[list[CompactionReport], list[Failure]]:
        """Do a dry run. Raises `KcliError`."""
        with TemporaryDirectory(prefix="kcli-compact-") as directory:
            for number in range(len(self._paths)):
                os.mkdir(f"{directory}/{number:04}")

            def named(message: str) -> str:
                """Name the files themselves in the place of their views."""
                for number, path in enumerate(self._paths):
                    message = message.replace(f"{directory}/{number:04}", path)
                return message

            try:
                logs = [*self._views(directory, targets)]
                reports, failures = self._compact(logs, LogManager([], **self._owner), targets, options)
            except OSError as error:
                raise unreadable(error, named(str(error.filename or ""))) from error
            except (KcliError, CorruptRecord) as error:
                raise KcliError(named(str(error)), hint=getattr(error, "hint", None)) from error
            return reports, [each._replace(message=named(each.message)) for each in failures]

    def _open(self, manager: LogManager) -> int:
        """Lock the directories; return the epoch of the broker that closed them in order.

        Raises `KcliError`.
        """
        manager.open(now_ms=wall_ms())
        epochs = []
        for directory in manager.directories:
            epoch = directory.clean_epoch()
            if epoch is None:
                manager.directories.abandon()
                raise KcliError(
                    f"the broker of `{directory.path}` was not stopped in order",
                    hint="start it and stop it; `--dry-run` looks at the directory as it is",
                )
            epochs.append(epoch)
        return min(epochs)

    @property
    def _owner(self) -> dict[str, Any]:
        return {"node_id": self._identity.node_id, "cluster_id": self._identity.cluster_id}

    def _settings(self, topic: str) -> LogSettings:
        """Return those of a view; what is wrong with its copies of small files is of no interest."""
        return LogSettings(
            config=self._log_config(topic),
            report=lambda message: None,
            on_failure=lambda path, message: None,
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
        )

    def _log_config(self, topic: str) -> LogConfig:
        return self._config.log_config(self._image.topic_config(topic))

    def _compact(
        self,
        logs: Sequence[UnifiedLog],
        manager: LogManager,
        targets: CompactionTargets,
        options: RoundOptions,
    ) -> tuple[list[CompactionReport], list[Failure]]:
        cleaner = LogCleaner(manager, config=lambda: self._config, wall_ms=wall_ms, gate=PauseGate())
        reports: list[CompactionReport] = []
        failures: list[Failure] = []
        chosen = targets.select(logs)
        options.progress.expect(len(chosen))
        for log in chosen:
            options.progress.begin_log(log.topic_partition)
            try:
                reports.append(cleaner.clean_here(log, options))
            except (KcliError, CorruptRecord) as error:
                failures.append(Failure(log.topic_partition, str(error)))
        return reports, failures

    def _replicas(self) -> dict[TopicPartition, tuple[int, str]]:
        """Return the replicas: the number of the log directory, and the name in it. Raises `OSError`."""
        replicas = {}
        for number, path in enumerate(self._paths):
            for name in sorted(os.listdir(path)):
                parsed = parse_replica_directory(name)
                if (
                    parsed is not None
                    and not parsed.suffix
                    and parsed.topic_partition.topic != METADATA_TOPIC
                ):
                    replicas[parsed.topic_partition] = number, name
        return replicas

    def _views(self, directory: str, targets: CompactionTargets) -> Iterator[UnifiedLog]:
        """Yield a view of each chosen replica, below a directory. Raises `KcliError` and `OSError`."""
        replicas = self._replicas()
        compacted = {key: self._log_config(key.topic).is_compacted for key in replicas}
        targets.check(compacted)
        for number, path in enumerate(self._paths):
            starts = read_offsets(f"{path}/{LOG_START_OFFSET_CHECKPOINT}")
            high_watermarks = read_offsets(f"{path}/{REPLICATION_OFFSET_CHECKPOINT}")
            clean = read_offsets(f"{path}/{CLEANER_OFFSET_CHECKPOINT}")
            for key, (place, name) in replicas.items():
                if place != number or not compacted[key] or not targets.has(key):
                    continue
                view, settings = f"{directory}/{number:04}/{name}", self._settings(key.topic)
                os.mkdir(view)
                log = view_of(f"{path}/{name}", view, key, settings=settings, now_ms=wall_ms())
                if log is not None:
                    log.log_start_offset = max(log.log_start_offset, starts.get(key, 0))
                    log.set_high_watermark(high_watermarks.get(key, 0))
                    log.cleaner_offset = clean.get(key)
                    yield log


def unreadable(error: OSError, path: str) -> KcliError:
    """Return the error about a file or directory that cannot be read."""
    is_denied = isinstance(error, PermissionError)
    hint = (
        "run the command as the user of the broker, or let this user read the directory"
        if is_denied
        else None
    )
    return KcliError(f"cannot read `{path}`: {reason_of(error)}", hint=hint)


def _identity_of(paths: Sequence[str]) -> MetaProperties:
    """Return whose the log directories are. Raises `KcliError` unless they are those of one node."""
    found: MetaProperties | None = None
    for path in paths:
        try:
            identity = read_identity(path)
        except OSError as error:
            raise unreadable(error, path) from error
        if identity is None or identity.node_id is None or identity.cluster_id is None:
            raise KcliError(
                f"`{path}` is not a log directory of a node",
                hint="those of kcli are below its data directory: kcli-data/node-1",
            )
        if found is not None and (found.node_id, found.cluster_id) != (identity.node_id, identity.cluster_id):
            raise KcliError(f"`{paths[0]}` and `{path}` belong to different nodes")
        found = identity
    if found is None:
        raise KcliError("no log directory is named")
    return found


def _image_in(paths: Sequence[str]) -> MetadataImage:
    """Return the metadata in the log directories. Raises `KcliError`."""
    directory = next((path for path in paths if os.path.isdir(f"{path}/{METADATA_TOPIC}-0")), None)
    if directory is None:
        raise KcliError(
            f"there is no `{METADATA_TOPIC}-0` in {', '.join(f'`{path}`' for path in paths)}",
            hint="it tells which topics are compacted: name the directory that has it, too",
        )
    # A copy, because opening the log repairs its end.
    with TemporaryDirectory(prefix="kcli-metadata-") as copy:
        try:
            os.mkdir(f"{copy}/{METADATA_TOPIC}-0")
            for name in os.listdir(f"{directory}/{METADATA_TOPIC}-0"):
                # Without its mode: the copy is written.
                shutil.copyfile(f"{directory}/{METADATA_TOPIC}-0/{name}", f"{copy}/{METADATA_TOPIC}-0/{name}")
        except OSError as error:
            raise unreadable(error, str(error.filename or directory)) from error
        log = MetadataLog.open(copy, node_id=-1, wall_ms=wall_ms, report=lambda message: None)
        try:
            return replay(log.replay())
        finally:
            log.close()


def _delete_replaced(logs: Sequence[UnifiedLog]) -> None:
    """Unlink the replaced segments now: nobody reads them. Raises `KcliError`."""
    for log in logs:
        plan = DeletionPlan(log.take_due_deletions(_FOREVER_MS))
        plan.run()
        for path, error in plan.failures:
            raise KcliError(f"cannot delete `{path}`: {reason_of(error)}")


def compact_directories(
    paths: Sequence[str], targets: CompactionTargets, options: RoundOptions, *, report: Callable[[str], None]
) -> dict[str, Any]:
    """Compact replicas in the log directories of one node; return what `log.compact` of a broker returns."""
    reports, failures = LogDirectoriesAtRest(paths, report).compact(targets, options)
    return {
        "partitions": [each.row(None) for each in reports],
        "failures": [
            {"error": f"did not compact {each.topic_partition}: {each.message}", "hint": None}
            for each in failures
        ],
    }
