"""DumpRun: dumps files one after the other, and counts what was wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.commands.dump_files import DumpFile, FileKind
from kcli.commands.dump_indexes import IndexDump
from kcli.commands.dump_segment import SegmentDump
from kcli.commands.dump_small_files import DamagedFile, rows_of
from kcli.commands.progress import Advance, progress_bar
from kcli.errors import ChecksFailed, KcliError

if TYPE_CHECKING:
    from kcli.commands.dump_complaints import Complaints
    from kcli.commands.dump_options import DumpOptions
    from kcli.commands.dump_view import DumpView

LONG_BYTES = 64 * 1024 * 1024
"""From how many bytes on there is a progress bar: rich takes longer to load than the others take to read."""

LOGS = (FileKind.LOG, FileKind.METADATA_SNAPSHOT)


class DumpRun:
    """Tells a view of files; `failures` are those not read, `problems` what is wrong in the others."""

    def __init__(self, options: DumpOptions, view: DumpView, complaints: Complaints) -> None:
        self.failures: list[KcliError] = []
        self.problems = 0
        self.damaged_files = 0
        self._options = options
        self._view = view
        self._complaints = complaints

    def run(self, found: Sequence[DumpFile | KcliError]) -> None:
        """Dump what was found, in order."""
        with progress_bar("dump-log", total_bytes(found)) as advance:
            for file in found:
                if isinstance(file, KcliError):
                    self.failures.append(file)
                else:
                    self._dump(file, advance)
            self._view.close()

    def _dump(self, file: DumpFile, advance: Advance) -> None:
        self._view.file_begins(file)
        try:
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
            segment = SegmentDump(file, self._options, self._view)
            segment.run(advance)
            return segment.damages
        if file.kind in (FileKind.INDEX, FileKind.TIME_INDEX):
            index = IndexDump(file, self._options, self._view, self._complaints)
            if file.kind is FileKind.INDEX:
                index.offset_index()
            else:
                index.time_index()
            return index.problems
        try:
            for row in rows_of(file):
                self._view.row(row)
        except DamagedFile as error:
            self._complaints.damaged_file(error.message)
            self._view.complaint("damaged_file", {"message": error.message})
            return 1
        return 0

    def result(self) -> list[KcliError]:
        """Return what ends the command: nothing if all was read and is well."""
        failures = [*self.failures]
        if self.problems:
            places = "1 problem" if self.problems == 1 else f"{self.problems} problems"
            files = "1 file" if self.damaged_files == 1 else f"{self.damaged_files} files"
            failures.append(ChecksFailed(f"{places} in {files}", hint="kcli dump-log --help explains them"))
        if self._options.decoder.failures:
            count = self._options.decoder.failures
            failures.append(KcliError(f"{count} keys or values are not what the decoder reads"))
        return failures


def total_bytes(found: Sequence[DumpFile | KcliError]) -> int | None:
    """Return how much there is to read, None if a progress bar is not worth it or would be in the way."""
    if sys.stdout.isatty():
        return None
    total = 0
    for file in found:
        if isinstance(file, DumpFile) and file.kind in LOGS:
            try:
                total += os.stat(file.path).st_size
            except OSError:
                continue  # whoever reads it will tell
    return total if total >= LONG_BYTES else None
