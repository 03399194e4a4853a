"""Scanning a segment: every entry of its log file in order, and every byte that belongs to none.

    for item in scan(path, resync=True):
        if isinstance(item, Damage): ...      # what is wrong; it may skip bytes
        else: item.batch, item.is_valid ...   # a ScannedEntry

The sizes of the entries and the `skipped_bytes` of the damages add up to what was scanned, from `start` to
the end that the file had when the scan began (or `end`). A last entry that was being written at that moment
counts whole. An entry whose checksum or header is wrong comes as an entry, and right after it what is wrong
with it; where no entry can be told, there is only a `Damage`.

Memory depends neither on the file nor on what its headers claim. The file is only ever read.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.checksums import crc32c
from kcli.protocol.message_set import LegacyEntry
from kcli.protocol.record import CorruptRecord
from kcli.protocol.record_batch import RecordBatch
from kcli.protocol.record_batch_header import CRC_START, HEADER_SIZE
from kcli.storage.damage import Damage, DamageKind
from kcli.storage.damage_inquiry import DamageInquiry
from kcli.storage.entry_head import BATCH_BITS, LEGACY_BITS, MAX_OFFSET, header_problem
from kcli.storage.entry_look import look_at
from kcli.storage.scanned_entry import ScannedEntry, view_of
from kcli.storage.segment_file import SegmentFile
from kcli.storage.segment_window import SegmentWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.storage.scanned_entry import Batch

__all__ = ["MAX_ENTRY_BYTES", "Damage", "DamageKind", "ScannedEntry", "scan"]

MAX_ENTRY_BYTES = 8 * 1024 * 1024
"""The largest entry that is given with its records; of a larger one only the header is."""

MAX_RELATIVE_OFFSET = 2**31 - 1

_OFFSET = Struct(">q")
_GOOD_ATTRIBUTES = frozenset(number for number in range(BATCH_BITS + 1) if number & 7 <= 4)
_GOOD_LEGACY_ATTRIBUTES = tuple(
    frozenset(number for number in range(bits + 1) if number & 7 <= 3) for bits in LEGACY_BITS
)
_MIN_RECORD_SIZE = 7
_LEGACY_CRC_START = 16
_LEGACY_HEADER_SIZE = 26
_OFFSET_IS_WRONG = {DamageKind.BAD_OFFSET, DamageKind.BAD_OFFSET_DELTA, DamageKind.BAD_CRC}


def scan(
    path: str,
    *,
    start: int = 0,
    end: int | None = None,
    max_entry_bytes: int = MAX_ENTRY_BYTES,
    resync: bool = False,
    segment_base: int | None = None,
) -> Iterator[ScannedEntry | Damage]:
    """Yield the entries of a log file, and what is wrong, in file order; `start` is where an entry begins.

    With `resync` a place where no entry begins is passed over up to the next valid one; else it is the last
    thing reported. `segment_base`, the offset in the file's name, lets offsets outside the segment be told.
    Raises `OSError`.
    """
    with SegmentFile(path, end) as file:
        yield from _Scan(file, start, max_entry_bytes, segment_base, resync, end is None).run()


class _Scan:
    """The state of one scan; the end of the file may grow by its last entry if it `follows`."""

    def __init__(
        self,
        file: SegmentFile,
        start: int,
        max_entry_bytes: int,
        segment_base: int | None,
        resync: bool,
        follows: bool,
    ) -> None:
        self.file = file
        self.position = start
        self.max_entry_bytes = max_entry_bytes
        self.resync = resync
        self.follows = follows
        # The offset that the next entry should begin with, -1 if that is not known.
        self.expected = -1 if segment_base is None or start else segment_base
        self.highest = MAX_OFFSET if segment_base is None else segment_base + MAX_RELATIVE_OFFSET
        self.lowest = segment_base or 0
        self.inquiry = DamageInquiry(file, self.lowest, self.highest)
        self.window = SegmentWindow(file)

    def run(self) -> Iterator[ScannedEntry | Damage]:
        file = self.file
        while self.position < file.end:
            yield from self._sound_batches()
            yield from self._sound_legacy_entries()
            if self.position >= file.end:
                return
            entry, damages = self._look_closely()
            if entry is not None:
                yield entry
            yield from damages

    def _sound_batches(self) -> Iterator[ScannedEntry]:
        """Yield batches that nothing is wrong with, up to what needs a closer look.

        This runs for every batch of every file.
        """
        file, window, highest, expected = self.file, self.window, self.highest, self.expected
        position, needed = self.position, HEADER_SIZE
        while (at := window.find(position, needed)) >= 0:
            buffer, view, limit, origin = window.buffer, window.view, window.limit, window.origin
            needed = HEADER_SIZE
            while at + HEADER_SIZE <= limit:
                try:
                    batch = RecordBatch(buffer, at)
                except CorruptRecord:
                    return
                size, base_offset, delta = batch.size_in_bytes, batch.base_offset, batch.last_offset_delta
                behind = at + size
                if behind > limit:
                    needed = size
                    break
                if (
                    crc32c(view[at + CRC_START : behind]) != batch.crc
                    or not 0 <= batch.count <= delta + 1
                    or (batch.count * _MIN_RECORD_SIZE > size - HEADER_SIZE and not batch.attributes & 7)
                    or delta < 0
                    or batch.attributes not in _GOOD_ATTRIBUTES
                    or base_offset < 0
                    or base_offset + delta > highest
                    or (base_offset != expected and self._is_out_of_line(base_offset, delta + 1, behind))
                ):
                    return
                position = origin + at
                self.position = origin + behind
                self.expected = expected = base_offset + delta + 1
                yield ScannedEntry(position, size, batch, True, (), file)
                at = behind
            position = origin + at
            if needed > self.max_entry_bytes or position + needed > file.end:
                return

    def _sound_legacy_entries(self) -> Iterator[ScannedEntry]:
        """Yield older entries that nothing is wrong with, up to what needs a closer look."""
        file, window, highest, expected = self.file, self.window, self.highest, self.expected
        position, needed = self.position, _LEGACY_HEADER_SIZE
        while (at := window.find(position, needed)) >= 0:
            buffer, view, limit, origin = window.buffer, window.view, window.limit, window.origin
            needed = _LEGACY_HEADER_SIZE
            while at + _LEGACY_HEADER_SIZE <= limit:
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
                    or not 0 <= offset <= highest
                    or (offset != expected and self._is_out_of_line(offset, not attributes & 7, behind))
                ):
                    return
                position = origin + at
                self.position = origin + behind
                self.expected = expected = offset + 1
                yield ScannedEntry(position, size, entry, True, (), file)
                at = behind
            position = origin + at
            if needed > self.max_entry_bytes or position + needed > file.end:
                return

    def _is_out_of_line(self, offset: int, span: int, behind: int) -> bool:
        """Whether an offset that is not the expected one goes back, or is wrong, as the next entry shows.

        The entry has `span` offsets, 0 if that is not known, and ends at `behind` of the window.
        """
        if self.expected < 0 or offset < self.expected:
            return self.expected >= 0
        if not span:
            return False
        return self._offset_at(behind) == self.expected + span

    def _offset_at(self, at: int) -> int | None:
        """Return the offset at a place counted from the window's, None behind the file's end."""
        window = self.window
        if 0 <= at <= window.limit - _OFFSET.size:
            return int(_OFFSET.unpack_from(window.buffer, at)[0])
        head = self.file.read(window.origin + at, _OFFSET.size)
        return int(_OFFSET.unpack(head)[0]) if len(head) == _OFFSET.size else None

    def _look_closely(self) -> tuple[ScannedEntry | None, tuple[Damage, ...]]:
        """Return what is at the position, an entry or damage or both, and go on behind it."""
        file, position, inquiry = self.file, self.position, self.inquiry
        head, problem, is_valid = look_at(file, position, inquiry.search, follows=self.follows)
        if position >= file.end:
            return None, ()  # the file was cut
        if problem is not None:
            damage = inquiry.no_entry(problem, head, position, self.expected)
            if self.follows and damage.kind is DamageKind.ZEROS and file.read(position, HEADER_SIZE) != head:
                return None, ()  # what was reserved has been written meanwhile
            return None, (self._skip(damage),)
        view = view_of(head)
        size, fault = view.size_in_bytes, None
        contradiction = header_problem(head)
        if not is_valid:
            fault = inquiry.bad_crc(head, position, size, self.expected)
            if fault.skipped_bytes and self.resync:
                return None, (self._skip(fault),)
            fault = replace(fault, skipped_bytes=0, size_bytes=size)
        elif contradiction is not None:
            fault = inquiry.of_header(contradiction, head, position, size)
        elif self._is_misplaced(view, position + size - self.window.origin):
            fault = inquiry.of_offset(head, position, size, view.last_offset, self.expected)
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
        if view.last_offset > self.highest:
            return True
        if isinstance(view, RecordBatch):
            offset, span = view.base_offset, view.last_offset_delta + 1
        else:
            offset, span = view.offset, 0 if view.is_compressed else 1
        return offset != self.expected and self._is_out_of_line(offset, span, behind)

    def _go_behind(self, view: Batch, size: int, damage: Damage | None) -> None:
        """Step over an entry; its offset tells the next one unless it is itself in doubt."""
        self.position += size
        self.inquiry.search.earn(size)
        if damage is None or damage.kind not in _OFFSET_IS_WRONG or 0 <= view.last_offset < self.lowest:
            # Also where the numbers are others than before: all that follow would be told as going back.
            self.expected = view.last_offset + 1
        elif damage.kind is DamageKind.BAD_OFFSET and isinstance(view, RecordBatch):
            span = view.last_offset_delta + 1
            if self._offset_at(self.position - self.window.origin) == self.expected + span:
                self.expected += span

    def _skip(self, damage: Damage) -> Damage:
        """Step over what is no entry: all there is, unless the scan is to find its way back."""
        if not self.resync and not damage.is_harmless:
            damage = replace(damage, skipped_bytes=self.file.end - self.position)
        self.position += damage.skipped_bytes
        self.inquiry.search.earn(damage.skipped_bytes)
        return damage
