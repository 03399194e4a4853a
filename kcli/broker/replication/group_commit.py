"""GroupCommit: fsyncs in threads, at most one at a time for each log, shared by all that wait for one.

The records of a log with `flush.messages` must be on disk before a write is answered. Appends continue
during an fsync and share the next one, so many producers cost no more fsyncs than one. Indexes and small
files follow with the next flush of housekeeping: after an unclean stop they are made again from the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.broker.waiting.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.storage.log.local_log import FlushPlan
    from kcli.storage.log.unified_log import UnifiedLog

FLUSH_THREADS = 2


class GroupCommit:
    """The running fsyncs of one node."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._running: dict[UnifiedLog, trio.Event] = {}
        self._limiter: trio.CapacityLimiter | None = None

    async def flush(self, log: UnifiedLog) -> None:
        """Return when all current records of the log are on disk. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        offset = log.log_end_offset
        while log.synced_offset < offset:
            running = self._running.get(log)
            if running is not None:
                # It may have begun before our records; then the next fsync covers them.
                await running.wait()
                continue
            plan = log.plan_sync()
            if plan is None:
                return
            await self.run(log, plan)

    async def run(self, log: UnifiedLog, plan: FlushPlan) -> None:
        """Run a flush plan in a thread and commit it. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(FLUSH_THREADS)
        now_ms = self._wall_ms()
        done = self._running[log] = trio.Event()
        try:
            await run_in_thread(plan.run, limiter=self._limiter)
        except OSError as error:
            raise log.failed("flush", error) from error
        finally:
            if self._running.get(log) is done:
                del self._running[log]
            done.set()
        log.commit_flush(plan, now_ms=now_ms)
