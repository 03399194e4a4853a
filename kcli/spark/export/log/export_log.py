"""ExportLog: the identity of a target, its commits, and the plan that has no commit yet."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import KcliError
from kcli.spark.export.failures import TargetRefused
from kcli.spark.export.log.commit import Commit
from kcli.spark.export.log.plan import Plan
from kcli.spark.export.options import Identity, Mode
from kcli.spark.export.target.layout import (
    IDENTITY,
    LOG,
    STATE,
    commit_path,
    number_in,
    plan_path,
    receipts_path,
)
from kcli.spark.export.target.local_target import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeVar

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.export.log.receipt import WrittenFile
    from kcli.spark.export.target.target import Target
    from kcli.spark.split import BatchMark

    Stored = TypeVar("Stored")


class DamagedLog(KcliError):
    """A file of the log is missing or damaged."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="make the log again from the files with `--repair`")


def encoded(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def decoded(data: bytes, path: str, parse: Callable[[Any], Stored]) -> Stored:
    """Return the parsed content of a file of the log; raise `DamagedLog` if it is not what was written."""
    try:
        return parse(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedLog(f"damaged: `{path}`") from error


class LiveFile(NamedTuple):
    """A data file that counts, and its commit."""

    commit: Commit
    file: WrittenFile
    is_of_old_log: bool = False
    """Whether it was moved aside: its partition was read from the beginning again."""


class ExportLog:
    """The log of a target; read once under the lock, then kept up to date by its own writes."""

    def __init__(
        self, target: Target, identity: Identity | None, commits: list[int], last: Commit | None
    ) -> None:
        self.target = target
        self.identity = identity
        self.commits = commits
        """All numbers, ascending; commits that an overwriting one dropped may be among them."""
        self.last = last
        self.pending: Plan | None = None

    @classmethod
    def load(cls, target: Target) -> ExportLog:
        """Read a target's log; raise `DamagedLog` if it is incomplete."""
        numbers: dict[str, list[int]] = {"plan": [], "commit": []}
        for entry in target.list(LOG):
            found = number_in(entry.path.rpartition("/")[2])
            if found:
                numbers[found[1]].append(found[0])
        identity = read_identity(target)
        commits = sorted(numbers["commit"])
        log = cls(target, identity, commits, read_commit(target, commits[-1]) if commits else None)
        pending = sorted(set(numbers["plan"]) - set(commits))
        if identity is None and (commits or pending):
            raise DamagedLog(f"`{target.uri}` has lost `{IDENTITY}`")
        log.check_complete()
        if pending:
            if pending != [log.next_number]:
                raise DamagedLog(f"`{target.uri}` has lost the commit of plan {pending[0]}")
            log.pending = read_plan(target, pending[0])
        return log

    def check_complete(self) -> None:
        """Raise `DamagedLog` unless the numbers have no gap and begin with 1 or an overwriting commit."""
        if not self.commits:
            return
        first = self.commits[0]
        if self.commits != list(range(first, self.commits[-1] + 1)):
            raise DamagedLog(f"`{self.target.uri}` has lost a commit before number {self.commits[-1]}")
        if first > 1 and not read_commit(self.target, first).overwrites:
            raise DamagedLog(f"`{self.target.uri}` has lost the commits before number {first}")

    @property
    def has_plan(self) -> bool:
        """Whether there is a plan or commit. Asks the target: writing a plan may have been interrupted."""
        if self.commits or self.pending is not None:
            return True
        name = plan_path(self.next_number)
        return any(entry.path == name for entry in self.target.list(name.rpartition("/")[0]))

    @property
    def next_number(self) -> int:
        return self.commits[-1] + 1 if self.commits else 1

    @property
    def next_offsets(self) -> Mapping[TopicPartition, int]:
        return self.last.next_offsets if self.last else {}

    @property
    def marks(self) -> Mapping[TopicPartition, tuple[BatchMark, ...]]:
        """Return batches of each partition that its log still has, unless it is another log."""
        return self.last.marks if self.last else {}

    @property
    def topics(self) -> dict[str, str | None]:
        known = dict(self.identity.topics) if self.identity else {}
        return known | (self.last.topics if self.last else {})

    def live_commits(self) -> list[Commit]:
        """Return the commits whose files count, oldest first."""
        found: list[Commit] = []
        for number in reversed(self.commits):
            commit = (
                self.last if self.last and self.last.number == number else read_commit(self.target, number)
            )
            found.append(commit)
            if commit.overwrites:
                break
        return found[::-1]

    def live_files(self) -> list[LiveFile]:
        """Return the data files that count, oldest commit first, and those of old logs that are kept."""
        found: list[LiveFile] = []
        commits = self.live_commits()
        for position, commit in enumerate(commits):
            later = [one for one in commits[position + 1 :] if one.resets]
            for file in commit.files:
                reset = next((one for one in later if is_reset(file, one.resets)), None)
                if reset is None:
                    found.append(LiveFile(commit, file))
                elif reset.keeps_resets:
                    moved = replace(file, path=f"{reset.old_log}/{file.path}")
                    found.append(LiveFile(commit, moved, is_of_old_log=True))
        return found

    def write_plan(self, plan: Plan) -> None:
        """Write a plan, after the identity if it is the first."""
        if self.identity is None:
            self.write_identity(plan.identity)
        self.target.write_atomically(plan_path(plan.number), encoded(plan.to_json()))
        self.pending = plan

    def write_commit(self, commit: Commit) -> None:
        """Write the commit of the pending plan: its files count now."""
        if self.pending is not None and not commit.overwrites:
            self._adopt_schemas(self.pending.identity)
        self.target.write_atomically(commit_path(commit.number), encoded(commit.to_json()))
        self.commits.append(commit.number)
        self.last = commit
        self.pending = None

    def _adopt_schemas(self, present: Identity) -> None:
        """Make the schemas of a plan those of the target, just before its commit."""
        if self.identity is not None:
            adopted = self.identity.with_schemas(present)
            if adopted != self.identity:
                self.write_identity(adopted)

    def write_identity(self, identity: Identity) -> None:
        self.target.write_atomically(IDENTITY, encoded(identity.to_json()))
        self.identity = identity

    def check_whole(self) -> None:
        """Raise `TargetRefused` if there are data files and no plan or commit."""
        if self.commits or self.pending is not None:
            return
        for entry in self.target.list("", recursive=True):
            if entry.path.endswith(".parquet") and not entry.path.startswith(f"{STATE}/"):
                raise TargetRefused(
                    f"`{self.target.uri}` has lost its log: no commit knows of `{entry.path}`",
                    hint="make the log again from the files with `--repair`",
                )

    def check_mode(self, mode: Mode) -> None:
        """Raise `TargetRefused` for a snapshot into a target that holds an export."""
        if mode is Mode.SNAPSHOT and self.commits:
            raise TargetRefused(
                f"`{self.target.uri}` already holds an export",
                hint="add what is new with `--mode append`, or replace it with `--mode overwrite`",
            )

    def remove_dropped(self) -> None:
        """Remove the files and the log before an overwriting last commit; do nothing without one.

        A commit's own file goes last, so that the next run goes on with a removal that was interrupted.
        """
        last, target = self.last, self.target
        if last is None or not last.overwrites:
            return
        self._renew_identity(last)
        live = {file.path for file in (*last.files, *last.dead_letters)}
        directories = set()
        for number in [one for one in self.commits if one < last.number]:
            try:
                dropped = read_commit(target, number)
            except DamagedLog:  # a repair has listed the files in its own commit
                dropped = None
            for file in (*dropped.files, *dropped.dead_letters) if dropped else ():
                if file.path not in live:
                    target.remove(file.path)
                    directories.add(file.path.rpartition("/")[0])
            for entry in target.list(receipts_path(number)):
                target.remove(entry.path)
            target.remove_empty_directories(receipts_path(number))
            target.remove(plan_path(number))
            target.remove(commit_path(number))
            self.commits.remove(number)
        for directory in filter(None, directories):
            target.remove_empty_directories(directory)

    def retire_resets(self) -> None:
        """Move or remove earlier files of the partitions that the last commit began again.

        Does nothing where that is done. A plan is made only after it.
        """
        last, target = self.last, self.target
        if last is None or not last.resets or last.overwrites:
            return
        directories = set()
        for commit in self.live_commits()[:-1]:
            for file in commit.files:
                if not is_reset(file, last.resets):
                    continue
                if last.keeps_resets:
                    target.rename(file.path, f"{last.old_log}/{file.path}")
                else:
                    target.remove(file.path)
                directories.add(file.path.rpartition("/")[0])
        for directory in filter(None, directories):
            target.remove_empty_directories(directory)

    def _renew_identity(self, last: Commit) -> None:
        try:
            identity = read_plan(self.target, last.number).identity
        except DamagedLog:  # a repair's commit has no plan
            return
        if identity != self.identity:
            self.write_identity(identity)

    def remove_traces(self) -> None:
        """Remove what a run wrote before its first plan."""
        self.target.remove(IDENTITY)
        self.target.remove_empty_directories(LOG)
        self.identity = None


def is_reset(file: WrittenFile, resets: Collection[TopicPartition]) -> bool:
    """Return whether rows of a file are of partitions that begin again."""
    return any((file.topic, one.partition) in resets for one in file.pieces)


def read_identity(target: Target) -> Identity | None:
    data = target.read(IDENTITY)
    return None if data is None else decoded(data, IDENTITY, Identity.from_json)


def read_commit(target: Target, number: int) -> Commit:
    return _read(target, commit_path(number), Commit.from_json)


def read_plan(target: Target, number: int) -> Plan:
    return _read(target, plan_path(number), Plan.from_json)


def _read(target: Target, path: str, parse: Callable[[Any], Stored]) -> Stored:
    data = target.read(path)
    if data is None:
        raise DamagedLog(f"missing: `{path}`")
    return decoded(data, path, parse)


def check_ours(target: Target, mode: Mode) -> None:
    """Raise `TargetRefused` if a target is no directory, or its files and its log do not belong together."""
    if isinstance(target, LocalTarget) and os.path.exists(target.root) and not os.path.isdir(target.root):
        raise TargetRefused(f"not a directory: `{target.uri}`")
    places = target.state_places
    if places.are_both:
        raise TargetRefused(
            f"`{target.uri}` has two logs: `{places.inside}` and `{places.beside}`",
            hint="remove the one that is not of the files there",
        )
    if target.size(IDENTITY) is not None:
        _check_not_removed(target, mode)
        return
    foreign = _first_foreign(target)
    if foreign:
        raise TargetRefused(
            f"`{target.uri}` holds files that are not of an export: `{foreign}`",
            hint="export to an empty or new directory; if an export was moved there, move its log to "
            f"`{target.state_uri}`; if its log is lost, make it again with `--repair`",
        )
    if target.state_places.beside is None:
        raise TargetRefused(
            f"nothing can be beside `{target.uri}`, where the log of an export is kept",
            hint=f"export to a directory in it: --to {target.uri.rstrip('/')}/export",
        )


def _check_not_removed(target: Target, mode: Mode) -> None:
    """Raise `TargetRefused` if the log has commits and the directory is gone: its rows would stay lost."""
    if mode is Mode.OVERWRITE or target.exists():
        return
    if any(number_in(entry.path.rpartition("/")[2]) for entry in target.list(LOG)):
        raise TargetRefused(
            f"`{target.uri}` is gone, but its log is not: `{target.state_uri}`",
            hint="export everything again with `--mode overwrite`; if the directory was moved, move its log",
        )


def _first_foreign(target: Target) -> str | None:
    if isinstance(target, LocalTarget):
        try:
            names = sorted(os.listdir(target.root))
        except FileNotFoundError:
            return None
        return next((name for name in names if name != STATE), None)
    entries = target.list("", recursive=True)
    return next((one.path for one in entries if not one.path.startswith(f"{STATE}/")), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The state of a target as of its last commit."""

    target: str
    cluster_id: str | None
    topics: dict[str, str | None]
    """Topic ids by name."""
    last_commit: int | None
    files: tuple[WrittenFile, ...]
    next_offsets: dict[str, dict[int, int]]
    """The next offset to export, by topic and partition."""
    unfinished_plan: int | None


def list_export(target: Target) -> Listing:
    """Return the committed files; raise `KcliError` if the target holds no export."""
    log = load_export(target)
    next_offsets: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in sorted(log.next_offsets.items()):
        next_offsets.setdefault(topic, {})[partition] = offset
    files = [one.file for one in log.live_files() if not one.is_of_old_log]
    return Listing(
        target=target.uri,
        cluster_id=log.identity.cluster_id if log.identity else None,
        topics=log.topics,
        last_commit=log.last.number if log.last else None,
        files=tuple(sorted(files, key=lambda file: (file.topic, file.partition, file.start, file.path))),
        next_offsets=next_offsets,
        unfinished_plan=log.pending.number if log.pending else None,
    )


def load_export(target: Target) -> ExportLog:
    """Return a target's log; raise `TargetRefused` if it holds no export."""
    log = ExportLog.load(target)
    if log.identity is None:
        raise TargetRefused(f"`{target.uri}` holds no export")
    log.check_whole()
    return log
