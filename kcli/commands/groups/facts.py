"""GroupFacts: everything that is known of a group when its state shall be explained. Values only.

They come from the coordinator's description, from offsets looked at twice, and from the group's records in
`__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kcli.commands.groups.head import GroupHead
from kcli.commands.groups.history import GenerationEvent

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """A member. `target`, `epoch` and `upgraded` are those of the consumer protocol."""

    member_id: str
    client_id: str
    host: str
    assignment: frozenset[Partition]
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    target: frozenset[Partition] | None = None
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

    partition: Partition
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
