"""Compaction: one round on a log, as the thread that owns the log sees it.

    job = plan_job(log, first_dirty, now_ms)
    compaction = Compaction(log, job)
    run = run_job(job)
    while (cleaned := run.next_group()) is not None:     # in any thread
        compaction.swap(cleaned, now_ms)
        cleaned.sync_directory()                          # in any thread
    compaction.finish(run)                                # then write the checkpoint

A cleaned segment takes the place of its sources in a way that a kill at any moment leaves the log whole:

1. `.cleaned` -> `.swap`, file by file. Until the last of them the next start deletes both kinds.
2. The sources -> `.deleted`, with the producer snapshots of all but the first. From here on the next start
   finishes the swap: it deletes the rest of the sources.
3. `.swap` -> final names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.protocol.corruption import CorruptRecord
from kcli.storage.cleaning.cleaning_run import CleaningDiscarded
from kcli.storage.log.log_segment import LogSegment
from kcli.storage.log_paths import CLEANED_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX, segment_path

if TYPE_CHECKING:
    from kcli.storage.cleaning.cleaning_job import CleaningJob
    from kcli.storage.cleaning.cleaning_run import CleanedSegments, CleaningRun
    from kcli.storage.log.unified_log import UnifiedLog


class Compaction:
    """A round on its log, which makes it void when the log is truncated, deleted or moved."""

    __slots__ = ("_log", "job")

    def __init__(self, log: UnifiedLog, job: CleaningJob) -> None:
        self._log = log
        self.job = job
        log.cleaning = job.cleaning

    @property
    def is_valid(self) -> bool:
        """Whether nothing has made the round void."""
        log, cleaning = self._log, self.job.cleaning
        return log.cleaning is cleaning and not cleaning.is_discarded and log.failure is None

    def misses(self, error: FileNotFoundError) -> bool:
        """Whether a file that the round has not found is one that the log does not have any more, either.

        Retention deletes segments, and a replica's directory gets another name, at any time.
        """
        return not self.is_valid or error.filename not in [each.records.path for each in self._log.segments]

    def swap(self, cleaned: CleanedSegments, now_ms: int) -> None:
        """Put a cleaned segment in the place of its sources; its `sync_directory` is the next step.

        Raises `CleaningDiscarded` if the log has changed, with the `.cleaned` files deleted, and `KafkaError`
        KAFKA_STORAGE_ERROR.
        """
        log = self._log
        sources = [each for each in log.segments if each.base_offset in cleaned.sources]
        if not self.is_valid or [each.base_offset for each in sources] != cleaned.sources:
            cleaned.remove()
            raise CleaningDiscarded("the log has changed")
        try:
            self._replace(cleaned, sources, now_ms)
        except (OSError, CorruptRecord) as error:
            raise log.failed("swap in cleaned segments of", error, is_whole=False) from error

    def _replace(self, cleaned: CleanedSegments, sources: list[LogSegment], now_ms: int) -> None:
        log, base_offset = self._log, cleaned.base_offset
        directory = log.directory
        paths = [segment_path(directory, base_offset, suffix) for suffix in SEGMENT_SUFFIXES]
        present = [path for path in paths if os.path.exists(path + CLEANED_SUFFIX)]
        for path in present:
            os.replace(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
        for source in sources:
            log.local.remove(source, now_ms)
            if source.base_offset != base_offset:
                log.delete_snapshot(source, now_ms)
        for path in present:
            os.replace(path + SWAP_SUFFIX, path)
        log.segments.add(
            LogSegment.open(directory, base_offset, config=log.config, now_ms=now_ms, report=log.local.report)
        )
        # The same offset has another position now.
        log.high_watermark_metadata = None

    def finish(self, run: CleaningRun) -> bool:
        """Note how far the log is clean now; return False if the round is void."""
        is_valid = self.is_valid
        if is_valid:
            self._log.cleaner_offset = run.end_offset
        self.end()
        return is_valid

    def end(self) -> None:
        """Untie a round that ends without a result."""
        if self._log.cleaning is self.job.cleaning:
            self._log.cleaning = None
