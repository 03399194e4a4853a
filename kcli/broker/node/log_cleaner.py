"""LogCleaner: compacts the logs of one node in the background (Kafka's `LogCleaner`, `LogCleanerManager`).

Up to `log.cleaner.threads` logs are compacted at a time, first the one with the largest share of dirty bytes.
When none is due, the cleaner looks again after `log.cleaner.backoff.ms`. The event loop chooses, plans and
puts the new segments in place; a thread does the rest, on closed segments that nobody changes.

| state of a log | becomes | when |
|---|---|---|
| idle | running | it is due, or `kcli broker compact` names it |
| running | idle | the round is done, or void: the log was truncated, moved or deleted, is not compacted any \
more, its directory failed, or the node stops |
| running | uncleanable | an unexpected error; until the node starts again |

A thread works in small steps and sleeps between them; it waits while the node is paused.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import trio

from kcli.broker.node.cleaner_throttle import CleanerThrottle
from kcli.broker.node.compaction_progress import CompactionProgress
from kcli.broker.node.compaction_report import CompactionReport
from kcli.broker.waiting.threads import run_in_thread
from kcli.protocol.error_codes import KafkaError
from kcli.storage.checkpoints import CLEANER_OFFSET_CHECKPOINT
from kcli.storage.cleaning.cleanable import LogToClean
from kcli.storage.cleaning.cleaning_job import plan_job
from kcli.storage.cleaning.cleaning_run import CleaningDiscarded, run_job
from kcli.storage.cleaning.compaction import Compaction
from kcli.storage.disk import StorageShortage
from kcli.storage.index.index_file import CorruptIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.waiting.pause_gate import PauseGate
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.cleaning.cleanable import Cleanable
    from kcli.storage.cleaning.cleaning_run import CleanedSegments, CleaningRun
    from kcli.storage.dirs.log_manager import LogManager
    from kcli.storage.log.log_cleaning import Cleaning
    from kcli.storage.log.unified_log import UnifiedLog

LEAST_READ_BYTES = 16 * 1024
"""Less than this is read at a time whatever `log.cleaner.io.buffer.size` says: it would only be slow."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOptions:
    """How to do a round, beside what the configuration of the log says."""

    now_ms: int
    """The time from which the ages of records and tombstones count."""
    ignores_lag: bool = False
    is_dry_run: bool = False
    rolls: bool = False
    """Whether the active segment is closed first; a dry run only counts it as closed."""
    is_given_up: Callable[[], bool] = lambda: False
    """Whether nobody wants the result any more; asked in a thread."""
    progress: CompactionProgress = field(default_factory=CompactionProgress)


class _Round:
    """One round on one log: how much there was to clean, and the work on it, None if there is nothing."""

    __slots__ = ("cleanable", "compaction", "is_dry", "log", "run")

    def __init__(self, log: UnifiedLog, cleanable: Cleanable, *, is_dry: bool) -> None:
        self.log = log
        self.cleanable = cleanable
        self.is_dry = is_dry
        self.run: CleaningRun | None = None
        self.compaction: Compaction | None = None

    def report(self) -> CompactionReport:
        return CompactionReport.of(self.log.topic_partition, self.cleanable, self.run)


