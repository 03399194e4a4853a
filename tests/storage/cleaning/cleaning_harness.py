"""A compacted log driven by verbs: write keys, clean, and see what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.protocol.records.control_records import TransactionMarker
from kcli.storage.cleaning.cleanable import LogToClean
from kcli.storage.cleaning.cleaning_job import READ_BYTES, plan_job
from kcli.storage.cleaning.cleaning_run import CleaningRun, run_job
from kcli.storage.cleaning.compaction import Compaction
from kcli.storage.log.log_config import COMPACT, LogConfig
from tests.storage.log_harness import NOW_MS, LogHarness, batch_of

if TYPE_CHECKING:
    from pathlib import Path

COMPACTED = LogConfig(
    cleanup_policy=frozenset({COMPACT}),
    segment_bytes=2000,
    index_interval_bytes=200,
    file_delete_delay_ms=0,
    delete_retention_ms=1000,
)


class CleaningHarness(LogHarness):
    """A log with the verbs of compaction."""

    def __init__(self, root: Path, config: LogConfig = COMPACTED) -> None:
        super().__init__(root, config)

    def put(self, *pairs: tuple[bytes | None, bytes | None], **arguments: object) -> int:
        """Append one batch of (key, value) pairs; return its first offset."""
        keys, values = zip(*pairs, strict=True)
        return self.append_batch(batch_of(*values, keys=keys, **arguments)).first_offset  # type: ignore[arg-type]

    def end(self, producer_id: int, *, is_commit: bool, epoch: int = 0) -> None:
        """Write the marker of a transaction."""
        self.log.append_marker(
            TransactionMarker(producer_id, epoch, 0, is_commit), leader_epoch=0, now_ms=NOW_MS
        )
        self.log.advance_high_watermark_to_end()

    def roll(self) -> None:
        """Close the active segment."""
        self.log.roll(now_ms=NOW_MS)

    def clean(
        self, now_ms: int = NOW_MS, *, map_bytes: int = 1_000_000, read_bytes: int = READ_BYTES
    ) -> CleaningRun | None:
        """Do one round inline; return it, None if there was nothing to clean."""
        log = self.log
        first_dirty = LogToClean(log).first_dirty
        job = plan_job(log, first_dirty, now_ms, map_bytes=map_bytes, read_bytes=read_bytes)
        if job is None:
            return None
        compaction = Compaction(log, job)
        run = run_job(job)
        while (cleaned := run.next_group()) is not None:
            compaction.swap(cleaned, now_ms)
            cleaned.sync_directory()
        assert compaction.finish(run)
        assert run.bytes_read == run.bytes_to_read > 0
        return run

    def clean_without_swap(self, now_ms: int = NOW_MS) -> None:
        """Write the first cleaned segment and leave it where it is."""
        job = plan_job(self.log, LogToClean(self.log).first_dirty, now_ms)
        if job is not None:
            run_job(job).next_group()

    def configure(self, **changes: object) -> None:
        """Change the configuration of the open log."""
        self.config = replace(self.config, **changes)  # type: ignore[arg-type]
        self.log.update_config(self.config)

    def kept(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Return offset, key and value of all records, from the files."""
        return [
            (record.offset, record.key, record.value)
            for segment in self.log.segments
            for _, batch in segment.batches()
            if not batch.is_control
            for record in batch.records()
        ]
