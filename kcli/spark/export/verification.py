"""Verification: whether the committed files exist and hold what the log says.

Every byte of a file is read and compared with the checksum in its commit. Files without a checksum are
checked by reading their pages, which may miss a changed value.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from kcli.spark.export.log.export_log import load_export
from kcli.spark.export.target.layout import OLD_LOGS, STATE, parsed_name
from kcli.spark.export.writing.data_file import BadFooter, checksum, damage_of, read_footer, unreadable_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.spark.export.log.commit import Commit
    from kcli.spark.export.log.export_log import ExportLog
    from kcli.spark.export.log.receipt import WrittenFile
    from kcli.spark.export.target.target import Target


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    target: str
    files: int
    rows: int
    bytes: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def verify_export(target: Target) -> Verification:
    """Check existence, size, footer and bytes of every committed file; find files that no commit names."""
    log = load_export(target)
    commits, live = log.live_commits(), log.live_files()
    problems = [problem for commit in commits for problem in _overlaps(commit)]
    checked = [(one.commit, one.file) for one in live]
    checked += [(commit, file) for commit in commits for file in commit.dead_letters]
    for commit, file in checked:
        reason = _wrong_with(target, commit, file)
        if reason:
            problems.append(Problem(file.path, reason))
    files = [one.file for one in live if not one.is_of_old_log]
    problems += _strays(target, log, {file.path for file in files})
    notes = []
    old = len(live) - len(files)
    if old:
        where = f"{target.state_uri}{OLD_LOGS.removeprefix(STATE)}"
        notes.append(f"files of old logs, of topics that were made again or truncated: {old} in {where}")
    unchecked = sum(file.crc32c is None for _, file in checked)
    if unchecked:
        notes.append(f"files without a checksum, of which changed values may go unnoticed: {unchecked}")
    if log.pending is not None:
        notes.append(f"plan {log.pending.number} is not finished: the next export goes on with it")
    return Verification(
        target=target.uri,
        files=len(files),
        rows=sum(file.rows for file in files),
        bytes=sum(file.size_bytes for file in files),
        problems=tuple(problems),
        notes=tuple(notes),
    )


def _wrong_with(target: Target, commit: Commit, file: WrittenFile) -> str | None:
    """Return what is wrong with a committed file, None if it is right."""
    size = target.size(file.path)
    if size is None:
        return "missing"
    if size != file.size_bytes:
        return f"{size} bytes instead of {file.size_bytes}"
    # First the checksum: some damaged footers crash pyarrow, and the process with it.
    return (
        _wrong_bytes(target, file)
        or _wrong_footer(target, file, commit=commit)
        or (unreadable_page(target, file.path) if file.crc32c is None else None)
    )


def _wrong_footer(target: Target, file: WrittenFile, *, commit: Commit) -> str | None:
    try:
        footer = read_footer(target, file.path)
    except BadFooter as error:
        return error.message
    if footer[:4] != (file.topic, file.partition, file.start, file.end) or footer.parts != file.parts:
        return f"it holds offsets {footer.start} to {footer.end} of {footer.topic}-{footer.partitions}"
    # After a repair, a copy may be of the plan that the next run finishes.
    is_later = footer.plan > commit.number and not (commit.overwrites and file.copy_of)
    if is_later or (footer.plan < commit.number and not commit.overwrites):
        return f"it is of plan {footer.plan} and not {commit.number}"
    if footer.rows != file.rows:
        return f"{footer.rows} rows instead of {file.rows}"
    if footer.first_offset is not None and footer.last_offset is not None:
        low, high = footer.first_offset, footer.last_offset
        if low < file.start or high >= file.end:
            return f"offsets {low} to {high} outside of {file.start} to {file.end}"
    return None


def _wrong_bytes(target: Target, file: WrittenFile) -> str | None:
    if file.crc32c is None:
        return None
    try:
        found = checksum(target, file.path)
    except OSError as error:
        return f"cannot be read: {damage_of(error)}"
    if found != file.crc32c:
        return f"its checksum is 0x{found:08x}, the commit says 0x{file.crc32c:08x}"
    return None


def _overlaps(commit: Commit) -> Iterator[Problem]:
    """Yield the files of a commit whose offsets another split has too."""
    if commit.overwrites:  # a repair's commit has files of many plans, and of topics that were created again
        return
    ordered = sorted(
        (file.topic, one.partition, one.start, one.end, file.path)
        for file in commit.files
        for one in file.pieces
    )
    for (*of_before, low, high, before), (*of, start, end, path) in pairwise(ordered):
        if of_before == of and (low, high) != (start, end) and start < high:
            yield Problem(path, f"its offsets begin before `{before}` ends")


def _strays(target: Target, log: ExportLog, committed: set[str]) -> Iterator[Problem]:
    """Yield data files that neither a commit nor the pending plan names."""
    for entry in target.list("", recursive=True):
        name = parsed_name(entry.path)
        if name is None or entry.path in committed or entry.path.startswith(f"{STATE}/"):
            continue
        if name.plan < log.next_number:
            reason = "left over" if name.is_temporary else "no commit knows of it, but readers find it"
            yield Problem(entry.path, reason)
