"""ExportLog: what a target says of itself, its identity, its last commit and a plan without one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError
from kcli.spark.job.commit import Commit
from kcli.spark.job.identity import Identity
from kcli.spark.job.plan import Plan
from kcli.spark.job.state_paths import IDENTITY, LOG, commit_path, number_in, plan_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from kcli.spark.job.target import Target
    from kcli.spark.reading import BatchMark
    from kcli.spark.split import TopicPartition

    Stored = TypeVar("Stored")


class DamagedLog(KcliError):
    """A file of the log does not say what it should, or is missing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="make the log again from the files with `--repair`")


def encoded(fields: Mapping[str, Any]) -> bytes:
    """Return a file of the log."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def decoded(data: bytes, path: str, parse: Callable[[Any], Stored]) -> Stored:
    """Return what a file of the log says; raise `DamagedLog` if it is not what was written."""
    try:
        return parse(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedLog(f"damaged: `{path}`") from error


class ExportLog:
    """The state of a target as of its log; read once under the lock, and kept up by its own writes."""

    def __init__(
        self, target: Target, identity: Identity | None, commits: list[int], last: Commit | None
    ) -> None:
        self.target = target
        self.identity = identity
        self.commits = commits
        """The numbers of all commits, in order; those that an overwriting one dropped may be among them."""
        self.last = last
        self.pending: Plan | None = None

    @classmethod
    def load(cls, target: Target) -> ExportLog:
        """Read a target's log; raise `DamagedLog` where it is no log."""
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
        """Raise `DamagedLog` unless commits follow on each other, from the first or an overwriting one."""
        if not self.commits:
            return
        first = self.commits[0]
        if self.commits != list(range(first, self.commits[-1] + 1)):
            raise DamagedLog(f"`{self.target.uri}` has lost a commit before number {self.commits[-1]}")
        if first > 1 and not read_commit(self.target, first).overwrites:
            raise DamagedLog(f"`{self.target.uri}` has lost the commits before number {first}")

    @property
    def has_plan(self) -> bool:
        """Whether anything was planned; asked of the target, for writing a plan may have been interrupted."""
        if self.commits or self.pending is not None:
            return True
        name = plan_path(self.next_number)
        return any(entry.path == name for entry in self.target.list(name.rpartition("/")[0]))

    @property
    def next_number(self) -> int:
        """Return the number of the next plan."""
        return self.commits[-1] + 1 if self.commits else 1

    @property
    def next_offsets(self) -> Mapping[TopicPartition, int]:
        """Return where each partition stands."""
        return self.last.next_offsets if self.last else {}

    @property
    def marks(self) -> Mapping[TopicPartition, tuple[BatchMark, ...]]:
        """Return what the log of each partition has if it is the one that was read."""
        return self.last.marks if self.last else {}

    @property
    def topics(self) -> dict[str, str | None]:
        """Return the ids of all topics so far."""
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

    def write_plan(self, plan: Plan) -> None:
        """Write a plan, after the identity if it is the target's first."""
        if self.identity is None:
            self.write_identity(plan.identity)
        self.target.write_atomically(plan_path(plan.number), encoded(plan.to_json()))
        self.pending = plan

    def write_commit(self, commit: Commit) -> None:
        """Write the commit of the pending plan: from here on its files count."""
        self.target.write_atomically(commit_path(commit.number), encoded(commit.to_json()))
        self.commits.append(commit.number)
        self.last = commit
        self.pending = None

    def write_identity(self, identity: Identity) -> None:
        """Write whose records the target holds."""
        self.target.write_atomically(IDENTITY, encoded(identity.to_json()))
        self.identity = identity

    def remove_traces(self) -> None:
        """Remove what a run wrote before it came to a plan."""
        self.target.remove(IDENTITY)
        self.target.remove_empty_directories(LOG)
        self.identity = None


def read_identity(target: Target) -> Identity | None:
    """Return a target's identity, None if it has none."""
    data = target.read(IDENTITY)
    return None if data is None else decoded(data, IDENTITY, Identity.from_json)


def read_commit(target: Target, number: int) -> Commit:
    """Return a commit; raise `DamagedLog` if it is none."""
    return _read(target, commit_path(number), Commit.from_json)


def read_plan(target: Target, number: int) -> Plan:
    """Return a plan; raise `DamagedLog` if it is none."""
    return _read(target, plan_path(number), Plan.from_json)


def _read(target: Target, path: str, parse: Callable[[Any], Stored]) -> Stored:
    data = target.read(path)
    if data is None:
        raise DamagedLog(f"missing: `{path}`")
    return decoded(data, path, parse)
