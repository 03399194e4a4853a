"""GroupFacts: everything that is known of a group when its state shall be explained. Values only.

They come from the coordinator's description, from offsets looked at twice, and from the group's records in
`__consumer_offsets`.

Findings: what is said about a group, and the words for it.

What `describe --explain` shows: each group in one line, and below it what was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from kcli.commands.groups.head import GroupHead
from kcli.commands.groups.history import GenerationEvent
from kcli.commands.groups.offsets import duration_text, in_order
from kcli.commands.shared.formatting import counted, listed
from kcli.commands.shared.output import Table
from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """A member. `target`, `epoch` and `upgraded` are those of the consumer protocol."""

    member_id: str
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    target: frozenset[TopicPartition] | None = None
    epoch: int | None = None
    upgraded: bool | None = None

    def name(self) -> str:
        """Return how a finding names the member: what its owner knows it by, and where it runs."""
        return f"`{self.instance_id or self.client_id or self.member_id}` at {self.host.lstrip('/')}"


class Look(NamedTuple):
    """The offsets of a partition at one moment."""

    committed: int | None
    end: int | None

    def lag(self) -> int | None:
        """Return the records between the two."""
        return None if self.committed is None or self.end is None else self.end - self.committed


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition that a member owns or the group committed an offset of.

    `before` is the look before `now`; `last_commit_ms` the time of the last commit, as the coordinator
    recorded it.
    """

    partition: TopicPartition
    owner: str | None
    now: Look
    before: Look | None = None
    start: int | None = None
    last_commit_ms: int | None = None

    @property
    def lag(self) -> int:
        """Return the lag, 0 if it is not known."""
        return max(0, self.now.lag() or 0)

    @property
    def progress(self) -> int | None:
        """Return by how much the committed offset moved between the looks."""
        if self.before is None or self.before.committed is None or self.now.committed is None:
            return None
        return self.now.committed - self.before.committed


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group. `topics` has the partition counts of those that it reads, None for one that does not exist.

    `apart_ms` lies between the two looks, 0 if there was but one. `history_error` says why there are no
    generations.
    """

    head: GroupHead
    now_ms: int
    members: Sequence[MemberFacts] = ()
    partitions: Sequence[PartitionFacts] = ()
    topics: Mapping[str, int | None] = field(default_factory=dict)
    generations: Sequence[GenerationEvent] = ()
    apart_ms: int = 0
    earlier_state: str | None = None
    history_error: str | None = None


MOST_NAMED = 8
"""A finding names no more partitions than these."""


class Level(StrEnum):
    """How bad a finding is."""

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"
    FINE = "fine"


class Finding(NamedTuple):
    """One thing that was found; `code` names it for programs."""

    level: Level
    code: str
    message: str
    hint: str | None = None


def named(partitions: Iterable[TopicPartition]) -> str:
    """Return the names of partitions, not too many."""
    ordered = in_order(partitions)
    return listed([f"{topic}-{index}" for topic, index in ordered], most=MOST_NAMED)


def records(count: int) -> str:
    """Return a number of records."""
    return counted(count, "record")


def ago(at_ms: int, now_ms: int) -> str:
    """Return how long ago a moment was."""
    return f"{duration_text(max(0, now_ms - at_ms))} ago"


def time_text(at_ms: int) -> str:
    """Return a moment in UTC, to the second."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ExplainedGroup(NamedTuple):
    """A group, its lag, and the findings, problems first."""

    head: GroupHead
    total_lag: int | None
    findings: Sequence[Finding]

    def title(self) -> str:
        """Return the group in one line."""
        lag = "" if self.total_lag is None else f"  lag {self.total_lag}"
        return self.head.title() + lag

    def document(self) -> object:
        """Return the group's fields and the findings."""
        return {**self.head._asdict(), "total_lag": self.total_lag, "findings": self.findings}


class ExplainView(NamedTuple):
    """The result of `describe --explain`."""

    groups: Sequence[ExplainedGroup]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return a line for each group, and lines for each finding."""
        for index, group in enumerate(self.groups):
            if index:
                yield ""
            yield group.title()
            for finding in group.findings:
                yield f"  {finding.level}: {finding.message}"
                if finding.hint:
                    yield f"    hint: {finding.hint}"

    def tables(self) -> Iterator[Table]:
        """Return a table for each group."""
        for group in self.groups:
            rows = [(finding.level.value, finding.message, finding.hint) for finding in group.findings]
            yield Table(("Level", "Finding", "Hint"), rows, group.title())
