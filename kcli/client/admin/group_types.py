"""What the admin calls about groups take and give: frozen values without behaviour.

A group is Classic or Consumer (KIP-848). What only one of the two has is None for the other, and so is what
an old broker does not tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.client.metadata import Node
    from kcli.errors import KcliError
    from kcli.protocol.topics import TopicPartition

CLASSIC = "Classic"
CONSUMER = "Consumer"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as its coordinator lists it. `protocol_type` is "consumer" for groups of consumers, "connect" …

    It is empty for a group that only ever committed offsets. Brokers before 2.6 do not tell states, those
    before 3.8 no types.
    """

    group_id: str
    protocol_type: str
    state: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class GroupListings:
    """The groups of all brokers as they list them; and the brokers that did not tell theirs, and why."""

    groups: tuple[GroupListing, ...]
    errors: Mapping[int, KcliError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group. Partitions are in order.

    `assignment` is empty while a classic group rebalances, and in classic groups of other programs than
    consumers, who alone can read what their members have. `is_classic` says which protocol a member of a
    Consumer group speaks (KIP-1099).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    subscribed_topics: tuple[str, ...] = ()
    rack_id: str | None = None
    target_assignment: tuple[TopicPartition, ...] | None = None
    subscribed_regex: str | None = None
    epoch: int | None = None
    is_classic: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members, in the order of the answer. `assignor` is empty unless members agreed on one.

    A group in state Dead does not exist (brokers before 4.0 say it like that).
    """

    group_id: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    coordinator: Node
    members: tuple[GroupMember, ...] = ()
    epoch: int | None = None
    target_assignment_epoch: int | None = None


class MemberToRemove(NamedTuple):
    """A member by its id, or a static one by its `group.instance.id` alone."""

    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """Where a group goes on in a partition: the offset of the next record it reads."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""
