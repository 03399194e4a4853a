"""SegmentDump: dumps a segment or a metadata snapshot: batches, their records, and damage."""

from __future__ import annotations

import os
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.contents.log_files import FileKind
from kcli.forensics.entries.batch_run import BatchRun
from kcli.forensics.entries.damage import TRUNCATIONS, Damage, DamageKind
from kcli.forensics.entries.record_checks import check_records
from kcli.forensics.entries.scanned_entry import records_of
from kcli.forensics.entries.segment_scan import scan_runs
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import (
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_OFFSET,
    MIN_LENGTHS,
    SIZE_POSITION,
)

if TYPE_CHECKING:
    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.dump.view import DumpView
    from kcli.commands.shared.progress import Advance
    from kcli.forensics.contents.log_files import DumpFile
    from kcli.forensics.entries.scanned_entry import ScannedEntry

PROGRESS_BYTES = 1024 * 1024

_LENGTH = Struct(">i")

ABOUT_OFFSETS = (DamageKind.BAD_OFFSET, DamageKind.BAD_OFFSET_DELTA, DamageKind.OFFSET_GOING_BACK)
"""Damage to an entry whose own offsets do not tell where it belongs."""


class Shown(NamedTuple):
    """How far a log was shown: the last offset, -1 without a batch, and where the next batch begins."""

    last_offset: int = -1
    next_position: int = 0


NOTHING = Shown()


class SegmentDump:
    """Shows one log to a view; `damages` counts damages that are not harmless.

    Damage that surely lies outside of the asked offsets is only counted, in `damages_outside`.
    """

    def __init__(self, file: DumpFile, options: DumpOptions, view: DumpView) -> None:
        self._file = file
        self._options = options
        self._view = view
        self.damages = 0
        self.damages_outside = 0
        self._pending: list[tuple[Damage, int]] = []
        """Damage before the next entry, and the first offset that it may hide; the entry tells the last."""
        self.can_go_on = False
        """Whether valid batches follow the damage that ended the dump."""

    def run(self, advance: Advance, shown: Shown = NOTHING, stop: int | None = None) -> Shown:
        """Show what follows `shown`, to the end or to a place where no batch begins; return how far.

        With `stop` it ends behind the first sound batch that ends there or later. Raises `OSError`.
        """
        options, path = self._options, self._file.path
        size = os.stat(path).st_size
        limit = None if options.max_bytes is None or options.max_bytes >= size else options.max_bytes
        base = self._file.offset if self._file.kind is FileKind.LOG else None
        start = reported = shown.next_position
        items = scan_runs(
            path,
            start=start,
            end=limit,
            expected=shown.last_offset + 1 if start else -1,
            resync=options.continues,
            segment_base=base,
            stop=stop,
        )
        is_limited, entry = limit is not None, (-1, -1)
        for item in items:
            if isinstance(item, Damage):
                if item.skipped_bytes:
                    self._pending.append((item, shown.last_offset + 1))
                elif item.kind in ABOUT_OFFSETS:
                    self._note(item, is_limited=is_limited)
                else:
                    self._judge(item, *entry, is_limited=is_limited)
                position = max(shown.next_position, item.position + item.skipped_bytes)
                shown = shown._replace(next_position=position)
                continue
            first = item.base_offsets[0] if isinstance(item, BatchRun) else item.first_offset
            self._judge_pending(first - 1, is_limited=is_limited)
            self._show_item(item)
            last = item.last_offsets[-1] if isinstance(item, BatchRun) else item.last_offset
            shown, entry = Shown(last, item.end), (first, last)
            if item.end - reported >= PROGRESS_BYTES:
                advance(item.end - reported)
                reported = item.end
        self._judge_pending(MAX_OFFSET, is_limited=is_limited)
        advance(max((shown.next_position if stop is not None else size) - reported, 0))
        return shown

    def _show_item(self, item: BatchRun | ScannedEntry) -> None:
        if not isinstance(item, BatchRun):
            self._show(item)
        elif self._options.shows_only_batches:
            self._view.batches(item)
        else:
            for entry in item.entries():
                self._show(entry)

    def _judge_pending(self, last: int, *, is_limited: bool) -> None:
        for damage, first in self._pending:
            self._judge(damage, first, last, is_limited=is_limited)
        self._pending.clear()

    def _judge(self, damage: Damage, first: int, last: int, *, is_limited: bool) -> None:
        """Show damage to records from offset `first` to `last`, or count it if none of them is asked for."""
        if self._options.filter.leaves_out(first, last):
            self.damages_outside += not damage.is_harmless
        else:
            self._note(damage, is_limited=is_limited)

    def _note(self, damage: Damage, *, is_limited: bool) -> None:
        if damage.kind in TRUNCATIONS and is_limited:
            return  # `max_bytes` cuts the batch, not the file
        if damage.skipped_bytes and not is_limited and not self._options.continues:
            self.can_go_on = damage.next_position is not None
            self._note_trailing_bytes(damage.position, damage.position + damage.skipped_bytes)
        self._view.damage(damage)
        self.damages += not damage.is_harmless

    def _note_trailing_bytes(self, position: int, end: int) -> None:
        """Show how many bytes at the end are the beginning of a batch, as Kafka's tool does."""
        with open(self._file.path, "rb") as file:
            head = os.pread(file.fileno(), LOG_OVERHEAD, position)
        if end - position <= MAGIC_POSITION + 1:
            self._view.trailing(end - position)
        elif len(head) == LOG_OVERHEAD:
            (length,) = _LENGTH.unpack_from(head, SIZE_POSITION)
            if length >= MIN_LENGTHS[0] and position + LOG_OVERHEAD + length > end:
                self._view.trailing(end - position)

    def _show(self, entry: ScannedEntry) -> None:
        try:
            self.show(entry)
        except CorruptRecord as error:
            self._explain(entry, error)

    def show(self, entry: ScannedEntry) -> None:
        """Show a batch if it passes the filter. Raises `CorruptRecord`, after what could be read."""
        if not self._options.filter.is_empty:
            self._show_filtered(entry)
            return
        self._view.batch(entry)
        if self._options.deep:
            self._view.records(entry.load())

    def _show_filtered(self, entry: ScannedEntry) -> None:
        options, view = self._options, self._view
        if not options.filter.may_hold(entry):
            return
        if not (options.deep or options.filter.is_about_records):
            view.batch(entry)
            return
        batch = entry.load()
        wanted = options.filter.select(records_of(batch), batch)
        first = next(wanted, None)
        if first is None and options.filter.is_about_records:
            return
        view.batch(entry)
        if options.deep and first is not None:
            view.some_records(batch, chain((first,), wanted))

    def _explain(self, entry: ScannedEntry, error: CorruptRecord) -> None:
        """Report records that cannot be read, unless the checksum was wrong: that is reported already."""
        if not entry.is_valid:
            return
        unread = Damage(DamageKind.BAD_RECORD, entry.position, entry.size, error.message)
        for damage in check_records(entry) or [unread._replace(offset=entry.first_offset)]:
            self._note(damage, is_limited=False)
