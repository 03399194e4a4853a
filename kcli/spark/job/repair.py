"""Repair: a lost commit log, made again from the footers of the files.

One commit then lists all files, in place of those that are lost. Plans are committed one after the other, so
only the last can have been unfinished when the log was lost. If its commit file is there, damaged or not, it
was finished. If its plan is there and no commit, the next run goes on with it as always. If both are lost,
its files count up to the first hole in what it read of each partition: beyond that they are removed, and
exported again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError
from kcli.spark.job.commit import Commit
from kcli.spark.job.export_log import DamagedLog, ExportLog, read_commit, read_identity, read_plan
from kcli.spark.job.export_session import wall_ms
from kcli.spark.job.failures import TargetRefused
from kcli.spark.job.file_names import parsed_name, published_path
from kcli.spark.job.footer import BadFooter, read_footer
from kcli.spark.job.lock import locked
from kcli.spark.job.overwriting import remove_dropped
from kcli.spark.job.receipt import Counters, WrittenFile
from kcli.spark.job.state_paths import IDENTITY, LOG, STATE, number_in, plan_path
from kcli.spark.split import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.spark.job.footer import Footer
    from kcli.spark.job.identity import Identity
    from kcli.spark.job.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was made again."""

    target: str
    commit: int | None
    """The commit that was written; None if nothing was wrong."""
    files: int
    rows: int
    removed: tuple[str, ...] = ()
    """Files of a plan that may not have been finished: their offsets are exported again."""
    next_offsets: dict[str, dict[int, int]] = field(default_factory=dict)


class _Found(NamedTuple):
    """A data file of the target."""

    path: str
    size_bytes: int
    footer: Footer

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.footer.topic, self.footer.partition)


def repair_export(target: Target) -> Repair:
    """Make the commit log again from what the files' footers say; raise `TargetRefused` if there are none."""
    if target.size(IDENTITY) is None and not target.list(LOG) and not _data_files(target):
        raise TargetRefused(f"`{target.uri}` holds no export")
    with locked(target, wall_ms):
        if _is_whole(target):
            return Repair(target=target.uri, commit=None, files=0, rows=0)
        return _Repairing(target).run()


def _is_whole(target: Target) -> bool:
    """Return whether the log can be read, and is not empty where there are files."""
    try:
        log = ExportLog.load(target)
        log.live_commits()
    except DamagedLog:
        return False
    return bool(log.commits) or log.pending is not None or not _data_files(target)


def _data_files(target: Target) -> dict[str, int]:
    """Return the data files of a target, temporary ones too, and their sizes."""
    return {
        entry.path: entry.size_bytes
        for entry in target.list("", recursive=True)
        if parsed_name(entry.path) and not entry.path.startswith(f"{STATE}/")
    }


