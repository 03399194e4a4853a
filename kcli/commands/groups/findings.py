"""What `describe --explain` knows of a group (`GroupFacts`) and says about it (`Finding`). Values only.

The facts come from the coordinator's description, from snapshots of offsets, and from the group's records in
`__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.groups.head import GroupHead
from kcli.commands.groups.history import CommitEvent, GenerationEvent
from kcli.commands.groups.offsets import in_order
from kcli.commands.shared.formatting import counted, lag_text, listed
from kcli.commands.shared.output import Table
from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from kcli.client.admin import GroupMember


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """A member. `target`, `epoch` and `upgraded` are those of the consumer protocol.

    `session_timeout_ms` is known of members of classic groups whose records can be read.
    """

    member_id: str
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    target: frozenset[TopicPartition] | None = None
    epoch: int | None = None
    upgraded: bool | None = None
    session_timeout_ms: int | None = None

    @classmethod
    def of(cls, member: GroupMember, session_timeout_ms: int | None = None) -> MemberFacts:
        return cls(
            member.member_id,
            member.client_id,
            member.host,
            frozenset(member.assignment),
            member.instance_id,
            member.subscribed_topics,
            None if member.target_assignment is None else frozenset(member.target_assignment),
            member.epoch,
            None if member.is_classic is None else not member.is_classic,
            session_timeout_ms,
        )

    def name(self) -> str:
        """Return the name of the member in findings: its most stable id and its host."""
        return f"`{self.instance_id or self.client_id or self.member_id}` at {self.host.lstrip('/')}"


class OffsetSnapshot(NamedTuple):
    """The offsets of a partition at one moment."""

    committed: int | None
    end: int | None

    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else self.end - self.committed


class OpenTransaction(NamedTuple):
    """The first open transaction of a partition: no reader with read_committed gets past its begin.

    `last_timestamp` is that of its producer's last record, in ms since 1970, -1 if unknown.
    """

    last_stable_offset: int
    start_offset: int
    producer_id: int
    last_timestamp: int


class Trend(Enum):
    """What the lag of a partition does. UNKNOWN: there are fewer than three snapshots with offsets."""

    UNKNOWN = "unknown"
    STUCK = "stuck"
    GROWS = "grows"
    SHRINKS = "shrinks"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition that a member owns or the group has committed an offset of, in the first and last snapshot.

    `between` are the snapshots between them, without those in which the group did not exist. `has_moved`: an
    earlier snapshot has another owner, whose progress may be what is seen. `held` is an open transaction.
    """

    partition: TopicPartition
    owner: str | None
    now: OffsetSnapshot
    before: OffsetSnapshot | None = None
    start: int | None = None
    last_commit_ms: int | None = None
    between: tuple[OffsetSnapshot, ...] = ()
    has_moved: bool = False
    held: OpenTransaction | None = None

    @property
    def lag(self) -> int:
        """Return the lag, 0 if it is unknown."""
        return max(0, self.now.lag() or 0)

    @property
    def progress(self) -> int | None:
        """Return the change of the committed offset between the snapshots, None if unknown."""
        if self.before is None or self.before.committed is None or self.now.committed is None:
            return None
        return self.now.committed - self.before.committed

    @property
    def written(self) -> int | None:
        """Return how many records came in between the first and the last snapshot, None if unknown."""
        if self.before is None or self.before.end is None or self.now.end is None:
            return None
        return max(0, self.now.end - self.before.end)

    @property
    def trend(self) -> Trend:
        """Return what the lag does over all snapshots.

        A consumer commits now and then, and between two commits the lag grows by what comes in: a change
        counts only if it is larger than what any one interval brought.
        """
        if self.before is None or not self.between or self.progress is None:
            return Trend.UNKNOWN
        snapshots = [self.before, *self.between, self.now]
        if any(each.lag() is None for each in snapshots):
            return Trend.UNKNOWN
        if self.lag and not self.progress:
            return Trend.STUCK
        pulse = max((now.end or 0) - (before.end or 0) for before, now in pairwise(snapshots))
        change = self.lag - max(0, self.before.lag() or 0)
        if abs(change) <= pulse:
            return Trend.STAYS
        return Trend.GROWS if change > 0 else Trend.SHRINKS


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group. `topics` has the partition count of each topic that it reads, None for a missing topic.

    `apart_ms` is the time between the first and the last snapshot, 0 if there was only one. `commits` are the
    recent ones. `history_error` says why generations and commits are unknown.
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
    commits: Sequence[CommitEvent] = ()


MOST_NAMED = 8
"""A finding names at most so many partitions."""


class Level(StrEnum):
    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"
    FINE = "fine"


class Finding(NamedTuple):
    """One result of a rule; `code` names it for programs."""

    level: Level
    code: str
    message: str
    hint: str | None = None


def named(partitions: Iterable[TopicPartition]) -> str:
    """Return the names of partitions, at most `MOST_NAMED` of them."""
    return listed([f"{topic}-{index}" for topic, index in in_order(partitions)], most=MOST_NAMED)


def records(count: int) -> str:
    return counted(count, "record")


def ago(at_ms: int, now_ms: int) -> str:
    return f"{lag_text(max(0, now_ms - at_ms))} ago"


class ExplainedGroup(NamedTuple):
    """A group, its lag, and the findings, problems first."""

    head: GroupHead
    total_lag: int | None
    findings: Sequence[Finding]

    def title(self) -> str:
        return self.head.title() + ("" if self.total_lag is None else f"  lag {self.total_lag}")

    def document(self) -> object:
        return {**self.head._asdict(), "total_lag": self.total_lag, "findings": self.findings}


class ExplainView(NamedTuple):
    """The result of `describe --explain`."""

    groups: Sequence[ExplainedGroup]
    failures: Sequence[KcliError] = ()

    @property
    def has_problem(self) -> bool:
        return any(finding.level is Level.PROBLEM for group in self.groups for finding in group.findings)

    def lines(self) -> Iterator[str]:
        for index, group in enumerate(self.groups):
            if index:
                yield ""
            yield group.title()
            for finding in group.findings:
                yield f"  {finding.level}: {finding.message}"
                if finding.hint:
                    yield f"    hint: {finding.hint}"

    def tables(self) -> Iterator[Table]:
        for group in self.groups:
            rows = [(finding.level.value, finding.message, finding.hint) for finding in group.findings]
            yield Table(("Level", "Finding", "Hint"), rows, group.title())
