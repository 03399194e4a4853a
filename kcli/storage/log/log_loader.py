"""LogLoader: loads one replica directory: finishes what a crash interrupted, recovers, finds the log end.

1. Delete files marked `.deleted` or `.cleaned`. Finished compactions (`.swap`) replace the segments that they
   cover, except those at or above the lowest `.cleaned`: such a swap was not complete.
2. Open the segments; delete index files without a log.
3. After an unclean stop, check every segment from the recovery point on. Cut the first damaged one at the
   damage and delete all later ones.
4. Restart a log that ends below its checkpointed start as empty at that start.

After a clean stop only the end of the last segment is checked; one that does not end with a whole batch is
recovered. The recovery point never moves beyond the last flush (Kafka class `LogLoader`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.corruption import CorruptRecord
from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.log.file_records import FileRecords
from kcli.storage.log.leader_epochs import LeaderEpochs
from kcli.storage.log.local_log import LocalLog, LogSegments
from kcli.storage.log.log_segment import LogSegment
from kcli.storage.log.unified_log import UnifiedLog
from kcli.storage.log_paths import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
    offset_from_name,
)
from kcli.storage.producers.producer_snapshot import ProducerSnapshots
from kcli.storage.producers.producer_state import ProducerStateManager

if TYPE_CHECKING:
    from kcli.protocol.records.batch import RecordBatch
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.log.log_config import LogSettings

_OFFSET_END = 2**63 - 1


class Checkpointed(NamedTuple):
    """The state of a log according to the checkpoints and the clean-stop marker of its log directory."""

    is_clean: bool = True
    recovery_point: int = 0
    log_start_offset: int = 0


NEW_LOG = Checkpointed()


def load_log(
    directory: str,
    topic_partition: TopicPartition,
    *,
    topic_id: bytes | None,
    settings: LogSettings,
    now_ms: int,
    checkpointed: Checkpointed = NEW_LOG,
) -> UnifiedLog:
    """Load the log in a directory that exists, which may be empty. Raises `OSError`."""
    loader = LogLoader(directory, topic_partition, settings=settings, now_ms=now_ms)
    is_clean, recovery_point, log_start_offset = checkpointed
    try:
        end_offset = loader.load(checkpointed)
    except CorruptRecord as error:
        # Loading checks nothing below the recovery point; something read this damage anyway.
        raise OSError(f"damaged records below the recovery point: {error}: `{directory}`") from error
    local = LocalLog(
        directory,
        topic_partition,
        settings=settings,
        segments=loader.segments,
        end_offset=end_offset,
        recovery_point=end_offset if is_clean and not loader.was_changed else min(recovery_point, end_offset),
        now_ms=now_ms,
    )
    return UnifiedLog(
        local,
        topic_id=topic_id,
        leader_epochs=loader.leader_epochs,
        producer_state=loader.producer_state,
        snapshots=loader.snapshots,
        log_start_offset=max(log_start_offset, loader.segments.first.base_offset),
    )


class LogLoader:
    """The segments, epochs and producers of one replica directory during its load."""

    def __init__(
        self, directory: str, topic_partition: TopicPartition, *, settings: LogSettings, now_ms: int
    ) -> None:
        self.config = settings.config
        self.report = settings.report
        self.directory = directory
        self.now_ms = now_ms
        self.segments = LogSegments()
        self.leader_epochs = LeaderEpochs(directory)
        self.snapshots = ProducerSnapshots(directory)
        self.producer_state = ProducerStateManager(
            topic_partition,
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
            verifies_transactions=settings.verifies_transactions,
        )
        # Whether records were lost, so that the checkpoints do not describe this log any more.
        self.was_changed = False

    def load(self, checkpointed: Checkpointed) -> int:
        """Fill the fields and return the log end offset. Raises `CorruptRecord` and `OSError`."""
        is_clean, recovery_point, log_start_offset = checkpointed
        names = [entry.name for entry in os.scandir(self.directory) if entry.is_file()]
        if any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
            self._finish_interrupted(names)
            names = [entry.name for entry in os.scandir(self.directory) if entry.is_file()]
        self.leader_epochs.load(self.report)
        self._open_segments(names)
        self.snapshots.find()
        has_producers = False
        end_offset = log_start_offset
        if len(self.segments):
            end = self._find_end() if is_clean else None
            if end is None:
                # After a clean stop only the last segment was checked, and it is not as the stop left it.
                base_offset = self.segments.active.base_offset
                self._recover(log_start_offset, base_offset if is_clean else recovery_point)
                has_producers = True
                end, _ = self.segments.active.find_end()
            end_offset = end
            if is_clean:
                self._check_transaction_indexes(log_start_offset)
        if end_offset < log_start_offset:
            self.report(
                f"the log ends at {end_offset}, below its start {log_start_offset}; "
                f"it restarts there, empty: `{self.directory}`"
            )
            self._delete(list(self.segments))
            self.leader_epochs.clear()
            self.snapshots.remove_if(above=-1)
            end_offset, has_producers = log_start_offset, False
        if not len(self.segments):
            self.segments.add(
                LogSegment.create(
                    self.directory,
                    log_start_offset,
                    config=self.config,
                    now_ms=self.now_ms,
                    report=self.report,
                )
            )
            self.was_changed = True
        self._end_at(max(log_start_offset, self.segments.first.base_offset), end_offset, has_producers)
        return end_offset

    def _end_at(self, log_start_offset: int, end_offset: int, has_producers: bool) -> None:
        """Make epochs and producers end at the log end."""
        self.leader_epochs.truncate_from_end(end_offset)
        self.leader_epochs.truncate_from_start(log_start_offset)
        self.snapshots.remove_strays(self.segments.base_offsets)
        if has_producers:
            self.snapshots.remove_if(above=end_offset)
            self.snapshots.take(self.producer_state)
        else:
            self._rebuild_producers(log_start_offset, end_offset)

    def _rebuild_producers(self, log_start_offset: int, end_offset: int) -> None:
        self.snapshots.rebuild(
            self.producer_state,
            self.segments.batches_between,
            log_start_offset=log_start_offset,
            end_offset=end_offset,
            now_ms=self.now_ms,
            report=self.report,
        )

    def _finish_interrupted(self, names: list[str]) -> None:
        """Delete marked files, and put finished compactions in place."""
        lowest_cleaned = _OFFSET_END
        for name in names:
            if name.endswith(CLEANED_SUFFIX):
                lowest_cleaned = min(lowest_cleaned, offset_from_name(name) or 0)
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
                os.unlink(f"{self.directory}/{name}")
        swaps = []
        for name in names:
            if name.endswith(SWAP_SUFFIX):
                if (offset_from_name(name) or 0) >= lowest_cleaned:
                    os.unlink(f"{self.directory}/{name}")
                else:
                    swaps.append(name)
        if swaps:
            self._delete_replaced(swaps, names)
        for name in swaps:
            path = f"{self.directory}/{name}"
            self.report(f"finishing an interrupted compaction: `{path}`")
            os.replace(path, path[: -len(SWAP_SUFFIX)])

    def _delete_replaced(self, swaps: list[str], names: list[str]) -> None:
        """Delete the files of the segments that finished compactions replace."""
        low, high = _OFFSET_END, -1
        for name in swaps:
            base_offset = base_offset_of(name, LOG_SUFFIX + SWAP_SUFFIX)
            if base_offset is None:
                continue
            low = min(low, base_offset)
            ends = (entry.last_offset for entry in FileRecords.open(f"{self.directory}/{name}").entries())
            high = max(high, max(ends, default=base_offset) + 1)
        for name in names:
            offset = offset_from_name(name)
            if offset is not None and low <= offset < high and name not in swaps:
                path = f"{self.directory}/{name}"
                if os.path.exists(path):
                    os.unlink(path)

    def _open_segments(self, names: list[str]) -> None:
        present = set(names)
        for name in sorted(names):
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
                offset = base_offset_of(name, suffix)
                if offset is not None and name[: -len(suffix)] + LOG_SUFFIX not in present:
                    self.report(f"deleting an index without its log: `{self.directory}/{name}`")
                    os.unlink(f"{self.directory}/{name}")
            base_offset = base_offset_of(name, LOG_SUFFIX)
            if base_offset is not None:
                self.segments.add(
                    LogSegment.open(
                        self.directory,
                        base_offset,
                        config=self.config,
                        now_ms=self.now_ms,
                        report=self.report,
                    )
                )

    def _find_end(self) -> int | None:
        """Return the offset behind the last record, None if the last segment does not end with a batch."""
        active = self.segments.active
        try:
            end_offset, position = active.find_end()
            if position == active.size:
                return end_offset
            reason = f"{active.size - position} bytes behind the last batch"
        except CorruptRecord as error:
            reason = error.message
        self.report(f"the last segment changed after a clean stop: {reason}: `{active.records.path}`")
        return None

    def _check_transaction_indexes(self, log_start_offset: int) -> None:
        """Recover the segments whose transaction index is damaged: only a replay of the log restores it."""
        for segment in self.segments:
            try:
                segment.indexes.transactions.load_once()
            except CorruptIndex as error:
                self.report(f"rebuilding a transaction index: {error.message}")
                self._rebuild_producers(log_start_offset, segment.base_offset)
                self._recover_segment(segment)
                self.producer_state.clear(log_start_offset)

    def _recover(self, log_start_offset: int, recovery_point: int) -> None:
        """Check the segments from the recovery point on, and build the producer state from them."""
        unflushed = self.segments.between(recovery_point, _OFFSET_END)
        first = unflushed[0]
        self._rebuild_producers(max(log_start_offset, self.segments.first.base_offset), first.base_offset)
        for number, segment in enumerate(unflushed):
            cut = self._recover_segment(segment)
            self.snapshots.take(self.producer_state)
            if cut:
                later = unflushed[number + 1 :]
                self._report_loss(segment, cut, later)
                self._delete(later)
                self.was_changed = True
                break

    def _recover_segment(self, segment: LogSegment) -> int:
        def on_batch(batch: RecordBatch | LegacyEntry) -> None:
            aborted = self.producer_state.replay(batch)
            if aborted:
                segment.add_aborted(aborted)
            if batch.partition_leader_epoch > self.leader_epochs.latest_epoch:
                self.leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)

        self.producer_state.map_end_offset = max(self.producer_state.map_end_offset, segment.base_offset)
        return segment.recover(on_batch)

    def _report_loss(self, segment: LogSegment, cut: int, later: list[LogSegment]) -> None:
        message = f"dropped {cut} bytes of `{segment.records.path}`, from position {segment.size} on"
        if later:
            dropped = sum(other.size for other in later)
            message += f", and {len(later)} later segments of {dropped} bytes"
        self.report(message)

    def _delete(self, segments: list[LogSegment]) -> None:
        for segment in segments:
            self.segments.remove(segment)
            segment.close_handlers()
            for path in segment.mark_deleted():
                os.unlink(path)
            self.snapshots.remove(segment.base_offset)
