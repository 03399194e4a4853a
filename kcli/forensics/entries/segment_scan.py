"""Scanning a segment: every entry of its log file in order, and every byte that belongs to none.

    for item in scan(path, resync=True):
        if isinstance(item, Damage): ...      # what is wrong; it may skip bytes
        else: item.batch, item.is_valid ...   # a ScannedEntry

The sizes of the entries and the `skipped_bytes` of the damages add up to the bytes scanned, from `start` to
the end that the file had when the scan began (or `end`). An entry whose checksum or header is wrong comes as
an entry, and its `Damage` right after it; where no entry can be recognized, there is only a `Damage`.

A broker may be writing the last entry. The scan reads it again while the file changes, and once after a
pause, until it is whole. It waits longer for a file that was changed just now than for one at rest: a writer
without a processor pauses too.

Memory depends neither on the file nor on what its headers claim. The file is only ever read.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.entries.batch_run import MAX_ENTRY_BYTES, MAX_RELATIVE_OFFSET, BatchReader, BatchRun
from kcli.forensics.entries.damage import TRUNCATIONS, Damage, DamageKind
from kcli.forensics.entries.damage_diagnosis import DamageDiagnosis
from kcli.forensics.entries.entry_head import (
    HEADER_SIZES,
    LEGACY_BITS,
    HeadProblem,
    header_problem,
    structural_problem,
)
from kcli.forensics.entries.scanned_entry import ScannedEntry, view_of
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import (
    EPOCH_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_OFFSET,
    SIZE_POSITION,
    BatchHead,
)
from kcli.protocol.records.message_set import LegacyEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.forensics.entries.scanned_entry import Batch


_MAX_LOOKS = 20


_GOOD_LEGACY_ATTRIBUTES = tuple(
    frozenset(number for number in range(bits + 1) if number & 7 <= 3) for bits in LEGACY_BITS
)
_LEGACY_HEADER_SIZE = HEADER_SIZES[1]
_OFFSET_IS_WRONG = {DamageKind.BAD_OFFSET, DamageKind.BAD_OFFSET_DELTA, DamageKind.BAD_CRC}


class CheckedPlace(NamedTuple):
    """The first bytes at a place, why no entry can begin so (None if one can), and the checksum's verdict."""

    head: bytes
    problem: HeadProblem | None
    is_valid: bool


def scan(
    path: str,
    *,
    start: int = 0,
    end: int | None = None,
    expected: int = -1,
    max_entry_bytes: int = MAX_ENTRY_BYTES,
    resync: bool = False,
    segment_base: int | None = None,
) -> Iterator[ScannedEntry | Damage]:
    """Yield the entries and the damage of a log file, in order, from the entry at `start` on.

    Where no entry begins, the scan ends after the damage; with `resync` it goes on at the next valid entry.
    `segment_base`, the offset in the file's name, makes offsets outside the segment damage. `expected` is the
    offset of the entry at `start`, -1 if that is unknown. Of an entry above `max_entry_bytes` only the header
    is kept. Raises `OSError`.
    """
    items = scan_runs(
        path,
        start=start,
        end=end,
        expected=expected,
        max_entry_bytes=max_entry_bytes,
        resync=resync,
        segment_base=segment_base,
    )
    for item in items:
        if isinstance(item, BatchRun):
            yield from item.entries()
        else:
            yield item


def scan_runs(
    path: str,
    *,
    start: int = 0,
    end: int | None = None,
    expected: int = -1,
    max_entry_bytes: int = MAX_ENTRY_BYTES,
    resync: bool = False,
    segment_base: int | None = None,
    stop: int | None = None,
) -> Iterator[BatchRun | ScannedEntry | Damage]:
    """Yield what `scan` yields, but sound batches in runs, up to the first that ends at or behind `stop`."""
    with SegmentFile(path, end) as file:
        if not start and segment_base is not None:
            expected = segment_base
        reader = BatchReader(
            file,
            position=start,
            expected=expected,
            highest=MAX_OFFSET if segment_base is None else segment_base + MAX_RELATIVE_OFFSET,
            max_entry_bytes=max_entry_bytes,
        )
        scan = SegmentScan(
            file, reader, max_entry_bytes, segment_base or 0, resync=resync, follows=end is None
        )
        yield from scan.run(MAX_OFFSET if stop is None else stop)


