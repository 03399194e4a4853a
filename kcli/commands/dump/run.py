"""DumpRun: dumps files one after the other, and counts failures and problems.

The processes that help with a long log are forked first: they begin while this process imports modules that
only it needs.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from kcli.commands.shared.output import chosen_format
from kcli.errors import ChecksFailed, KcliError
from kcli.forensics.contents.log_files import DumpFile, FileKind, find_files
from kcli.forensics.entries.segment_file import LONG_BYTES, SegmentFile

if TYPE_CHECKING:
    from kcli.commands.dump.dump_errors import DumpErrors
    from kcli.commands.dump.options import DumpOptions
    from kcli.commands.dump.ranges import RangedDump
    from kcli.commands.dump.segment import SegmentDump
    from kcli.commands.dump.view import DumpView
    from kcli.commands.shared.output import OutputFormat
    from kcli.commands.shared.progress import Advance
    from kcli.forensics.contents.log_files import Selection
    from kcli.forensics.ranges.log_ranges import RangeEnd
    from kcli.forensics.ranges.worker_pool import WorkerPool

HINT = "kcli verify-index {} --explain says what to do"
HINT_TO_GO_ON = f"`--continue` goes on behind the damage; {HINT}"

LOGS = (FileKind.LOG, FileKind.METADATA_SNAPSHOT)


def dump(
    paths: Sequence[str],
    selection: Selection,
    options: DumpOptions,
    output: OutputFormat | None = None,
    *,
    is_summary: bool = False,
) -> None:
    """Dump the files that the paths mean, then raise all failures together."""
    found = [*find_files(paths, selection)]
    if is_summary:
        # What a deleted file holds counts already, where compaction has copied it.
        found = [each for each in found if not (isinstance(each, DumpFile) and each.is_replaced)]
    files = [file for file in found if isinstance(file, DumpFile)]
    total, form, pool = total_bytes(files), chosen_format(output), None
    if total is not None and not is_summary:
        from kcli.commands.dump.ranges import range_pool

        pool = range_pool(files, options, form)
    with pool or nullcontext():
        run = new_run(options, form, pool, files, is_summary=is_summary)
        run.run(found, total)
    failures = run.result()
    if failures:
        raise ExceptionGroup("dump-log", failures)


def new_run(
    options: DumpOptions,
    form: OutputFormat,
    pool: WorkerPool | None,
    files: Sequence[DumpFile],
    *,
    is_summary: bool,
) -> DumpRun:
    """Return a run. A `pool` dumps long logs, and begins at once."""
    logs = None
    if pool is not None:
        from kcli.commands.dump.ranges import LongLogs, RangedDump

        logs = LongLogs(pool, files, options, form)
    from kcli.commands.dump.dump_errors import DumpErrors
    from kcli.commands.dump.forms import ranged_view
    from kcli.commands.dump.view import DumpOutput, terminal_escape

    errors = DumpErrors()
    shown = DumpOutput(escape=terminal_escape(form, is_raw=options.is_raw))
    if is_summary:
        from kcli.commands.dump.summary_view import SummaryDump

        return DumpRun(options, SummaryDump(shown, form), errors)
    view = ranged_view(form, options, errors, shown)
    ranges = None if logs is None else RangedDump(logs, view, options)
    return DumpRun(options, view, errors, ranges)


class DumpRun:
    """Shows files to a view; `failures` are files that were not read, `problems` counts faults in others."""

    def __init__(
        self, options: DumpOptions, view: DumpView, errors: DumpErrors, ranges: RangedDump | None = None
    ) -> None:
        self.failures: list[KcliError] = []
        self.problems = 0
        self.damaged_files = 0
        self._damaged_directory = ""
        """The directory of the first file with a problem."""
        self._damages_outside = 0
        self._options = options
        self._view = view
        self._errors = errors
        self._ranges = ranges
        self._can_go_on = False

    def run(self, found: Sequence[DumpFile | KcliError], total: int | None) -> None:
        """Dump the files in order, `total` bytes. Raises `OSError` if standard output is closed."""
        from kcli.commands.dump.view import OutputLost
        from kcli.commands.shared.progress import progress_bar

        try:
            with progress_bar("dump-log", None if sys.stdout.isatty() else total) as advance:
                for file in found:
                    if isinstance(file, KcliError):
                        self.failures.append(file)
                    else:
                        self._dump(file, advance)
                self._view.close()
            self._note_outside()
        except OutputLost as lost:
            raise lost.error from lost

    def _note_outside(self) -> None:
        if self._damages_outside:
            from kcli.commands.shared.formatting import counted
            from kcli.commands.shared.output import note

            note(f"note: {counted(self._damages_outside, 'damaged place')} outside of these offsets")

    def _dump(self, file: DumpFile, advance: Advance) -> None:
        self._view.file_begins(file)
        try:
            if not stat.S_ISREG(os.stat(file.path).st_mode):
                self.failures.append(KcliError(f"not a regular file: `{file.path}`"))
                return
            problems = self._read(file, advance)
        except OSError as error:
            path = error.filename or file.path
            if file.is_listed and isinstance(error, FileNotFoundError):
                from kcli.commands.shared.output import note

                note(f"note: `{path}` is gone: a broker has deleted it, or compacted its log")
            else:
                self.failures.append(KcliError(f"cannot read `{path}`: {error.strerror}"))
            return
        if problems and not self.problems:
            self._damaged_directory = os.path.dirname(file.path) or "."
        self.problems += problems
        self.damaged_files += problems > 0

    def _read(self, file: DumpFile, advance: Advance) -> int:
        """Read a file; return the number of problems in it. Raises `OSError`."""
        if file.kind in LOGS:
            return self._read_log(file, advance)
        if file.kind in (FileKind.INDEX, FileKind.TIME_INDEX):
            from kcli.commands.dump.indexes import IndexDump

            index = IndexDump(file, self._options, self._view, self._errors)
            if file.kind is FileKind.INDEX:
                index.offset_index()
            else:
                index.time_index()
            return index.problems
        return self._read_small_file(file)

    def _read_small_file(self, file: DumpFile) -> int:
        from kcli.commands.dump.small_files import DamagedFile, rows_of

        try:
            for row in rows_of(file):
                self._view.row(row)
        except DamagedFile as error:
            self._errors.damaged_file(error.message)
            self._view.problem("damaged_file", {"message": error.message})
            return 1
        return 0

    def _read_log(self, file: DumpFile, advance: Advance) -> int:
        with SegmentFile(file.path):
            self._view.log_begins(file)
        rest = LocalDump(file, self._options, self._view, advance)
        if self._ranges is not None and self._ranges.takes(file):
            self._ranges.run(file, advance, rest.read_on)
        else:
            rest.read()
        if rest.segment is None:
            return 0
        self._can_go_on |= rest.segment.can_go_on
        self._damages_outside += rest.segment.damages_outside
        return rest.segment.damages

    def result(self) -> list[KcliError]:
        """Return the errors to end the command with, none if all files were read and are sound."""
        from kcli.commands.shared.formatting import counted

        failures = [*self.failures]
        if self.problems:
            places = f"{counted(self.problems, 'problem')} in {counted(self.damaged_files, 'file')}"
            hint = HINT_TO_GO_ON if self._can_go_on else HINT
            failures.append(ChecksFailed(places, hint=hint.format(shlex.quote(self._damaged_directory))))
        if self._options.decoder.failures:
            values = counted(self._options.decoder.failures, "value")
            failures.append(KcliError(f"the decoder cannot read {values}"))
        return failures


class LocalDump:
    """Dumps a log, or parts of it, in this process; imports what that needs only when it is called."""

    def __init__(self, file: DumpFile, options: DumpOptions, view: DumpView, advance: Advance) -> None:
        self._file = file
        self._options = options
        self._view = view
        self._advance = advance
        self.segment: SegmentDump | None = None

    def read(self) -> None:
        """Dump the whole log. Raises `OSError`."""
        self._dump().run(self._advance)

    def read_on(self, last: RangeEnd, stop: int | None) -> RangeEnd:
        """Dump what follows a range, up to `stop` if it is given. Raises `OSError`."""
        from kcli.commands.dump.segment import Shown
        from kcli.forensics.ranges.log_ranges import RangeEnd

        shown = self._dump().run(self._advance, Shown(last.last_offset, last.next_position), stop)
        return RangeEnd(shown.last_offset, shown.next_position)

    def _dump(self) -> SegmentDump:
        from kcli.commands.dump.segment import SegmentDump

        if self.segment is None:
            self.segment = SegmentDump(self._file, self._options, self._view)
        return self.segment


def total_bytes(files: Sequence[DumpFile]) -> int | None:
    """Return the bytes of logs to read, None if they are too few for a progress bar."""
    total = 0
    for file in files:
        if file.kind in LOGS:
            try:
                total += os.stat(file.path).st_size
            except OSError:
                continue  # reading the file reports it
    return total if total >= LONG_BYTES else None
