"""Housekeeping: what a node does to its logs from time to time (Kafka's background scheduler).

| job | interval |
|---|---|
| flush what `flush.ms`, `flush.messages` or a roll asks for | every tick |
| delete files and directories whose delay has passed | every tick |
| write the high watermarks | `replica.high.watermark.checkpoint.interval.ms` |
| write the recovery points | `log.flush.offset.checkpoint.interval.ms` |
| write the log starts | `log.flush.start.offset.checkpoint.interval.ms` |
| apply retention | `log.retention.check.interval.ms`, first after `log.initial.task.delay.ms` |
| forget idle producers | `producer.id.expiration.check.interval.ms` |

Each job runs on its own time and its own failure is its own: it is logged, and the next run is on time. The
work itself is synchronous, in pieces; only the fsyncs run in a thread.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kcli.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kcli.broker.config import BrokerConfig
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.storage.log_manager import LogManager

TICK_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Job:
    """Something to do every `interval_ms`, first at `due_ms`."""

    __slots__ = ("due_ms", "interval_ms", "name", "run")

    def __init__(
        self, name: str, interval_ms: int, due_ms: int, run: Callable[[int], Awaitable[None]]
    ) -> None:
        self.name = name
        self.interval_ms = interval_ms
        self.due_ms = due_ms
        self.run = run


class Housekeeping:
    """The periodic jobs of one node; `wall_ms` is the clock that records and files are dated by."""

    def __init__(
        self,
        log_manager: LogManager,
        replica_manager: ReplicaManager,
        config: BrokerConfig,
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._wall_ms = wall_ms
        now_ms = wall_ms()
        first_ms = now_ms + config.log_initial_task_delay_ms
        self._jobs = [
            Job("flush", 0, now_ms, self._flush),
            Job("file deletion", 0, now_ms, self._delete_files),
            self._checkpoint_job(
                "high watermark checkpoint",
                config.replica_high_watermark_checkpoint_interval_ms,
                log_manager.checkpoint_high_watermarks,
            ),
            self._checkpoint_job(
                "recovery point checkpoint",
                config.log_flush_offset_checkpoint_interval_ms,
                log_manager.checkpoint_recovery_points,
            ),
            self._checkpoint_job(
                "log start checkpoint",
                config.log_flush_start_offset_checkpoint_interval_ms,
                log_manager.checkpoint_log_start_offsets,
            ),
            Job("retention", config.log_retention_check_interval_ms, first_ms, self._apply_retention),
            Job(
                "producer expiry",
                config.producer_id_expiration_check_interval_ms,
                now_ms + config.producer_id_expiration_check_interval_ms,
                self._expire_producers,
            ),
        ]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do what is due, every second, for ever."""
        task_status.started()
        while True:
            await trio.sleep(TICK_SECONDS)
            await self.tick(self._wall_ms())

    async def tick(self, now_ms: int) -> None:
        """Run the jobs that are due at `now_ms`."""
        for job in self._jobs:
            if job.due_ms <= now_ms:
                job.due_ms = now_ms + job.interval_ms
                try:
                    await job.run(now_ms)
                except Exception:
                    _log.exception("%s failed", job.name)

    def _checkpoint_job(self, name: str, interval_ms: int, write: Callable[[], None]) -> Job:
        async def run(now_ms: int) -> None:
            write()

        return Job(name, interval_ms, self._wall_ms() + interval_ms, run)

    async def _flush(self, now_ms: int) -> None:
        for log, plan in self._log_manager.flush_plans(now_ms):
            try:
                await self._replica_manager.group_commit.run(log, plan)
            except KafkaError as error:
                # Its directory is offline now; the plans of the others are still to be run.
                _log.error("%s", error.message)

    async def _delete_files(self, now_ms: int) -> None:
        self._log_manager.delete_files(now_ms)

    async def _apply_retention(self, now_ms: int) -> None:
        count = self._log_manager.delete_old_segments(now_ms)
        if count:
            _log.info("retention deleted %d segments", count)
            for key in self._replica_manager.partitions:
                self._replica_manager.purgatory.touch(key)

    async def _expire_producers(self, now_ms: int) -> None:
        self._log_manager.expire_producers(now_ms)
