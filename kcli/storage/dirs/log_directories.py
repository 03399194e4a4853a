"""LogDirectories: the log directories (`log.dirs`) of one node, including the failed ones.

A directory that fails, at the start or later, stays offline; the node goes on with the others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.errors import KcliError, reason_of
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.dirs.log_directory import LogDirectory
from kcli.storage.disk import StorageShortage, is_shortage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kcli.storage.log.unified_log import UnifiedLog


class LogDirectories:
    """The directories at `paths`, in their order.

    `on_failure(directory, message)` is called once for each that fails, after it went offline.
    """

    __slots__ = ("_directories", "_last_failure", "_on_failure")

    def __init__(self, paths: Sequence[str], *, on_failure: Callable[[LogDirectory, str], None]) -> None:
        self._directories = [LogDirectory(path) for path in paths]
        self._on_failure = on_failure
        self._last_failure = "none is configured"

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    def __len__(self) -> int:
        return len(self._directories)

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.is_online]

    @property
    def offline(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if not directory.is_online]

    @property
    def loaded(self) -> list[LogDirectory]:
        """The online directories with all logs loaded: their checkpoints and markers may be written."""
        return [directory for directory in self._directories if directory.is_online and directory.is_loaded]

    def open(self, *, cluster_id: str, node_id: int, now_ms: int, new_id: Callable[[], bytes]) -> None:
        """Create, lock and identify the directories; one that fails goes offline.

        Raises `KcliError` if a directory is in use or belongs to another node, or if none is left.
        """
        try:
            for directory in self._directories:
                try:
                    directory.open(cluster_id=cluster_id, node_id=node_id, now_ms=now_ms, new_id=new_id)
                except OSError as error:
                    self.error_in(
                        directory, error, f"cannot use log directory `{directory.path}`: {reason_of(error)}"
                    )
            self.check()
        except KcliError:
            self.abandon()
            raise

    def check(self) -> None:
        """Raise `KcliError` if none is left, or if one is the copy of another."""
        online = self.online
        if not online:
            raise KcliError(f"no log directory is left: {self._last_failure}")
        if len({directory.directory_id for directory in online}) != len(online):
            raise KcliError("two log directories have the same directory.id", hint="one is a copy: delete it")

    def were_closed_in(self, broker_epoch: int) -> bool:
        """Whether the node of this epoch closed them all cleanly, according to the markers before a load."""
        try:
            return {each.clean_epoch() for each in self.online} == {broker_epoch}
        except OSError:
            return False  # Loading reports it.

    def of(self, log: UnifiedLog) -> LogDirectory:
        return self.at(log.parent_directory)

    def at(self, path: str) -> LogDirectory:
        return next(each for each in self._directories if each.path == path)

    def for_new_log(
        self, logs: Iterable[UnifiedLog], *, directory_id: bytes | None, preferred: str | None
    ) -> LogDirectory:
        """Return the directory with that path or id if it is online, else the one with the fewest of `logs`.

        Raises `KafkaError` KAFKA_STORAGE_ERROR if none is online.
        """
        online = self.online
        for directory in online:
            if directory.path == preferred or directory.directory_id == directory_id:
                return directory
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "all log directories are offline")
        if len(online) == 1:
            return online[0]  # Counting the logs for each new one would take quadratic time.
        counts = Counter(log.parent_directory for log in logs)
        return min(online, key=lambda directory: counts[directory.path])

    def fail(self, directory: LogDirectory, message: str) -> None:
        """Take a directory offline until the next start."""
        if directory.is_online:
            directory.is_online = False
            self._last_failure = message
            self._on_failure(directory, message)

    def error_in(self, directory: LogDirectory, error: OSError, message: str) -> None:
        """Take a directory offline for an I/O error; raise `StorageShortage` if the disk is sound."""
        if is_shortage(error):
            raise StorageShortage(message, error) from error
        self.fail(directory, message)

    def error_at(self, path: str, error: OSError, message: str) -> None:
        """Do the same with the directory of a path."""
        for directory in self._directories:
            if path.startswith(f"{directory.path}/"):
                self.error_in(directory, error, message)

    def abandon(self) -> None:
        """Undo `open`, if nothing else was done since."""
        for directory in self._directories:
            directory.abandon()

    def release(self) -> None:
        for directory in self._directories:
            directory.release()
