"""DumpRun: dumps files one after the other, and counts what was wrong."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.commands.dump_complaints import Complaints
from kcli.commands.dump_files import DumpFile, FileKind, find_files
from kcli.commands.dump_output import DumpOutput, OutputLost
from kcli.commands.dump_views import ranged_view, summary_view
from kcli.commands.output import chosen_format
from kcli.commands.progress import progress_bar
from kcli.errors import ChecksFailed, KcliError
from kcli.storage.segment_file import SegmentFile

if TYPE_CHECKING:
    from kcli.commands.dump_files import Selection
    from kcli.commands.dump_options import DumpOptions
    from kcli.commands.dump_ranges import RangedDump
    from kcli.commands.dump_view import DumpView, RangedView
    from kcli.commands.output import OutputFormat
    from kcli.commands.progress import Advance

LONG_BYTES = 32 * 1024 * 1024
"""From how many bytes on there is a progress bar, and more than one process."""

HINT = "kcli verify-index --explain says what to do"
HINT_TO_GO_ON = "`--continue` goes on behind them; kcli verify-index --explain says what to do"

LOGS = (FileKind.LOG, FileKind.METADATA_SNAPSHOT)


def dump(
    paths: Sequence[str],
    selection: Selection,
    options: DumpOptions,
    output: OutputFormat | None = None,
    *,
    is_summary: bool = False,
) -> None:
    """Dump what the paths stand for; raise what was wrong when all is done."""
    found = [*find_files(paths, selection)]
    complaints, form = Complaints(), chosen_format(output)
    view: DumpView
    ranged = None
    if is_summary:
        view = summary_view(form, DumpOutput())
    else:
        view = ranged = ranged_view(form, options, complaints, DumpOutput())
    run = DumpRun(options, view, complaints, ranged)
    run.run(found)
    failures = run.result()
    if failures:
        raise ExceptionGroup("dump-log", failures)


class DumpRun:
    """Tells a view of files; `failures` are those not read, `problems` what is wrong in the others.

    `ranged` is the view if several processes may make parts of it.
    """

    def __init__(
        self, options: DumpOptions, view: DumpView, complaints: Complaints, ranged: RangedView | None
    ) -> None:
        self.failures: list[KcliError] = []
        self.problems = 0
        self.damaged_files = 0
        self._options = options
        self._view = view
        self._complaints = complaints
        self._can_go_on = False
        self._ranged_view = ranged
        self._ranges: RangedDump | None = None

    def run(self, found: Sequence[DumpFile | KcliError]) -> None:
        """Dump what was found, in order. Raises `OSError` when nobody takes it."""
        try:
            self._run(found)
        except OutputLost as lost:
            raise lost.error from lost

    def _run(self, found: Sequence[DumpFile | KcliError]) -> None:
        files = [file for file in found if isinstance(file, DumpFile)]
        total = total_bytes(files)
        shown = None if sys.stdout.isatty() else total
        with self._processes(files, total), progress_bar("dump-log", shown) as advance:
            for file in found:
                if isinstance(file, KcliError):
                    self.failures.append(file)
                else:
                    self._dump(file, advance)
            self._view.close()

    @contextmanager
    def _processes(self, files: Sequence[DumpFile], total: int | None) -> Iterator[None]:
        """Have long logs dumped by several processes, where the form of the dump allows it."""
        if total is None or self._ranged_view is None:
            yield
            return
        from kcli.commands.dump_ranges import RangedDump, range_pool

        pool = range_pool(files, self._options, self._ranged_view.form)
        if pool is None:
            yield
            return
        with pool:
            self._ranges = RangedDump(pool, self._ranged_view, self._options, files)
            yield
        self._ranges = None

    def _dump(self, file: DumpFile, advance: Advance) -> None:
        self._view.file_begins(file)
        try:
            if not stat.S_ISREG(os.stat(file.path).st_mode):
                self.failures.append(KcliError(f"not a regular file: `{file.path}`"))
                return
            problems = self._read(file, advance)
        except OSError as error:
            path = error.filename or file.path
            self.failures.append(KcliError(f"cannot read `{path}`: {error.strerror}"))
            return
        self.problems += problems
        self.damaged_files += problems > 0

    def _read(self, file: DumpFile, advance: Advance) -> int:
        """Read a file; return how many problems there are in it. Raises `OSError`."""
        if file.kind in LOGS:
            return self._read_log(file, advance)
        if file.kind in (FileKind.INDEX, FileKind.TIME_INDEX):
            from kcli.commands.dump_indexes import IndexDump

            index = IndexDump(file, self._options, self._view, self._complaints)
            if file.kind is FileKind.INDEX:
                index.offset_index()
            else:
                index.time_index()
            return index.problems
        return self._read_small_file(file)

    def _read_small_file(self, file: DumpFile) -> int:
        from kcli.commands.dump_small_files import DamagedFile, rows_of

        try:
            for row in rows_of(file):
                self._view.row(row)
        except DamagedFile as error:
            self._complaints.damaged_file(error.message)
            self._view.complaint("damaged_file", {"message": error.message})
            return 1
        return 0

    def _read_log(self, file: DumpFile, advance: Advance) -> int:
        with SegmentFile(file.path):
            self._view.log_begins(file)
        end = None
        if self._ranges is not None and self._ranges.takes(file):
            end = self._ranges.run(file, advance)
            if end.is_sound:
                return 0
        from kcli.commands.dump_segment import SegmentDump, Shown

        shown = Shown() if end is None else Shown(end.last_offset, end.next_position)
        segment = SegmentDump(file, self._options, self._view)
        segment.run(advance, shown)
        self._can_go_on |= segment.can_go_on
        return segment.damages

    def result(self) -> list[KcliError]:
        """Return what ends the command: nothing if all was read and is well."""
        from kcli.commands.dump_damage import counted

        failures = [*self.failures]
        if self.problems:
            places = f"{counted(self.problems, 'problem')} in {counted(self.damaged_files, 'file')}"
            failures.append(ChecksFailed(places, hint=HINT_TO_GO_ON if self._can_go_on else HINT))
        if self._options.decoder.failures:
            values = counted(self._options.decoder.failures, "value")
            failures.append(KcliError(f"not what the decoder reads: {values}"))
        return failures


def total_bytes(files: Sequence[DumpFile]) -> int | None:
    """Return how much there is to read, None if that takes no time."""
    total = 0
    for file in files:
        if file.kind in LOGS:
            try:
                total += os.stat(file.path).st_size
            except OSError:
                continue  # whoever reads it will tell
    return total if total >= LONG_BYTES else None
