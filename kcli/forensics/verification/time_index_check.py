"""TimeIndexCheck: whether the time index of a segment agrees with its log.

An entry has the last offset of a batch and its largest timestamp, which no batch before it exceeds. When the
segment is closed, its largest timestamp becomes the last entry. Kafka 3.6 and 3.7 could write the offset of
the record inside the batch: that is reported as `info`, once per file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from kcli.forensics.verification.findings import Finding, FindingKind
from kcli.forensics.verification.index_bytes import always_rises, joined_words, never_falls
from kcli.forensics.verification.offset_index_check import NO_OFFSET_DUE
from kcli.protocol.corruption import CorruptRecord
from kcli.storage.index.time_index import ENTRY_SIZE, NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.forensics.verification.index_bytes import IndexBytes
    from kcli.forensics.verification.packed_batches import PackedBatches

_MISMATCH = FindingKind.TIME_INDEX_MISMATCH
_NOT_FOUND = FindingKind.TIME_INDEX_NOT_FOUND


class TimeIndexCheck:
    """Takes, in order, the sound batches of a segment that end at or past `due` or exceed `largest`."""

    def __init__(self, index: IndexBytes, base_offset: int, *, report: Callable[[Finding], None]) -> None:
        assert index.entry_size == ENTRY_SIZE
        self._index = index
        self._base_offset = base_offset
        self._report = report
        words = index.words()
        self._timestamps = joined_words(words[0::3], words[1::3])
        self._relatives = words[2::3]
        self._rises = always_rises(self._relatives)
        self._order = self._by_offset()
        self._at = 0
        self._bad: set[int] = set()
        self._old: list[int] = []
        self._doubtful = False
        self.largest = NO_TIMESTAMP
        self._offset_of_largest = base_offset
        self.due = 0
        self._settle_due()

    def entry(self, slot: int) -> tuple[int, int]:
        """Return timestamp and offset of an entry."""
        return self._timestamps[slot], self._base_offset + self._relatives[slot]

    def take_run(self, run: PackedBatches) -> bool:
        """Take sound batches at once; return False, to take them one by one, if an entry in them is wrong."""
        if self._doubtful or not isinstance(self._order, range):
            return False
        stop = bisect_right(self._relatives, run.relatives[-1], self._at)
        if stop > self._at:
            if not self._are_in(run, self._at, stop):
                return False
            self._at = stop
            self._settle_due()
        largest = run.max_timestamps[-1] if run.times_rise else max(run.max_timestamps)
        if largest > self.largest:
            self.largest = largest
            self._offset_of_largest = run.last_offsets[run.max_timestamps.index(largest)]
        return True

    def _are_in(self, run: PackedBatches, start: int, stop: int) -> bool:
        """Whether each of some entries is right for a batch of the run that no earlier timestamp exceeds."""
        if run.times_rise and run.max_timestamps[0] >= self.largest:
            return run.has_time_entries(self._index.data[start * ENTRY_SIZE : stop * ENTRY_SIZE])
        largest = islice(accumulate(run.max_timestamps, max, initial=self.largest), 1, None)
        batches = zip(run.relatives, run.max_timestamps, largest, strict=True)
        found = {relative: timestamp for relative, timestamp, most in batches if timestamp == most}
        return [*map(found.get, self._relatives[start:stop])] == [*self._timestamps[start:stop]]

    def take(self, batch: ScannedEntry) -> None:
        """Check the entries with offsets in a batch, or before it without a batch of their own."""
        if self._doubtful:
            self._pass_over(batch.first_offset)
            self._doubtful = False
        while self._at < len(self._order):
            slot = self._order[self._at]
            timestamp, offset = self.entry(slot)
            if offset > batch.last_offset:
                break
            self._at += 1
            self._compare(slot, timestamp, offset, batch)
        if batch.batch.max_timestamp > self.largest:
            self.largest, self._offset_of_largest = batch.batch.max_timestamp, batch.last_offset
        self._settle_due()

    def skip(self) -> None:
        """Note damage: the entries up to the next sound batch cannot be checked."""
        self._doubtful = True
        self.due = 0

    def finish(self, *, is_active: bool) -> None:
        """Report entries past the end of the log, entries out of order, and a last entry that is missing."""
        if self._doubtful:
            self._at = len(self._order)
        for slot in self._order[self._at :]:
            _, offset = self.entry(slot)
            message = f"indexed offset {offset} is past the end of the log"
            self._bad_entry(slot, _NOT_FOUND, message=message, offset=offset, pair=(offset, -1))
        last = self._check_order()
        if (
            not (is_active or self._index.is_too_large or self._index.entries - 1 in self._bad)
            and last < self.largest
            and (self.largest, self._offset_of_largest) != (0, self._base_offset)
        ):
            message = f"the last timestamp is {last}, the largest of the segment {self.largest}"
            position, offset = len(self._index.data), self._offset_of_largest
            kind = FindingKind.TIME_INDEX_INCOMPLETE
            self._report(Finding(self._index.path, kind, message, position, offset))
        if self._old:
            message = f"{len(self._old)} of {self._index.entries} entries have the offset of a record"
            slot = self._old[0]
            kind = FindingKind.TIME_INDEX_OLD_RECORD_OFFSET
            self._report(Finding(self._index.path, kind, message, slot * ENTRY_SIZE, self.entry(slot)[1]))

    def _by_offset(self) -> Sequence[int]:
        """Return the slots by ascending offset; in a sound index that is their own order."""
        if self._rises or never_falls(self._relatives):
            return range(self._index.entries)
        return array("i", sorted(range(self._index.entries), key=self._relatives.__getitem__))

    def _settle_due(self) -> None:
        self.due = self.entry(self._order[self._at])[1] if self._at < len(self._order) else NO_OFFSET_DUE

    def _pass_over(self, offset: int) -> None:
        while self._at < len(self._order) and self.entry(self._order[self._at])[1] < offset:
            self._at += 1

    def _compare(self, slot: int, timestamp: int, offset: int, batch: ScannedEntry) -> None:
        largest = batch.batch.max_timestamp
        if offset < self._base_offset:
            message = f"offset {offset} is below {self._base_offset}, where the segment begins"
            self._bad_entry(slot, FindingKind.INDEX_OFFSET_RANGE, message=message, offset=offset)
        elif offset != batch.last_offset:
            if _has_record(batch, offset, timestamp):
                self._old.append(slot)
                return
            message = f"indexed offset {offset}, found log offset {batch.last_offset}"
            pair = offset, batch.last_offset
            self._bad_entry(slot, _NOT_FOUND, message=message, offset=offset, pair=pair)
        elif timestamp != largest:
            message = f"index timestamp {timestamp}, log timestamp {largest}"
            self._bad_entry(slot, _MISMATCH, message=message, offset=offset, pair=(timestamp, largest))
        elif timestamp < self.largest:
            message = f"timestamp {timestamp}, but offset {self._offset_of_largest} has {self.largest}"
            self._bad_entry(slot, FindingKind.TIME_INDEX_NOT_LARGEST, message=message, offset=offset)

    def _bad_entry(
        self, slot: int, kind: FindingKind, *, message: str, offset: int, pair: tuple[int, int] | None = None
    ) -> None:
        self._bad.add(slot)
        self._report(Finding(self._index.path, kind, message, slot * ENTRY_SIZE, offset, pair))

    def _check_order(self) -> int:
        """Report entries out of order; return the last timestamp, -1 without one."""
        if not self._bad and self._rises and always_rises(self._timestamps):
            last = self._timestamps[-1] if self._timestamps else NO_TIMESTAMP
            if not self._timestamps or self._timestamps[0] > NO_TIMESTAMP:
                return last
        previous, previous_offset = NO_TIMESTAMP, -1
        for slot in range(self._index.entries):
            timestamp, offset = self.entry(slot)
            if slot in self._bad:
                continue
            if timestamp <= previous or offset <= previous_offset:
                message = f"timestamp {timestamp} at {offset} comes after {previous} at {previous_offset}"
                pair = (timestamp, previous) if timestamp <= previous else None
                path, kind, at = self._index.path, FindingKind.TIME_INDEX_ORDER, slot * ENTRY_SIZE
                self._report(Finding(path, kind, message, at, offset, pair))
            previous, previous_offset = timestamp, offset
        return previous


def _has_record(batch: ScannedEntry, offset: int, timestamp: int) -> bool:
    """Whether the record of a batch at that offset has its largest timestamp, which is `timestamp`."""
    if timestamp != batch.batch.max_timestamp:
        return False
    try:
        records = batch.load().records()
        return any(each.offset == offset and each.timestamp == timestamp for each in records)
    except CorruptRecord:
        return False
