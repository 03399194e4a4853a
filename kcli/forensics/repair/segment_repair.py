"""SegmentRepairer: copies the valid entries of one segment; SegmentCopy: the new segment and its indexes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.entries.damage import Damage, DamageKind
from kcli.forensics.entries.record_checks import check_records
from kcli.forensics.entries.segment_scan import scan
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.records.batch import RecordBatch
from kcli.storage import disk
from kcli.storage.log.log_segment import LogSegment
from kcli.storage.log_paths import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from kcli.storage.producers.producer_state import AppendOrigin, ProducerAppends

if TYPE_CHECKING:
    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.storage.log.log_config import LogConfig
    from kcli.storage.producers.producer_state import ProducerStateManager


MAX_TOLD = 1000
"""How many damages of one segment are reported; all are counted."""


class RepairMode(Enum):
    """Which entries are kept: those before the first damage, or all valid ones."""

    CUT = "cut"
    CARVE = "carve"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRepair:
    """The result for the segment at `source`; `target` is None if no entry was kept.

    `reserved_bytes` are zeros at its end. `damages` are the first of `damage_count`. A segment behind the cut
    was not read.
    """

    source: str
    target: str | None
    base_offset: int
    source_bytes: int
    kept_bytes: int = 0
    kept_entries: int = 0
    dropped_entries: int = 0
    reserved_bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    damages: tuple[Damage, ...] = ()
    damage_count: int = 0
    is_behind_cut: bool = False

    @property
    def dropped_bytes(self) -> int:
        """Bytes that are not in the copy, without reserved ones."""
        return max(self.source_bytes - self.kept_bytes - self.reserved_bytes, 0)

    @property
    def goes_on_behind_damage(self) -> bool:
        return any(
            damage.next_position is not None and damage.next_position < self.source_bytes
            for damage in self.damages
        )

    @property
    def is_whole(self) -> bool:
        return not self.dropped_bytes


class SourceSegment(NamedTuple):
    """A segment to copy from; offsets from `limit` on belong to the next one."""

    path: str
    base_offset: int
    limit: int


class SegmentRepairer:
    """Copies the valid entries of a segment from `next_offset` on.

    Afterwards `next_offset` is behind the last entry kept, and `epochs` has the first offset of each leader
    epoch among them.
    """

    def __init__(
        self, source: SourceSegment, *, copy: SegmentCopy, mode: RepairMode, is_deep: bool, next_offset: int
    ) -> None:
        self._source = source
        self._copy = copy
        self._mode = mode
        self._is_deep = is_deep
        self.next_offset = next_offset
        self.epochs: list[tuple[int, int]] = []
        self._first_offset: int | None = None
        self._kept = self._dropped = self._reserved = self._damage_count = 0
        self._damages: list[Damage] = []

    def run(self) -> SegmentRepair:
        """Copy the entries and return the result. Raises `OSError`."""
        status = os.stat(self._source.path)
        for item in scan(
            self._source.path, resync=self._mode is RepairMode.CARVE, segment_base=self._source.base_offset
        ):
            is_good = self._see(item) if isinstance(item, Damage) else self._take(item)
            if not is_good and self._mode is RepairMode.CUT:
                break
        self._copy.finish(status.st_mtime_ns)
        return SegmentRepair(
            source=self._source.path,
            target=self._copy.path if self._copy.exists else None,
            base_offset=self._source.base_offset,
            source_bytes=max(status.st_size, self._copy.size),
            kept_bytes=self._copy.size,
            kept_entries=self._kept,
            dropped_entries=self._dropped,
            reserved_bytes=self._reserved,
            first_offset=self._first_offset,
            last_offset=self.next_offset - 1 if self._kept else None,
            damages=tuple(self._damages),
            damage_count=self._damage_count,
        )

    def _see(self, damage: Damage) -> bool:
        if damage.kind is DamageKind.ZERO_TAIL:
            self._reserved += damage.size_bytes
            return True
        self._damage_count += 1
        if len(self._damages) < MAX_TOLD:
            self._damages.append(damage)
        return False

    def _take(self, entry: ScannedEntry) -> bool:
        """Keep an entry if it is valid; return whether it is."""
        reasons = self._reasons_against(entry)
        if not reasons and not entry.damages:
            try:
                self._copy.append(entry)
            except KafkaError as error:
                reasons = [_damage(DamageKind.BAD_PRODUCER, entry, error.message)]
            except CorruptRecord as error:
                reasons = [_damage(DamageKind.BAD_RECORD, entry, error.message)]
        if reasons or entry.damages:
            self._dropped += 1
            # The scan yields the damages of the entry next, unless it ends here.
            for damage in (*entry.damages, *reasons) if self._mode is RepairMode.CUT else reasons:
                self._see(damage)
            return False
        self._kept += 1
        if self._first_offset is None:
            self._first_offset = entry.first_offset
        self.next_offset = entry.last_offset + 1
        batch = entry.batch
        if isinstance(batch, RecordBatch):
            epoch = batch.partition_leader_epoch
            if epoch >= 0 and (not self.epochs or epoch > self.epochs[-1][0]):
                self.epochs.append((epoch, batch.base_offset))
        return True

    def _reasons_against(self, entry: ScannedEntry) -> list[Damage]:
        """Return why an entry with a sound header cannot be in the copy; empty if it can."""
        if entry.damages:
            return []
        if entry.first_offset < self.next_offset:
            message = f"offset {entry.first_offset} comes after offset {self.next_offset - 1}"
            return [_damage(DamageKind.OFFSET_GOING_BACK, entry, message)]
        if entry.last_offset >= self._source.limit:
            message = f"offset {entry.last_offset} belongs to the segment that begins at {self._source.limit}"
            return [_damage(DamageKind.BAD_OFFSET, entry, message)]
        if self._is_deep:
            return [damage for damage in check_records(entry) if not damage.is_harmless]
        return []


def _damage(kind: DamageKind, entry: ScannedEntry, message: str) -> Damage:
    damage = Damage(kind, entry.position, entry.size, message, next_position=entry.end)
    return damage._replace(offset=entry.first_offset)


_COPY_BYTES = 1024 * 1024


class SegmentCopy:
    """A new segment in `directory`; `append` adds an entry and updates the state of the producers.

    The files are made with the first entry, or by `create`.
    """

    __slots__ = ("_base_offset", "_config", "_directory", "_segment", "_state")

    def __init__(
        self, directory: str, base_offset: int, *, config: LogConfig, state: ProducerStateManager
    ) -> None:
        self._config = config
        self._directory = directory
        self._base_offset = base_offset
        self._state = state
        self._segment: LogSegment | None = None

    @property
    def path(self) -> str:
        """The path of the log file, which need not exist yet."""
        return segment_path(self._directory, self._base_offset, LOG_SUFFIX)

    @property
    def size(self) -> int:
        return self._segment.size if self._segment is not None else 0

    @property
    def exists(self) -> bool:
        return self._segment is not None

    def create(self) -> LogSegment:
        """Make the files, if they do not exist. Raises `OSError`."""
        if self._segment is None:
            # The directory was empty: an existing file would belong to another program.
            os.close(disk.open_file(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            self._segment = LogSegment.create(
                self._directory, self._base_offset, config=self._config, now_ms=0, report=_refuse
            )
        return self._segment

    def append(self, entry: ScannedEntry) -> None:
        """Add a valid entry.

        Raises `KafkaError` and `CorruptRecord` if it cannot follow what its producer wrote before, and
        `OSError`; then the segment is unchanged.
        """
        batch = entry.batch
        appends = None
        if isinstance(batch, RecordBatch) and batch.producer_id >= 0:
            appends = ProducerAppends(self._state)
            appends.check((batch,), AppendOrigin.REPLICATION)
        segment = self._segment or self.create()
        position = segment.size
        start = 0
        while start < entry.size:
            data = entry.read(start, _COPY_BYTES)
            if not data:
                segment.records.truncate_to(position)
                raise OSError(f"the file was cut while it was read, at position {entry.position + start}")
            segment.records.append(data)
            start += len(data)
        segment.indexes.add(position, entry.size, entry.last_offset, batch.max_timestamp)
        if appends is not None:
            segment.add_aborted(appends.publish())
            self._state.high_watermark_moved(entry.last_offset + 1)
        self._state.map_end_offset = entry.last_offset + 1

    def finish(self, modified_ns: int) -> None:
        """Complete and flush all files; give the log file the time of its original. Raises `OSError`."""
        segment = self._segment
        if segment is None:
            return
        segment.finish()
        segment.indexes.transactions.sync()
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = segment_path(self._directory, self._base_offset, suffix)
            disk.sync_path(path)
        segment.close_handlers()
        os.utime(self.path, ns=(modified_ns, modified_ns))


def _refuse(message: str) -> None:
    raise AssertionError(message)  # a new segment has nothing to report
