"""Dumping a log: the batches of a segment or of a metadata snapshot, their records, and what is wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.commands.dump_entries import records_of
from kcli.commands.dump_files import FileKind
from kcli.protocol.record import CorruptRecord
from kcli.storage.batch_scan import scan
from kcli.storage.damage import Damage, DamageKind
from kcli.storage.record_checks import check_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.commands.dump_entries import DumpedRecord
    from kcli.commands.dump_files import DumpFile
    from kcli.commands.dump_options import DumpOptions
    from kcli.commands.dump_view import DumpView
    from kcli.commands.progress import Advance
    from kcli.storage.scanned_entry import ScannedEntry

TRUNCATIONS = (DamageKind.TRUNCATED_HEADER, DamageKind.TRUNCATED_BATCH)
PROGRESS_BYTES = 1024 * 1024


class SegmentDump:
    """Reads one log and tells a view of it; `damages` counts what is really wrong."""

    def __init__(self, file: DumpFile, options: DumpOptions, view: DumpView) -> None:
        self._file = file
        self._options = options
        self._view = view
        self.damages = 0

    def run(self, advance: Advance) -> None:
        """Read to the end, or to where no batch begins any more. Raises `OSError`."""
        options, path = self._options, self._file.path
        size = os.stat(path).st_size
        limit = None if options.max_bytes is None or options.max_bytes >= size else options.max_bytes
        base = self._file.offset if self._file.kind is FileKind.LOG else None
        entries = scan(path, end=limit, resync=options.continues, segment_base=base)
        self._view.log_begins(self._file)
        filters = not options.filter.is_empty
        reported = 0
        for entry in entries:
            if isinstance(entry, Damage):
                self._note(entry, is_limited=limit is not None)
                continue
            if entry.position - reported >= PROGRESS_BYTES:
                advance(entry.position - reported)
                reported = entry.position
            if filters:
                self._show_filtered(entry)
            else:
                self._view.batch(entry)
                if options.deep:
                    self._show_records(entry)
        advance(max(size - reported, 0))

    def _note(self, damage: Damage, *, is_limited: bool) -> None:
        if damage.kind in TRUNCATIONS and damage.next_position is None:
            if is_limited:
                return  # the limit cuts through a batch, nothing is wrong with that
            self._view.trailing(damage.size_bytes)
        self._view.damage(damage)
        self.damages += not damage.is_harmless

    def _show_records(self, entry: ScannedEntry) -> None:
        try:
            self._view.records(entry.load())
        except CorruptRecord as error:
            self._explain(entry, error)

    def _show_filtered(self, entry: ScannedEntry) -> None:
        """Show a batch if something in it is wanted, and of its records those that are."""
        options, view = self._options, self._view
        if not options.filter.may_hold(entry):
            return
        if not (options.deep or options.filter.is_about_records):
            view.batch(entry)
            return
        batch = entry.load()
        try:
            wanted = options.filter.select(records_of(batch), batch)
            first = next(wanted, None)
            if first is None and options.filter.is_about_records:
                return
            view.batch(entry)
            if options.deep and first is not None:
                view.some_records(batch, after(first, wanted))
        except CorruptRecord as error:
            self._explain(entry, error)

    def _explain(self, entry: ScannedEntry, error: CorruptRecord) -> None:
        """Report records that cannot be read, unless the checksum has told so already."""
        if not entry.is_valid:
            return
        found = check_records(entry) or [
            Damage(
                kind=DamageKind.BAD_RECORD,
                position=entry.position,
                size_bytes=entry.size,
                offset=entry.first_offset,
                message=error.message,
            )
        ]
        for damage in found:
            self._note(damage, is_limited=False)


def after(first: DumpedRecord, others: Iterator[DumpedRecord]) -> Iterator[DumpedRecord]:
    """Yield a record, then others."""
    yield first
    yield from others
