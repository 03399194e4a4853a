"""Housekeeping: the periodic work of a node on its logs (Kafka's background scheduler).

| job | interval |
|---|---|
| flush as `flush.ms`, `flush.messages` or a roll demand | every tick |
| delete files and directories after their delay | every tick |
| open replicas that lacked descriptors or memory | every tick |
| check that the directories still exist | `replica.high.watermark.checkpoint.interval.ms` |
| write the high watermarks | `replica.high.watermark.checkpoint.interval.ms` |
| write the recovery points | `log.flush.offset.checkpoint.interval.ms` |
| write the log starts | `log.flush.start.offset.checkpoint.interval.ms` |
| apply retention | `log.retention.check.interval.ms`, first after `log.initial.task.delay.ms` |
| load key and trust stores that have changed | 10 s |
| expire idle producers | `producer.id.expiration.check.interval.ms` |

A failing job is logged and runs again on time. Due times count from the start, so setting the clock back
stops no job; records and files are dated by the wall clock. The work is synchronous, in pieces; fsyncs and
unlinks run in a thread.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from kcli.broker.waiting.pause_gate import PauseGate
from kcli.broker.waiting.threads import run_in_thread
from kcli.protocol.error_codes import KafkaError
from kcli.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from kcli.storage.disk import StorageShortage, keep_spare_descriptors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.storage.dirs.log_manager import LogManager

TICK_SECONDS = 1.0
STORE_CHECK_MS = 10_000
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Job:
    """A task every `interval_ms`, first `due_ms` after the start."""

    name: str = field(kw_only=False)
    interval_ms: int
    due_ms: int
    run: Callable[[], Awaitable[None]]


def _store_job(look_for_stores: Callable[[], None]) -> Job:
    async def run() -> None:
        look_for_stores()

    return Job("look for key stores", interval_ms=STORE_CHECK_MS, due_ms=STORE_CHECK_MS, run=run)


class Housekeeping:
    """The periodic jobs of one node; `wall_ms` dates records and files.

    `replicas_back` is called after replicas were opened that had lacked descriptors or memory.
    `look_for_stores`, if there are any, loads key and trust stores whose files have changed.
    """

    def __init__(
        self,
        log_manager: LogManager,
        *,
        replica_manager: ReplicaManager,
        config: BrokerConfig,
        wall_ms: Callable[[], int],
        gate: PauseGate | None = None,
        replicas_back: Callable[[], None] = lambda: None,
        look_for_stores: Callable[[], None] | None = None,
    ) -> None:
        self._gate = gate or PauseGate()
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._wall_ms = wall_ms
        self._replicas_back = replicas_back
        self._jobs = self._all_jobs(config)
        if look_for_stores is not None:
            self._jobs.append(_store_job(look_for_stores))

    def _all_jobs(self, config: BrokerConfig) -> list[Job]:
        check_ms = config.replica_high_watermark_checkpoint_interval_ms
        expiry_ms = config.producer_id_expiration_check_interval_ms
        return [
            Job("flush", interval_ms=0, due_ms=0, run=self._flush),
            Job("file deletion", interval_ms=0, due_ms=0, run=self._delete_files),
            Job("opening of replicas", interval_ms=0, due_ms=0, run=self._open_lacking),
            Job("log directory check", interval_ms=check_ms, due_ms=check_ms, run=self._look_for_directories),
            self._checkpoint_job("high watermark checkpoint", check_ms, REPLICATION_OFFSET_CHECKPOINT),
            self._checkpoint_job(
                "recovery point checkpoint",
                config.log_flush_offset_checkpoint_interval_ms,
                RECOVERY_POINT_CHECKPOINT,
            ),
            self._checkpoint_job(
                "log start checkpoint",
                config.log_flush_start_offset_checkpoint_interval_ms,
                LOG_START_OFFSET_CHECKPOINT,
            ),
            Job(
                "retention",
                interval_ms=config.log_retention_check_interval_ms,
                due_ms=config.log_initial_task_delay_ms,
                run=self._apply_retention,
            ),
            Job("producer expiry", interval_ms=expiry_ms, due_ms=expiry_ms, run=self._expire_producers),
        ]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run due jobs every second, until cancelled."""
        started = trio.current_time()
        task_status.started()
        while True:
            await trio.sleep(TICK_SECONDS)
            await self._gate.passed()
            await self.tick(int((trio.current_time() - started) * 1000))

    async def tick(self, elapsed_ms: int) -> None:
        """Run the jobs that are due `elapsed_ms` after the start."""
        keep_spare_descriptors()
        for job in self._jobs:
            if job.due_ms <= elapsed_ms:
                job.due_ms = elapsed_ms + job.interval_ms
                try:
                    await job.run()
                except StorageShortage as error:
                    _log.error("%s did not end, and is tried again: %s", job.name, error.message)
                except Exception:
                    _log.exception("%s failed", job.name)

    def _checkpoint_job(self, name: str, interval_ms: int, checkpoint: str) -> Job:
        async def run() -> None:
            plan = self._log_manager.plan_checkpoint(checkpoint)
            await run_in_thread(plan.run)
            self._log_manager.commit_checkpoint(plan)

        return Job(name, interval_ms=interval_ms, due_ms=interval_ms, run=run)

    async def _flush(self) -> None:
        for log, plan in self._log_manager.plan_flushes(self._wall_ms()):
            try:
                await self._replica_manager.group_commit.run(log, plan)
            except KafkaError as error:
                # Its directory is offline now; the plans of other directories still run.
                _log.error("%s", error.message)

    async def _open_lacking(self) -> None:
        if self._replica_manager.open_lacking():
            self._replicas_back()

    async def _look_for_directories(self) -> None:
        plan = self._log_manager.plan_directory_check()
        await run_in_thread(plan.run)
        self._log_manager.commit_directory_check(plan)

    async def _delete_files(self) -> None:
        plan = self._log_manager.plan_deletions(self._wall_ms())
        if plan is not None:
            await run_in_thread(plan.run)
            self._log_manager.commit_deletions(plan, self._wall_ms())

    async def _apply_retention(self) -> None:
        count = self._log_manager.apply_retention(self._wall_ms())
        if count:
            _log.info("retention deleted %d segments", count)
            for key, partition in self._replica_manager.partitions.items():
                self._replica_manager.purgatory.touch(key)
                partition.tell_offsets()

    async def _expire_producers(self) -> None:
        self._log_manager.expire_producers(self._wall_ms())
