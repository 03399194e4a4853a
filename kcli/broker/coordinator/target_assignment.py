"""Target assignments: what every member of a consumer group is to get, computed by an assignor of the broker.

Kafka class `TargetAssignmentBuilder`. Members are given as they will be once the records of this event are in
the log, targets as they are; a static member in another's place takes over the other's target.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.assignors import server_assignors as server_range
from kcli.assignors import server_assignors as server_uniform
from kcli.assignors.server_assignors import ServerMember

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kcli.assignors.server_assignors import Partitions, ServerAssignor
    from kcli.broker.coordinator.consumer_member import ConsumerMember
    from kcli.broker.metadata.metadata_image import MetadataImage

ASSIGNORS: Mapping[str, ServerAssignor] = {
    "uniform": server_uniform.assign_uniform,
    "range": server_range.assign_range,
}


def choose_assignor(members: Collection[ConsumerMember], offered: Sequence[str]) -> str:
    """Return the assignor that most members ask for, of those on offer; the first of these if none does."""
    votes = Counter(member.assignor for member in members)
    return max(offered, key=lambda name: votes[name])


def compute_target(
    assignor: str,
    members: Mapping[str, ConsumerMember],
    *,
    targets: Mapping[str, Partitions],
    topics_of: Callable[[ConsumerMember], Collection[str]],
    image: MetadataImage,
) -> dict[str, Partitions]:
    """Return what each member is to get. `topics_of` names what it subscribes to, existing or not."""
    specs = {}
    for member_id, member in members.items():
        names = topics_of(member)
        ids = frozenset(image.topics[name].topic_id for name in names if name in image.topics)
        specs[member_id] = ServerMember(ids, targets.get(member_id, {}), member.instance_id)
    wanted = frozenset[bytes]().union(*(spec.topics for spec in specs.values()))
    counts = {topic_id: len(image.topics_by_id[topic_id].partitions) for topic_id in wanted}
    return ASSIGNORS[assignor](counts, specs)