class SegmentScan:
    """One scan. If it `follows`, the end of the file may grow by the rest of its last entry."""

    def __init__(
        self,
        file: SegmentFile,
        reader: BatchReader,
        max_entry_bytes: int,
        lowest: int,
        *,
        resync: bool,
        follows: bool,
    ) -> None:
        self.file = file
        self.reader = reader
        self.window = reader.window
        self.max_entry_bytes = max_entry_bytes
        self.lowest = lowest
        self.resync = resync
        self.follows = follows
        self.diagnosis = DamageDiagnosis(file, lowest, reader.highest)

    def run(self, stop: int) -> Iterator[BatchRun | ScannedEntry | Damage]:
        file, reader = self.file, self.reader
        while reader.position < file.end:
            start = reader.position
            # Where damage reaches behind the stop, the scan needs one more sound entry.
            limit = min(max(stop, start + 1), file.end)
            yield from reader.runs(limit)
            yield from self._sound_legacy_entries(limit)
            if reader.position >= file.end or start < reader.position >= stop:
                return
            entry, damages = self._look_closely()
            if entry is not None:
                yield entry
            yield from damages
            if entry is not None and not damages and reader.position >= stop:
                return

    def _sound_legacy_entries(self, stop: int) -> Iterator[ScannedEntry]:
        """Yield sound older entries, up to anything else or to one that begins at `stop` or behind it."""
        file, window, reader = self.file, self.window, self.reader
        position, needed = reader.position, _LEGACY_HEADER_SIZE
        while position < stop and (at := window.find(position, needed)) >= 0:
            buffer, view, limit, origin = window.buffer, window.view, window.limit, window.origin
            needed = _LEGACY_HEADER_SIZE
            while at + _LEGACY_HEADER_SIZE <= limit and origin + at < stop:
                try:
                    entry = LegacyEntry(buffer, at)
                except CorruptRecord:
                    return
                size, offset, attributes = entry.size_in_bytes, entry.offset, entry.attributes
                behind = at + size
                if behind > limit:
                    needed = size
                    break
                if (
                    zlib.crc32(view[at + MAGIC_POSITION : behind]) != entry.crc
                    or attributes not in _GOOD_LEGACY_ATTRIBUTES[entry.magic]
                    or not 0 <= offset <= reader.highest
                    or (
                        offset != reader.expected
                        and reader.is_out_of_line(offset, not attributes & 7, behind)
                    )
                ):
                    return
                position = origin + at
                reader.position = origin + behind
                reader.expected = offset + 1
                yield ScannedEntry(position, size, entry, True, (), file)
                at = behind
            position = origin + at
            if needed > self.max_entry_bytes or position + needed > file.end:
                return

    def _look_closely(self) -> tuple[ScannedEntry | None, tuple[Damage, ...]]:
        """Return the entry at the position, its damages or those of the bytes there, and step over it."""
        file, position, diagnosis = self.file, self.reader.position, self.diagnosis
        expected = self.reader.expected
        head, problem, is_valid = self._check_place()
        if position >= file.end:
            return None, ()  # the file was cut
        if problem is not None:
            damage = diagnosis.no_entry(problem, head=head, position=position, expected=expected)
            if self.follows and damage.kind is DamageKind.ZEROS and file.read(position, HEADER_SIZE) != head:
                return None, ()  # an entry was written into the reserved space meanwhile
            return None, (self._skip(damage),)
        view = view_of(head)
        size, fault = view.size_in_bytes, None
        contradiction = header_problem(head)
        if not is_valid:
            fault = diagnosis.bad_crc(head, position=position, size=size, expected=expected)
            if fault.skipped_bytes and self.resync:
                return None, (self._skip(fault),)
            fault = fault._replace(skipped_bytes=0, size_bytes=size)
        elif contradiction is not None:
            fault = diagnosis.of_header(contradiction, head=head, position=position, size=size)
        elif self._is_misplaced(view, position + size - self.window.origin):
            fault = diagnosis.of_offset(
                head, position=position, size=size, last_offset=view.last_offset, expected=expected
            )
        self._go_behind(view, size, fault)
        damages = () if fault is None else (fault,)
        is_whole = False
        if size <= self.max_entry_bytes:
            data = file.read(position, size)
            is_whole = len(data) == size
            view = view_of(data) if is_whole else view
        return ScannedEntry(position, size, view, is_valid, damages, file, is_whole), damages

    def _check_place(self) -> CheckedPlace:
        """Check the entry at the position, again and again while a broker may be writing it."""
        file = self.file
        checked = self._check_place_once()
        for number in range(_MAX_LOOKS if self.follows else 0):
            # An entry that was read while it was written may be whole by now: the second look needs no
            # reason.
            if checked.is_valid or (number and not self._may_be_being_written(checked)):
                break
            size = file.has_changed()
            if number and size is None:
                size = file.size_after_a_pause()
            if size is not None:
                self._let_grow(size)
            again = self._check_place_once()
            if number and size is None and again == checked:
                break
            checked = again
        return checked

    def _check_place_once(self) -> CheckedPlace:
        file, position, search = self.file, self.reader.position, self.diagnosis.search
        head = file.read(position, HEADER_SIZE)
        if len(head) < min(HEADER_SIZE, file.end - position):
            file.end = position + len(head)  # the file was cut
        problem = structural_problem(head, file.end - position)
        if problem is not None:
            return CheckedPlace(head, problem, False)
        claimed = BatchHead.at(head, 0, position)
        size = claimed.size_in_bytes
        if not search.affords(size) and not search.leads_on(claimed.end, claimed.last_offset):
            return CheckedPlace(head, None, False)
        return CheckedPlace(head, None, file.entry_crc(position, size, claimed.magic) == claimed.crc)

    def _may_be_being_written(self, checked: CheckedPlace) -> bool:
        if checked.problem is not None:
            return checked.problem.kind in TRUNCATIONS
        end = BatchHead.at(checked.head, 0, self.reader.position).end
        return end + self.file.zeros_from(end) >= self.file.end

    def _let_grow(self, size: int) -> None:
        """Move the end, in a file of `size` bytes now, to the end of the entry at the position."""
        file, position = self.file, self.reader.position
        head = file.read(position, HEADER_SIZE, size)
        wanted = HEADER_SIZE
        if len(head) > MAGIC_POSITION and structural_problem(head, MAX_OFFSET) is None:
            wanted = LOG_OVERHEAD + int.from_bytes(head[SIZE_POSITION:EPOCH_POSITION], "big")
        file.end = min(max(file.end, position + wanted), size)

    def _is_misplaced(self, view: Batch, behind: int) -> bool:
        if view.last_offset > self.reader.highest:
            return True
        if isinstance(view, RecordBatch):
            offset, span = view.base_offset, view.last_offset_delta + 1
        else:
            offset, span = view.offset, 0 if view.is_compressed else 1
        return offset != self.reader.expected and self.reader.is_out_of_line(offset, span, behind)

    def _go_behind(self, view: Batch, size: int, damage: Damage | None) -> None:
        """Step over an entry; the next offset follows from its own unless that is damaged."""
        self.reader.position += size
        self.diagnosis.search.earn(size)
        if damage is None or damage.kind not in _OFFSET_IS_WRONG or 0 <= view.last_offset < self.lowest:
            # Also after a jump of offsets: else every following entry would be reported as going back.
            self.reader.expected = view.last_offset + 1
        elif damage.kind is DamageKind.BAD_OFFSET and isinstance(view, RecordBatch):
            span = view.last_offset_delta + 1
            found = self.reader.offset_at(self.reader.position - self.window.origin)
            if found == self.reader.expected + span:
                self.reader.expected += span

    def _skip(self, damage: Damage) -> Damage:
        """Step over bytes that belong to no entry: to the end of the file, unless the scan resyncs."""
        if not self.resync and not damage.is_harmless:
            damage = damage._replace(skipped_bytes=self.file.end - self.reader.position)
        self.reader.position += damage.skipped_bytes
        self.diagnosis.search.earn(damage.skipped_bytes)
        return damage
