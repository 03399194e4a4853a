"""PartitionDecisions: the rule of `partition_change`, asked about the partitions of one image.

It knows what the rule is told by the cluster: which brokers may lead, where a new replica's log lies, and
which topics would rather lose records than wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kcli.broker.controller.feature_control import ELIGIBLE_LEADER_REPLICAS_VERSION
from kcli.broker.controller.partition_change import Election, EligibleLeaders, next_state
from kcli.broker.registrations import UNASSIGNED_DIRECTORY
from kcli.broker.topic_configs import TOPIC_CONFIGS
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kcli.broker.controller.partition_change import Assignment
    from kcli.broker.metadata_image import (
        LeaderRecoveryState,
        MetadataImage,
        PartitionRegistration,
        TopicImage,
    )
    from kcli.protocol.internal.metadata_records import PartitionChangeRecord

_UNCLEAN = "unclean.leader.election.enable"
_MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class Place:
    """A partition, with its topic and its number there."""

    topic: TopicImage
    index: int
    partition: PartitionRegistration


class PartitionDecisions:
    """Decides about the partitions of `image`; `defaults` are the typed configurations of topics.

    A decision about brokers that come or go is made before the image says so: those `coming` may lead
    although they are fenced, the one `going` may not although it is not.
    """

    def __init__(
        self,
        image: MetadataImage,
        defaults: Mapping[str, Any] = MappingProxyType({}),
        *,
        coming: Collection[int] = (),
        going: int | None = None,
    ) -> None:
        self.image = image
        self._defaults = defaults
        self._coming = coming
        self._going = going
        self._values: dict[tuple[str, str], Any] = {}

    def with_coming(self, *node_ids: int) -> PartitionDecisions:
        """Return the same for brokers that are being unfenced."""
        return PartitionDecisions(self.image, self._defaults, coming=node_ids)

    def with_going(self, node_id: int) -> PartitionDecisions:
        """Return the same for a broker that is being taken away."""
        return PartitionDecisions(self.image, self._defaults, going=node_id)

    def change(
        self,
        topic: TopicImage,
        index: int,
        *,
        election: Election | None = None,
        isr: Sequence[int] | None = None,
        assignment: Assignment | None = None,
        recovery_state: LeaderRecoveryState | None = None,
        unclean: frozenset[int] = frozenset(),
    ) -> PartitionChangeRecord | None:
        """Return what changes a partition, None if nothing does.

        `election` is by default as far as the topic lets it go; `unclean` replicas may have lost records.
        """
        if election is None:
            election = Election.UNCLEAN if self.may_elect_unclean(topic.name) else Election.ONLINE
        partition = topic.partitions[index]
        return next_state(
            partition,
            topic_id=topic.topic_id,
            partition_id=index,
            is_acceptable=partial(self.may_lead, partition),
            election=election,
            isr=isr,
            assignment=assignment,
            recovery_state=recovery_state,
            directory_of=self._directory_of,
            eligible_leaders=self._eligible_leaders(topic, unclean),
        )

    @property
    def keeps_eligible_leaders(self) -> bool:
        """True if the cluster works with eligible leader replicas (KIP-966)."""
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0

    def min_isr(self, topic: TopicImage) -> int:
        """Return how many replicas of a topic's partitions must be in sync to write with acks=all."""
        configured = int(self._topic_value(topic.name, _MIN_ISR))
        return min(configured, len(topic.partitions[0].replicas))

    def leads_any(self, node_id: int) -> bool:
        """True if a broker leads a partition."""
        return any(place.partition.leader == node_id for place in self.partitions())

    def may_lead(self, partition: PartitionRegistration, replica: int) -> bool:
        """True if a replica's broker and log directory let it lead; whether it is in sync is not asked."""
        broker = self.image.brokers.get(replica)
        if broker is None or replica == self._going:
            return False
        is_there = broker.is_active or replica in self._coming
        return is_there and broker.has_online(partition.directory_of(replica))

    def may_elect_unclean(self, topic: str) -> bool:
        """True if a topic would rather lose records than wait for who has them."""
        return bool(self._topic_value(topic, _UNCLEAN))

    def partition(self, topic: str, index: int) -> tuple[TopicImage, PartitionRegistration]:
        """Return a topic and a partition of it; raise `KafkaError` UNKNOWN_TOPIC_OR_PARTITION."""
        found = self.image.topics.get(topic)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic `{topic}` does not exist")
        if not 0 <= index < len(found.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic `{topic}` has no partition {index}"
            )
        return found, found.partitions[index]

    def partitions(self) -> Iterator[Place]:
        """Yield every partition."""
        for topic in self.image.topics.values():
            for index, partition in enumerate(topic.partitions):
                yield Place(topic, index, partition)

    def _eligible_leaders(self, topic: TopicImage, unclean: frozenset[int]) -> EligibleLeaders | None:
        return EligibleLeaders(self.min_isr(topic), unclean) if self.keeps_eligible_leaders else None

    def _topic_value(self, topic: str, name: str) -> Any:  # noqa: ANN401  # the row says which type
        """Return a topic's value of a configuration, which brokers have a default of under the same name."""
        key = (topic, name)
        if key not in self._values:
            definition = TOPIC_CONFIGS[name].definition
            for layer in (self.image.topic_config(topic), self.image.config(ConfigResourceType.BROKER, "")):
                if name in layer:
                    self._values[key] = definition.parse(layer[name])
                    break
            else:
                self._values[key] = self._defaults.get(name, definition.default)
        return self._values[key]

    def _directory_of(self, node_id: int) -> bytes:
        broker = self.image.brokers.get(node_id)
        if broker is not None and len(broker.directories) == 1:
            return broker.directories[0]
        return UNASSIGNED_DIRECTORY
