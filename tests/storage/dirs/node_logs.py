"""The logs of a node, driven by verbs: start, stop, kill, create, fill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import random_uuid
from kcli.storage.checkpoints import read_offsets
from kcli.storage.dirs.log_directory import LogDirectory
from kcli.storage.dirs.log_manager import LogManager
from kcli.storage.log.log_config import LogConfig
from kcli.storage.log.unified_log import UnifiedLog
from tests.storage.log_harness import NOW_MS, batch_of

TOPIC_ID = random_uuid()
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100, file_delete_delay_ms=60_000)


class NodeLogs:
    """The logs of one node under a directory, through starts and stops."""

    def __init__(self, root: Path, directories: int = 1) -> None:
        self.paths = [root / f"d{number}" for number in range(directories)]
        self.reports: list[str] = []
        self.failed: list[LogDirectory] = []
        self.manager = self._new_manager()

    def _new_manager(self) -> LogManager:
        return LogManager(
            [str(path) for path in self.paths],
            node_id=1,
            cluster_id="cluster",
            default_config=SMALL,
            report=self.reports.append,
            on_directory_failure=self.failed.append,
        )

    def start(self, keep: Callable[[TopicPartition, bytes | None], bool] | None = None) -> LogManager:
        """Start with a new manager."""
        self.manager = self._new_manager()
        self.manager.open(now_ms=NOW_MS)
        self.manager.load(now_ms=NOW_MS, keep=keep)
        return self.manager

    def stop(self) -> None:
        self.manager.close(now_ms=NOW_MS, broker_epoch=5)

    def kill(self) -> None:
        self.manager.close(clean=False, now_ms=NOW_MS)

    def create(self, topic: str = "orders", partition: int = 0, **arguments: object) -> UnifiedLog:
        return self.manager.get_or_create(topic, partition, topic_id=TOPIC_ID, now_ms=NOW_MS, **arguments)  # type: ignore[arg-type]

    def log(self, topic: str = "orders", partition: int = 0) -> UnifiedLog:
        log = self.manager.get(topic, partition)
        assert log is not None
        return log

    def delete_files(self, now_ms: int) -> int:
        """Delete the due files and directories; return their number."""
        plan = self.manager.plan_deletions(now_ms)
        if plan is None:
            return 0
        plan.run()
        self.manager.commit_deletions(plan, now_ms)
        return len(plan.paths)

    def offsets(self, name: str, directory: int = 0) -> dict[TopicPartition, int]:
        return read_offsets(str(self.paths[directory] / name))


def fill(log: UnifiedLog, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(batch_of(b"x" * 50), leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
