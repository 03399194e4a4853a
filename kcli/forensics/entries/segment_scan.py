"""Scanning a segment: every entry of its log file in order, and every byte that belongs to none.

    for item in scan(path, resync=True):
        if isinstance(item, Damage): ...      # what is wrong; it may skip bytes
        else: item.batch, item.is_valid ...   # a ScannedEntry

The sizes of the entries and the `skipped_bytes` of the damages add up to what was scanned, from `start` to
the end that the file had when the scan began (or `end`). A last entry that was being written at that moment
counts whole. An entry whose checksum or header is wrong comes as an entry, and right after it what is wrong
with it; where no entry can be told, there is only a `Damage`.

Memory depends neither on the file nor on what its headers claim. The file is only ever read.

CheckedPlace: whether an entry begins at a place in a log file, and whether its checksum is right.

The last entry may be incomplete only because a broker is writing it. It is looked at again while the file
changes, and after a pause, until it is whole. A writer that has no processor for a while pauses as well, so
a file that was changed just now gets some more time than one that has been at rest.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.entries.batch_run import MAX_ENTRY_BYTES, MAX_RELATIVE_OFFSET, BatchReader, BatchRun
from kcli.forensics.entries.damage import Damage, DamageKind
from kcli.forensics.entries.damage_diagnosis import DamageDiagnosis
from kcli.forensics.entries.entry_head import (
    LEGACY_BITS,
    EntryHead,
    HeadProblem,
    header_problem,
    structural_problem,
)
from kcli.forensics.entries.scanned_entry import ScannedEntry, view_of
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION, MAX_OFFSET
from kcli.protocol.records.message_set import LegacyEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.forensics.entries.entry_search import EntrySearch
    from kcli.forensics.entries.scanned_entry import Batch


_TRUNCATED = (DamageKind.TRUNCATED_HEADER, DamageKind.TRUNCATED_BATCH)
_MAX_LOOKS = 20


class CheckedPlace(NamedTuple):
    """The first bytes at a place; why no entry begins with them, if so; whether the checksum matches."""

    head: bytes
    problem: HeadProblem | None
    is_valid: bool


def look_at(file: SegmentFile, position: int, search: EntrySearch, *, follows: bool) -> CheckedPlace:
    """Look at the place `position`. With `follows` the file may grow by the rest of the entry there.

    `search` knows how much may be spent on checksums, and what can follow an entry. Raises `OSError`.
    """
    looked = _look_once(file, position, search)
    for number in range(_MAX_LOOKS if follows else 0):
        # What was read while it was written may be whole by now, so the second look needs no reason.
        if looked.is_valid or (number and not _may_be_being_written(file, position, looked)):
            break
        size = file.has_changed()
        if number and size is None:
            size = file.size_after_a_pause()
        if size is not None:
            _let_grow(file, position, size)
        again = _look_once(file, position, search)
        if number and size is None and again == looked:
            break
        looked = again
    return looked


def _look_once(file: SegmentFile, position: int, search: EntrySearch) -> CheckedPlace:
    head = file.read(position, HEADER_SIZE)
    if len(head) < min(HEADER_SIZE, file.end - position):
        file.end = position + len(head)  # the file was cut
    problem = structural_problem(head, file.end - position)
    if problem is not None:
        return CheckedPlace(head, problem, False)
    view = view_of(head)
    claimed = EntryHead(
        position, view.magic, view.size_in_bytes, view.crc, view.last_offset, view.last_offset
    )
    if not search.affords(claimed.size) and not search.leads_on(claimed):
        return CheckedPlace(head, None, False)
    return CheckedPlace(head, None, file.entry_crc(position, claimed.size, claimed.magic) == claimed.crc)


def _may_be_being_written(file: SegmentFile, position: int, looked: CheckedPlace) -> bool:
    if looked.problem is not None:
        return looked.problem.kind in _TRUNCATED
    end = position + view_of(looked.head).size_in_bytes
    return end + file.zeros_from(end) >= file.end


def _let_grow(file: SegmentFile, position: int, size: int) -> None:
    """Take in as much of a file that has `size` bytes now as belongs to the entry at a position."""
    head = file.read(position, HEADER_SIZE, size)
    wanted = HEADER_SIZE
    if len(head) > MAGIC_POSITION and structural_problem(head, MAX_OFFSET) is None:
        wanted = LOG_OVERHEAD + int.from_bytes(head[8:12], "big")
    file.end = min(max(file.end, position + wanted), size)


__all__ = ["BatchRun", "Damage", "ScannedEntry", "scan", "scan_runs"]

_GOOD_LEGACY_ATTRIBUTES = tuple(
    frozenset(number for number in range(bits + 1) if number & 7 <= 3) for bits in LEGACY_BITS
)
_LEGACY_CRC_START = 16
_LEGACY_HEADER_SIZE = 26
_OFFSET_IS_WRONG = {DamageKind.BAD_OFFSET, DamageKind.BAD_OFFSET_DELTA, DamageKind.BAD_CRC}


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
    """Yield the entries of a log file, and what is wrong, in file order; `start` is where an entry begins.

    With `resync` a place where no entry begins is passed over up to the next valid one; else it is the last
    thing reported. `segment_base`, the offset in the file's name, lets offsets outside the segment be told;
    `expected` is the offset that the entry at `start` should begin with, -1 if that is not known. An entry of
    more than `max_entry_bytes` comes with its header alone. Raises `OSError`.
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
    """Yield what `scan` does, but sound batches many at a time.

    At `stop` or behind it the scan ends, between entries of which the one before is sound.
    """
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
    """The state of one scan; the end of the file may grow by its last entry if it `follows`."""

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
            # Where damage has reached behind the stop, one sound entry is all that is wanted.
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
        """Yield older entries that nothing is wrong with, up to what needs a closer look, or to `stop`."""
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
                    zlib.crc32(view[at + _LEGACY_CRC_START : behind]) != entry.crc
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
        """Return what is at the position, an entry or damage or both, and go on behind it."""
        file, position, diagnosis = self.file, self.reader.position, self.diagnosis
        head, problem, is_valid = look_at(file, position, diagnosis.search, follows=self.follows)
        if position >= file.end:
            return None, ()  # the file was cut
        if problem is not None:
            damage = diagnosis.no_entry(problem, head=head, position=position, expected=self.reader.expected)
            if self.follows and damage.kind is DamageKind.ZEROS and file.read(position, HEADER_SIZE) != head:
                return None, ()  # what was reserved has been written meanwhile
            return None, (self._skip(damage),)
        view = view_of(head)
        size, fault = view.size_in_bytes, None
        contradiction = header_problem(head)
        if not is_valid:
            fault = diagnosis.bad_crc(head, position=position, size=size, expected=self.reader.expected)
            if fault.skipped_bytes and self.resync:
                return None, (self._skip(fault),)
            fault = fault._replace(skipped_bytes=0, size_bytes=size)
        elif contradiction is not None:
            fault = diagnosis.of_header(contradiction, head=head, position=position, size=size)
        elif self._is_misplaced(view, position + size - self.window.origin):
            fault = diagnosis.of_offset(
                head,
                position=position,
                size=size,
                last_offset=view.last_offset,
                expected=self.reader.expected,
            )
        self._go_behind(view, size, fault)
        damages = () if fault is None else (fault,)
        is_whole = False
        if size <= self.max_entry_bytes:
            data = file.read(position, size)
            is_whole = len(data) == size
            view = view_of(data) if is_whole else view
        return ScannedEntry(position, size, view, is_valid, damages, file, is_whole), damages

    def _is_misplaced(self, view: Batch, behind: int) -> bool:
        """Whether the offsets of a valid entry cannot be right."""
        if view.last_offset > self.reader.highest:
            return True
        if isinstance(view, RecordBatch):
            offset, span = view.base_offset, view.last_offset_delta + 1
        else:
            offset, span = view.offset, 0 if view.is_compressed else 1
        return offset != self.reader.expected and self.reader.is_out_of_line(offset, span, behind)

    def _go_behind(self, view: Batch, size: int, damage: Damage | None) -> None:
        """Step over an entry; its offset tells the next one unless it is itself in doubt."""
        self.reader.position += size
        self.diagnosis.search.earn(size)
        if damage is None or damage.kind not in _OFFSET_IS_WRONG or 0 <= view.last_offset < self.lowest:
            # Also where the numbers are others than before: all that follow would be told as going back.
            self.reader.expected = view.last_offset + 1
        elif damage.kind is DamageKind.BAD_OFFSET and isinstance(view, RecordBatch):
            span = view.last_offset_delta + 1
            if (
                self.reader.offset_at(self.reader.position - self.window.origin)
                == self.reader.expected + span
            ):
                self.reader.expected += span

    def _skip(self, damage: Damage) -> Damage:
        """Step over what is no entry: all there is, unless the scan is to find its way back."""
        if not self.resync and not damage.is_harmless:
            damage = damage._replace(skipped_bytes=self.file.end - self.reader.position)
        self.reader.position += damage.skipped_bytes
        self.diagnosis.search.earn(damage.skipped_bytes)
        return damage
