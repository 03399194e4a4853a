"""Repair: rebuilds a lost commit log from the footers of the files, as one commit of all that count.

Plans are committed one after the other, so only the last one can have been unfinished when the log was lost:

- its commit file exists, damaged or not: it was finished;
- its plan exists without a commit: the next run goes on with it;
- neither exists: its files count up to the first hole in what it read of each partition.

Files behind the hole are moved to `_kcli/set-aside/`, and their offsets are exported again. So are files of
an attempt that did not end, and of a second attempt: an object store shows files as soon as they are written,
and only the last file of a split tells how many there are.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from kcli.spark.export.export_session import wall_ms
from kcli.spark.export.failures import TargetRefused
from kcli.spark.export.log.commit import Commit
from kcli.spark.export.log.export_log import DamagedLog, ExportLog, read_commit, read_identity, read_plan
from kcli.spark.export.log.lock import locked
from kcli.spark.export.log.receipt import Counters, WrittenFile
from kcli.spark.export.target.layout import (
    IDENTITY,
    LOG,
    SET_ASIDE,
    STATE,
    commit_path,
    number_in,
    parsed_name,
    plan_path,
    published_path,
)
from kcli.spark.export.writing.data_file import BadFooter, read_footer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.spark.export.log.commit import Gap
    from kcli.spark.export.options import Identity
    from kcli.spark.export.target.target import Target
    from kcli.spark.export.writing.data_file import Footer


class FoundFile(NamedTuple):
    path: str
    size_bytes: int
    footer: Footer

    @property
    def partitions(self) -> tuple[str, str]:
        """Return the topic and the partition; of a shared file the first and the last partition."""
        return self.footer.topic, self.footer.partitions

    @property
    def planned_ends(self) -> dict[TopicPartition, int]:
        """Return where the plan that read it ends each partition."""
        footer = self.footer
        if footer.parts:  # of whole ranges of the plan
            return {TopicPartition(footer.topic, one.partition): one.end for one in footer.parts}
        return {TopicPartition(footer.topic, footer.partition): footer.planned.end}

    @property
    def final_path(self) -> str:
        name = parsed_name(self.path)
        return published_path(self.path) if name is not None and name.is_temporary else self.path


def data_files(target: Target) -> dict[str, int]:
    """Return the data files of a target, including temporary ones, with their sizes."""
    return {
        entry.path: entry.size_bytes
        for entry in target.list("", recursive=True)
        if parsed_name(entry.path) and not entry.path.startswith(f"{STATE}/")
    }


class Known(NamedTuple):
    """What the log still says of a finished plan."""

    number: int
    next_offsets: Mapping[TopicPartition, int]
    topics: Mapping[str, str | None]
    gaps: tuple[Gap, ...]


class FoundFiles:
    """The files of a target and its log, as they are found."""

    def __init__(self, target: Target) -> None:
        self.plans: set[int] = set()
        self.commits: set[int] = set()
        self.set_aside: list[str] = []
        """The files that do not count."""
        self._target = target
        for entry in target.list(LOG):
            found = number_in(entry.path.rpartition("/")[2])
            if found:
                (self.plans if found[1] == "plan" else self.commits).add(found[0])
        self.pending = self._pending()
        """The plan that the next run finishes."""

    def believed(self) -> list[FoundFile]:
        """Return the files that count, published, by plan; set the others aside."""
        files = self._read()
        uncertain = self.uncertain_plan(files)
        copies, files = self._copies(files, uncertain)
        kept: list[FoundFile] = copies
        by_partition: dict[tuple[str, str], list[FoundFile]] = {}
        for file in files:
            if file.footer.plan == uncertain:
                by_partition.setdefault(file.partitions, []).append(file)
            elif file.path == file.final_path:
                kept.append(file)
            else:  # of an attempt that lost
                self._target.remove(file.path)
        if not self._target.renames:
            kept = self._one_attempt_each(kept)
        for found in by_partition.values():
            kept += self._up_to_hole(found)
        return sorted(kept, key=lambda file: (file.footer.plan, file.path))

    def _copies(
        self, files: list[FoundFile], uncertain: int | None
    ) -> tuple[list[FoundFile], list[FoundFile]]:
        """Return the copies that count instead of the files that they are of, and the other files.

        The originals are retired after the commit. An original that is there counts if that plan may be
        unfinished.
        """
        copies = {file.footer.copy_of: file for file in files if file.footer.copy_of is not None}
        originals = {file.path: file for file in files if file.path in copies}
        kept, dropped = [], []
        for path, copy in copies.items():
            may_be_unfinished = copy.footer.plan in (uncertain, self.pending)
            if path in originals and (may_be_unfinished or copy.path != copy.final_path):
                dropped.append(copy)
            else:
                kept.append(copy)
                dropped += [originals[path]] if path in originals else []
        self._set_aside(dropped)
        gone = {file.path for file in (*kept, *dropped)}
        return kept, [file for file in files if file.path not in gone]

    def uncertain_plan(self, files: list[FoundFile]) -> int | None:
        """Return the plan that may be unfinished; every plan before it was committed."""
        last = max(self._numbers(files), default=0)
        return last if last > max(self.commits, default=0) and last >= max(self.plans, default=0) else None

    def last_finished(self, files: Iterable[FoundFile]) -> int:
        """Return the last finished plan, 0 without one: a plan is finished before the next is made."""
        before = self.pending - 1 if self.pending else 0
        return max(before, *self.commits, *self._numbers(files), 0)

    def _numbers(self, files: Iterable[FoundFile]) -> list[int]:
        """Return the plans of files, but for one that the next run finishes."""
        return [file.footer.plan for file in files if file.footer.plan != self.pending]

    def known(self, files: list[FoundFile]) -> Known | None:
        """Return what the newest readable commit or plan says of a finished plan."""
        last, uncertain = self.last_finished(files), self.uncertain_plan(files)
        for number in range(last, 0, -1):
            if number != uncertain:
                with suppress(DamagedLog):
                    commit = read_commit(self._target, number)
                    return Known(number, commit.next_offsets, commit.topics, commit.gaps)
                with suppress(DamagedLog):
                    plan = read_plan(self._target, number)
                    return Known(number, plan.next_offsets, plan.identity.topics, plan.gaps)
        return None

    def identity(self, files: list[FoundFile]) -> Identity | None:
        """Return the identity in the newest file, or in a readable plan."""
        if files:
            return files[-1].footer.identity
        for number in sorted(self.plans, reverse=True):
            with suppress(DamagedLog):
                return read_plan(self._target, number).identity
        return None

    def _read(self) -> list[FoundFile]:
        """Return the files with their footers, without what a plan has read that the next run finishes."""
        found = []
        for path, size in data_files(self._target).items():
            name = parsed_name(path)
            assert name is not None
            if name.plan == self.pending and not name.is_copy:
                continue
            try:
                found.append(FoundFile(path, size, read_footer(self._target, path)))
            except BadFooter as error:
                if not name.is_temporary:
                    hint = "remove the file if its rows may be exported again"
                    raise KcliError(error.message, hint=hint) from error
                self._target.remove(path)
        return found

    def _pending(self) -> int | None:
        """Return the plan without a commit, if it is readable."""
        last = max(self.plans, default=0)
        if last <= max(self.commits, default=0):
            return None
        with suppress(DamagedLog):
            read_plan(self._target, last)
            return last
        return None

    def _up_to_hole(self, files: list[FoundFile]) -> list[FoundFile]:
        """Return a partition's files of an unfinished plan up to the first hole; of partitions that share
        files, all or none."""
        kept: list[FoundFile] = []
        reached = files[0].footer.planned.start
        by_start: dict[int, list[FoundFile]] = {}
        for file in files:
            by_start.setdefault(file.footer.start, []).append(file)
        for start in sorted(by_start):
            found = by_start[start]
            whole = self._whole_attempt(found) if start == reached else []
            if whole:
                kept += [self._published(file) for file in whole]
                reached = whole[0].footer.end
            self._set_aside(file for file in found if file not in whole)
        return kept

    def _whole_attempt(self, files: list[FoundFile]) -> list[FoundFile]:
        """Return the files of one attempt that wrote a whole split; empty without one."""
        if self._target.renames:
            return files if _is_one_attempt(files) else []
        return next((found for found in _attempts(files) if _says_all(found)), [])

    def _one_attempt_each(self, files: list[FoundFile]) -> list[FoundFile]:
        """Return the files of finished plans, without those of a second attempt at a split."""
        kept: list[FoundFile] = []
        by_split: dict[tuple[int, tuple[str, str], int], list[FoundFile]] = {}
        for file in files:
            by_split.setdefault((file.footer.read_by, file.partitions, file.footer.start), []).append(file)
        for found in by_split.values():
            attempts = _attempts(found)
            chosen = next(filter(_says_all, attempts), attempts[0]) if len(attempts) > 1 else found
            kept += chosen
            self._set_aside(file for file in found if file not in chosen)
        return kept

    def _set_aside(self, files: Iterable[FoundFile]) -> None:
        for file in files:
            self._target.rename(file.path, f"{SET_ASIDE}/{file.path}")
            self.set_aside.append(file.path)

    def _published(self, file: FoundFile) -> FoundFile:
        if file.path != file.final_path:
            self._target.rename(file.path, file.final_path)
        return file._replace(path=file.final_path)


def _attempts(files: list[FoundFile]) -> list[list[FoundFile]]:
    """Return the files of a split by attempt, whose id is in their names."""
    found: dict[str, list[FoundFile]] = {}
    for file in files:
        name = parsed_name(file.path)
        found.setdefault((name and name.attempt) or "", []).append(file)
    return [found[attempt] for attempt in sorted(found)]


def _says_all(files: list[FoundFile]) -> bool:
    """Return whether an attempt wrote its last file, and all files exist."""
    return any(file.footer.files == len(files) for file in files)


def _is_one_attempt(files: list[FoundFile]) -> bool:
    """Return whether the files of a split are those of one attempt, some of them not yet renamed.

    A task renames when it has its receipt, so one final name beside temporary ones proves that all were
    written. Temporary names alone prove nothing, and two for one place are of two attempts.
    """
    places = [file.final_path for file in files]
    return len(set(places)) == len(places) and any(file.path == file.final_path for file in files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    target: str
    commit: int | None
    """The new commit; None if nothing was wrong, or no file counts."""
    files: int
    rows: int
    removed: tuple[str, ...] = ()
    """Files of an unfinished plan, now in `_kcli/set-aside/`; their offsets are exported again."""
    next_offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    begins_afresh: bool = False
    """Whether no file counts, so that the next export is the first."""


def repair_export(target: Target) -> Repair:
    """Rebuild the commit log from footers and the rest of the log; raise `TargetRefused` without one."""
    if target.size(IDENTITY) is None and not target.list(LOG) and not data_files(target):
        raise TargetRefused(f"`{target.uri}` holds no export")
    with locked(target, wall_ms):
        if _is_whole(target):
            return Repair(target=target.uri, commit=None, files=0, rows=0)
        return _repaired(target)


def _is_whole(target: Target) -> bool:
    """Return whether the log can be read, and is not empty if there are files."""
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
        # All columns: the target has these rows nowhere else.
        dead_letters=tuple(letter for one in readable for letter in one.dead_letters),
        counters=Counters(rows=sum(file.footer.rows for file in files)),
        gaps=known.gaps if known else (),
    )


def _readable_commits(target: Target, found: FoundFiles) -> list[Commit]:
    commits: list[Commit] = []
    for number in sorted(found.commits):
        with suppress(DamagedLog):
            commits.append(read_commit(target, number))
    return commits


def _next_offsets(
    files: Iterable[FoundFile], known: Known | None, uncertain: int | None
) -> dict[TopicPartition, int]:
    """Return the next offset of each partition: from the log, its last plan, or the end of its files."""
    since = known.number if known else 0
    reached: dict[TopicPartition, tuple[int, int]] = {}
    for file in files:
        footer = file.footer
        if footer.read_by > since:
            for partition, end in file.planned_ends.items():
                is_partial = footer.plan == uncertain and not footer.parts
                place = (footer.read_by, footer.end if is_partial else end)
                reached[partition] = max(place, reached.get(partition, place))
    found = {partition: end for partition, (_, end) in reached.items()}
    return {**(known.next_offsets if known else {}), **found}


def _write(target: Target, found: FoundFiles, commit: Commit | None, identity: Identity | None) -> None:
    """Write the commit if a plan was finished, then remove the log that it replaces."""
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
        log.remove_dropped()
    else:
        for number in found.commits:
            target.remove(plan_path(number))
            target.remove(commit_path(number))


def _present_identity(target: Target) -> Identity | None:
    with suppress(DamagedLog):
        return read_identity(target)
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
        parts=footer.parts,
        copy_of=footer.copy_of,
    )