class _Repairing:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._numbers: dict[str, set[int]] = {"plan": set(), "commit": set()}
        for entry in target.list(LOG):
            found = number_in(entry.path.rpartition("/")[2])
            if found:
                self._numbers[found[1]].add(found[0])
        self._removed: list[str] = []

    def run(self) -> Repair:
        """Write the commit, then remove what it stands for."""
        files = self._believed(self._read())
        if not files:
            raise TargetRefused(f"`{self._target.uri}` holds no files of an export")
        last = max(files, key=lambda file: file.footer.plan)
        known = self._last_commit()
        number = max(last.footer.plan, *self._numbers["commit"], 0)
        next_offsets = _next_offsets(files, known)
        commit = Commit(
            number=number,
            plan_id="repaired",
            committed_ms=wall_ms(),
            overwrites=True,
            topics={**_topics(files), **(known.topics if known else {})},
            ranges={},
            next_offsets=next_offsets,
            splits=0,
            files=tuple(_written(file) for file in files),
            counters=Counters(rows=sum(file.footer.rows for file in files)),
            gaps=known.gaps if known else (),
        )
        self._write(commit, last.footer.identity)
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in sorted(next_offsets.items()):
            by_topic.setdefault(topic, {})[partition] = offset
        return Repair(
            target=self._target.uri,
            commit=number,
            files=len(files),
            rows=commit.counters.rows,
            removed=tuple(self._removed),
            next_offsets=by_topic,
        )

    def _write(self, commit: Commit, identity: Identity) -> None:
        try:
            present = read_identity(self._target)
        except DamagedLog:
            present = None
        log = ExportLog(self._target, present, sorted(self._numbers["commit"]), None)
        if present is None:
            log.write_identity(identity)
        log.write_commit(commit)
        for number in self._numbers["plan"] - self._numbers["commit"]:
            if number <= commit.number:
                self._target.remove(plan_path(number))
        log.commits = sorted(set(log.commits))
        remove_dropped(log)

    def _last_commit(self) -> Commit | None:
        """Return the newest commit if it can be read: it knows where partitions stand."""
        try:
            return read_commit(self._target, max(self._numbers["commit"], default=0))
        except DamagedLog:
            return None

    def _read(self) -> list[_Found]:
        """Return the files with their footers; publish what was only to be renamed."""
        found = []
        sizes = _data_files(self._target)
        for path, size in sizes.items():
            name = parsed_name(path)
            assert name is not None
            if self._is_pending(name.plan):
                continue
            try:
                footer = read_footer(self._target, path)
            except BadFooter as error:
                if not name.is_temporary:
                    raise KcliError(
                        error.message, hint="remove the file if its rows may be exported again"
                    ) from error
                self._target.remove(path)
                continue
            found.append(_Found(path, size, footer))
        return found

    def _is_pending(self, plan: int) -> bool:
        """Return whether a plan is there, not committed, and so is left to the next run."""
        last = max(self._numbers["plan"], default=0)
        if plan != last or plan <= max(self._numbers["commit"], default=0):
            return False
        try:
            read_plan(self._target, plan)
        except DamagedLog:
            return False
        return True

    def _believed(self, files: list[_Found]) -> list[_Found]:
        """Return the files that count, published; remove the others."""
        last = max((file.footer.plan for file in files), default=0)
        # Whoever planned more had committed it.
        is_committed = last <= max(self._numbers["commit"], default=0) or last < max(
            self._numbers["plan"], default=0
        )
        kept: list[_Found] = []
        by_partition: dict[TopicPartition, list[_Found]] = {}
        for file in files:
            is_temporary = file.path != _final_path(file)
            if file.footer.plan == last and not is_committed:
                by_partition.setdefault(file.partition, []).append(file)
            elif is_temporary:  # of an attempt that lost
                self._remove(file)
            else:
                kept.append(file)
        for found in by_partition.values():
            kept += self._up_to_hole(found)
        return sorted(kept, key=lambda file: (file.footer.plan, file.path))

    def _up_to_hole(self, files: list[_Found]) -> list[_Found]:
        """Return one partition's files of an uncertain plan as far as they follow on each other."""
        kept: list[_Found] = []
        reached = files[0].footer.planned.start
        by_start: dict[int, list[_Found]] = {}
        for file in files:
            by_start.setdefault(file.footer.start, []).append(file)
        for start in sorted(by_start):
            found = by_start[start]
            if start == reached and _is_one_attempt(found):
                kept += [self._published(file) for file in found]
                reached = found[0].footer.end
            else:
                for file in found:
                    self._remove(file)
        return kept

    def _published(self, file: _Found) -> _Found:
        path = _final_path(file)
        if path != file.path:
            self._target.rename(file.path, path)
        return file._replace(path=path)

    def _remove(self, file: _Found) -> None:
        self._target.remove(file.path)
        self._removed.append(file.path)


def _is_one_attempt(files: list[_Found]) -> bool:
    """Return whether the files of a split are those of one attempt, some of which were not yet renamed.

    A task renames when it has its receipt, so that a final name beside temporary ones says that they were
    all written. Temporary names alone say nothing, and two for the same place are of two attempts.
    """
    places = [_final_path(file) for file in files]
    return len(set(places)) == len(places) and any(file.path == _final_path(file) for file in files)


def _final_path(file: _Found) -> str:
    name = parsed_name(file.path)
    return published_path(file.path) if name is not None and name.is_temporary else file.path


def _next_offsets(files: Iterable[_Found], known: Commit | None) -> dict[TopicPartition, int]:
    """Return where partitions go on: where the last commit says, else behind their last plan's files."""
    reached: dict[TopicPartition, tuple[int, int]] = {}
    for file in files:
        place = (file.footer.plan, file.footer.end)
        reached[file.partition] = max(place, reached.get(file.partition, place))
    found = {partition: end for partition, (_, end) in reached.items()}
    return found if known is None else {**found, **known.next_offsets}


def _topics(files: Iterable[_Found]) -> dict[str, str | None]:
    topics: dict[str, str | None] = {}
    for file in files:
        topics |= file.footer.identity.topics
    return topics


def _written(file: _Found) -> WrittenFile:
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
    )
