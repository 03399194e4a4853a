"""Repair: a lost commit log, made again from the footers of the files.

One commit then lists all files that count (`kcli.spark.job.repair_files`), in place of those that are lost.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.spark.job.commit import Commit
from kcli.spark.job.export_log import DamagedLog, ExportLog, read_commit, read_identity
from kcli.spark.job.export_session import wall_ms
from kcli.spark.job.failures import TargetRefused
from kcli.spark.job.lock import locked
from kcli.spark.job.overwriting import remove_dropped
from kcli.spark.job.receipt import Counters, WrittenFile
from kcli.spark.job.repair_files import FoundFiles, data_files
from kcli.spark.job.state_paths import IDENTITY, LOG, commit_path, plan_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.spark.job.identity import Identity
    from kcli.spark.job.repair_files import FoundFile, Known
    from kcli.spark.job.target import Target
    from kcli.spark.split import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was made again."""

    target: str
    commit: int | None
    """The commit that was written; None if nothing was wrong, or nothing is left that counts."""
    files: int
    rows: int
    removed: tuple[str, ...] = ()
    """Files of a plan that may not have been finished, now under `_kcli/set-aside/`: their offsets are
    exported again."""
    next_offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    begins_afresh: bool = False
    """Whether nothing is left that counts, so that the next export is the first."""


def repair_export(target: Target) -> Repair:
    """Make the commit log again from the files' footers and what is left of it; refuse what is no export."""
    if target.size(IDENTITY) is None and not target.list(LOG) and not data_files(target):
        raise TargetRefused(f"`{target.uri}` holds no export")
    with locked(target, wall_ms):
        if _is_whole(target):
            return Repair(target=target.uri, commit=None, files=0, rows=0)
        return _repaired(target)


def _is_whole(target: Target) -> bool:
    """Return whether the log can be read, and is not empty where there are files."""
    try:
        log = ExportLog.load(target)
        log.live_commits()
    except DamagedLog:
        return False
    return bool(log.commits) or log.pending is not None or not data_files(target)


def _repaired(target: Target) -> Repair:
    found = FoundFiles(target)
    files = found.believed()
    identity = _present_identity(target) or found.identity(files)
    commit = _commit_of(target, found, files) if identity and found.last_finished(files) else None
    _write(target, found, commit, identity)
    if commit is None:
        removed = tuple(found.set_aside)
        return Repair(target=target.uri, commit=None, files=0, rows=0, removed=removed, begins_afresh=True)
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in sorted(commit.next_offsets.items()):
        by_topic.setdefault(topic, {})[partition] = offset
    return Repair(
        target=target.uri,
        commit=commit.number,
        files=len(files),
        rows=commit.counters.rows,
        removed=tuple(found.set_aside),
        next_offsets=by_topic,
    )


def _commit_of(target: Target, found: FoundFiles, files: list[FoundFile]) -> Commit:
    known = found.known(files)
    readable = _readable_commits(target, found)
    checksums = {file.path: file.crc32c for one in readable for file in one.files}
    topics = {name: one for file in files for name, one in file.footer.identity.topics.items()}
    return Commit(
        number=found.last_finished(files),
        plan_id="repaired",
        committed_ms=wall_ms(),
        overwrites=True,
        topics={**topics, **(known.topics if known else {})},
        ranges={},
        next_offsets=_next_offsets(files, known, found.uncertain_plan(files)),
        splits=0,
        files=tuple(_written(file, checksums.get(file.path)) for file in files),
        # All of them: the target has these rows nowhere else.
        dead_letters=tuple(letter for one in readable for letter in one.dead_letters),
        counters=Counters(rows=sum(file.footer.rows for file in files)),
        gaps=known.gaps if known else (),
    )


def _readable_commits(target: Target, found: FoundFiles) -> list[Commit]:
    """Return what is left of the log."""
    commits: list[Commit] = []
    for number in sorted(found.commits):
        with suppress(DamagedLog):
            commits.append(read_commit(target, number))
    return commits


def _next_offsets(
    files: Iterable[FoundFile], known: Known | None, uncertain: int | None
) -> dict[TopicPartition, int]:
    """Return where partitions go on: where the log still says, or their last plan, or its files end."""
    since = known.number if known else 0
    reached: dict[TopicPartition, tuple[int, int]] = {}
    for file in files:
        footer = file.footer
        if footer.plan > since:
            place = (footer.plan, footer.end if footer.plan == uncertain else footer.planned.end)
            reached[file.partition] = max(place, reached.get(file.partition, place))
    found = {partition: end for partition, (_, end) in reached.items()}
    return {**(known.next_offsets if known else {}), **found}


def _write(target: Target, found: FoundFiles, commit: Commit | None, identity: Identity | None) -> None:
    """Write the commit if anything was finished, then remove the log that it stands for."""
    log = ExportLog(target, identity, sorted(found.commits), None)
    if identity is None:
        target.remove(IDENTITY)
    elif identity != _present_identity(target):
        log.write_identity(identity)
    if commit is not None:
        log.write_commit(commit)
    for number in found.plans - found.commits - {found.pending}:
        target.remove(plan_path(number))
    log.commits = sorted(set(log.commits))
    if commit is not None:
        remove_dropped(log)
    else:
        for number in found.commits:
            target.remove(plan_path(number))
            target.remove(commit_path(number))


def _present_identity(target: Target) -> Identity | None:
    try:
        return read_identity(target)
    except DamagedLog:
        return None


def _written(file: FoundFile, crc32c: int | None) -> WrittenFile:
    footer = file.footer
    return WrittenFile(
        path=file.path,
        temporary=None,
        topic=footer.topic,
        partition=footer.partition,
        start=footer.start,
        end=footer.end,
        rows=footer.rows,
        size_bytes=file.size_bytes,
        first_offset=footer.first_offset,
        last_offset=footer.last_offset,
        crc32c=crc32c,
    )