class LogCleaner:
    """Compacts the logs of one node; `wall_ms` dates what is done in the background."""

    def __init__(
        self,
        log_manager: LogManager,
        *,
        config: Callable[[], BrokerConfig],
        wall_ms: Callable[[], int],
        gate: PauseGate,
    ) -> None:
        self._log_manager = log_manager
        self._config = config
        self._wall_ms = wall_ms
        self._gate = gate
        self._throttle = CleanerThrottle(lambda: self._config().log_cleaner_io_max_bytes_per_second)
        self._running: list[Cleaning] = []
        self._uncleanable: dict[TopicPartition, UnifiedLog] = {}
        self._due: list[UnifiedLog] = []
        """What was due when all logs were measured and waits for its turn, the next one last."""
        self._woken = trio.Event()
        self._ended = trio.Event()
        """Set, and replaced, when a round ends."""

    async def run(self) -> None:
        """Compact what is due, until cancelled."""
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    await self._gate.passed()
                    self._woken = trio.Event()
                    while (due := self._next_round()) is not None:
                        nursery.start_soon(self._work_in_background, due)
                    with trio.move_on_after(self._config().log_cleaner_backoff_seconds):
                        await self._woken.wait()
            finally:
                # The nursery waits for the threads, which look at the flag and not at the cancellation.
                for cleaning in self._running:
                    cleaning.discard()

    def wake(self) -> None:
        """Look for logs to compact now: a configuration has changed."""
        self._woken.set()

    def due(self, now_ms: int) -> UnifiedLog | None:
        """Return the log with the largest share of dirty bytes among those that are due, None without one."""
        logs = self._all_due(now_ms)
        return logs[-1] if logs else None

    def _all_due(self, now_ms: int) -> list[UnifiedLog]:
        """Return the logs that are due, the one with the largest share of dirty bytes last."""
        ratios = [(ratio, log) for log in self._log_manager if (ratio := self._due_ratio(log, now_ms)) > 0]
        ratios.reverse()  # The first of equal ones comes last.
        return [log for _, log in sorted(ratios, key=itemgetter(0))]

    def _due_ratio(self, log: UnifiedLog, now_ms: int) -> float:
        """Return the share of dirty bytes of a log that is due, 0 if it is not."""
        if not self._may_clean(log):
            return 0.0
        try:
            cleanable = LogToClean(log).measure(now_ms)
        except OSError as error:
            _log.error("%s", log.failed("measure", error).message)
            return 0.0
        if cleanable.has_invalid_checkpoint:
            log.cleaner_offset = cleanable.first_dirty
        is_eligible = cleanable.is_eligible(log.config.min_cleanable_dirty_ratio)
        return cleanable.ratio if is_eligible else 0.0

    def _take_due(self, now_ms: int) -> UnifiedLog | None:
        """Return the next log to compact, None if none is due.

        All logs are measured only when those are through that were due the last time.
        """
        present = {*map(id, self._log_manager)} if self._due else set()
        while self._due:
            log = self._due.pop()
            if id(log) in present and self._due_ratio(log, now_ms) > 0:
                return log
        self._due = self._all_due(now_ms)
        return self._due.pop() if self._due else None

    def _may_clean(self, log: UnifiedLog) -> bool:
        return (
            log.config.is_compacted
            and len(log.segments) > 1
            # Most logs are clean, and measuring each segment of all would hold up the loop.
            and not log.segments.active.base_offset <= (log.cleaner_offset or 0) <= log.log_end_offset
            and log.cleaning is None
            and log.failure is None
            and self._uncleanable.get(log.topic_partition) is not log
        )

    def _next_round(self) -> _Round | None:
        """Begin the round that is due most, None without one or without a free thread."""
        if len(self._running) >= self._config().log_cleaner_threads:
            return None
        options = RoundOptions(now_ms=self._wall_ms())
        while (log := self._take_due(options.now_ms)) is not None:
            try:
                begun = self._begin(log, options)
            except CorruptIndex as error:
                self._give_up(log, error)
            except KafkaError as error:
                _log.error("%s", error.message)
                return None
            else:
                return begun if begun.run is not None else None
        return None

    def _begin(self, log: UnifiedLog, options: RoundOptions) -> _Round:
        """Plan a round and tie it to its log, which makes it void when it changes.

        Raises `CorruptIndex`, and `KafkaError` KAFKA_STORAGE_ERROR.
        """
        config = self._config()
        threads = config.log_cleaner_threads
        map_bytes = config.log_cleaner_dedupe_buffer_size // threads
        try:
            cleanable = LogToClean(log).measure(
                options.now_ms,
                ignore_lag=options.ignores_lag,
                as_if_rolled=options.rolls and options.is_dry_run,
            )
            job = plan_job(
                log,
                cleanable.first_dirty,
                options.now_ms,
                map_bytes=int(map_bytes * min(config.log_cleaner_io_buffer_load_factor, 1.0)),
                read_bytes=max(config.log_cleaner_io_buffer_size // threads // 2, LEAST_READ_BYTES),
                cleanable=cleanable,
            )
        except OSError as error:
            raise log.failed("compact", error) from error
        begun = _Round(log, cleanable, is_dry=options.is_dry_run)
        if job is not None:
            begun.run = run_job(
                job,
                throttle=partial(self._spend, job.cleaning, options),
                is_discarded=options.is_given_up,
                is_dry=options.is_dry_run,
            )
            begun.compaction = Compaction(log, job)
            self._running.append(job.cleaning)
            options.progress.begin_round(begun.run)
        return begun

    def _spend(self, cleaning: Cleaning, options: RoundOptions, size: int) -> None:
        """Slow down a thread that has read or written so many bytes."""
        options.progress.worked()
        self._throttle.spend(
            size,
            is_held=lambda: self._gate.is_closed,
            is_discarded=lambda: cleaning.is_discarded or options.is_given_up(),
        )

    async def _work_in_background(self, begun: _Round) -> None:
        """Do a round. Whatever goes wrong is logged, and concerns only this log."""
        log = begun.log
        try:
            await self._work(begun)
        except CleaningDiscarded as error:
            _log.info("the compaction of %s ended early: %s", log.topic_partition, error.message)
        except StorageShortage as error:
            _log.error("%s; compaction is tried again", error.message)
            return
        except KafkaError as error:
            _log.error("%s", error.message)
        except Exception as error:
            self._give_up(log, error)
        self._woken.set()

    def _give_up(self, log: UnifiedLog, error: Exception) -> None:
        """Let a log be until the node starts again."""
        self._uncleanable[log.topic_partition] = log
        _log.error(
            "%s is not compacted any more until the node starts again", log.topic_partition, exc_info=error
        )

    async def _work(self, begun: _Round) -> None:
        """Do a round that was begun.

        Raises `CleaningDiscarded`, `CorruptRecord`, and `KafkaError` KAFKA_STORAGE_ERROR.
        """
        run, compaction = begun.run, begun.compaction
        if run is None or compaction is None:
            return
        with self._ending(begun.log, compaction):
            if begun.is_dry:
                await run_in_thread(partial(_count, run))
                return
            cleaned: CleanedSegments | None = None
            while (cleaned := await run_in_thread(partial(_step, run, cleaned))) is not None:
                compaction.swap(cleaned, self._wall_ms())
            self._finish(compaction, run)
        plan = self._log_manager.plan_checkpoint(CLEANER_OFFSET_CHECKPOINT)
        await run_in_thread(plan.run)
        self._log_manager.commit_checkpoint(plan)

    def _work_here(self, begun: _Round) -> None:
        """Do a round that was begun in this thread; raises what `_work` raises."""
        run, compaction = begun.run, begun.compaction
        if run is None or compaction is None:
            return
        with self._ending(begun.log, compaction):
            if begun.is_dry:
                _count(run)
                return
            cleaned: CleanedSegments | None = None
            while (cleaned := _step(run, cleaned)) is not None:
                compaction.swap(cleaned, self._wall_ms())
            self._finish(compaction, run)
        self._log_manager.checkpoint(CLEANER_OFFSET_CHECKPOINT)

    @contextmanager
    def _ending(self, log: UnifiedLog, compaction: Compaction) -> Iterator[None]:
        """Untie a round from its log when its work ends; raise what an `OSError` in it means."""
        try:
            yield
        except FileNotFoundError as error:
            if compaction.misses(error):
                raise CleaningDiscarded(f"a file is gone: `{error.filename}`") from error
            raise log.failed("compact", error) from error
        except OSError as error:
            raise log.failed("compact", error) from error
        finally:
            compaction.end()
            self._running.remove(compaction.job.cleaning)
            self._ended.set()
            self._ended = trio.Event()

    def _finish(self, compaction: Compaction, run: CleaningRun) -> None:
        if not compaction.finish(run):
            raise CleaningDiscarded("the log has changed")

    def clean_once(self, now_ms: int) -> CompactionReport | None:
        """Compact the log that is due most in this thread; None if none is due.

        Raises what `clean_here` raises.
        """
        log = self.due(now_ms)
        return None if log is None else self.clean_here(log, RoundOptions(now_ms=now_ms))

    def clean_here(self, log: UnifiedLog, options: RoundOptions) -> CompactionReport:
        """Do a round on a log that is idle in this thread.

        Raises `CleaningDiscarded`, `CorruptRecord`, `CorruptIndex`, and `KafkaError` KAFKA_STORAGE_ERROR.
        """
        begun = self._begin(log, options)
        self._work_here(begun)
        return begun.report()

    async def compact(self, log: UnifiedLog, options: RoundOptions) -> CompactionReport:
        """Do a round on a log, after the one that may be running there; raises what `clean_here` raises."""
        while log.cleaning is not None:
            await self._ended.wait()
        if self._log_manager.get(*log.topic_partition) is not log:
            raise CleaningDiscarded("the log was deleted or moved")
        if not self._log_manager.directories.of(log).is_locked:
            raise CleaningDiscarded("the node has ended")
        if not log.config.is_compacted:
            raise CleaningDiscarded("the topic is not compacted any more")
        if options.rolls and not options.is_dry_run and log.segments.active.size:
            log.roll(now_ms=self._wall_ms())
        begun = self._begin(log, options)
        await self._work(begun)
        return begun.report()


def _step(run: CleaningRun, swapped: CleanedSegments | None) -> CleanedSegments | None:
    """Make the last swap durable and write the next segment, in any thread; None after the last one."""
    if swapped is not None:
        swapped.sync_directory()
    return run.next_group()


def _count(run: CleaningRun) -> None:
    """Do a dry run, in any thread."""
    while run.next_group() is not None:
        pass
