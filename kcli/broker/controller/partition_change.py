"""PartitionChangeBuilder: the one rule for the next state of a partition (class `PartitionChangeBuilder`).

Whatever happens to a partition ends here: a broker comes or goes, its leader changes the ISR, a user moves it
or asks for an election.

* A replica may lead if it is in sync and acceptable: registered, not fenced, not shutting down, its log
  directory online.
* The last in-sync replica stays in the ISR: only it has every committed record, so the partition waits for it
  without a leader.
* With eligible leader replicas (KIP-966) the ISR may become empty. Replicas that left an ISR which was too
  small then may lead again without losing records.
* A reassignment ends with the first change whose ISR holds all replicas that stay, in the same record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kcli.broker.config.topic_definitions import TOPIC_CONFIGS
from kcli.broker.controller.feature_control import ELIGIBLE_LEADER_REPLICAS_VERSION, MIN_ISR
from kcli.broker.metadata.metadata_image import LeaderRecoveryState
from kcli.broker.metadata.registrations import UNASSIGNED_DIRECTORY
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import NO_LEADER, PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage, PartitionRegistration, TopicImage


class Election(Enum):
    """The replicas that an election may choose from."""

    ONLINE = "keep the leader if it may lead, else take the first replica that may"
    PREFERRED = "take the first replica if it may lead"
    UNCLEAN = "if none in sync may lead, take the first acceptable one, and lose what it lacks"


@dataclass(frozen=True, slots=True)
class Assignment:
    """The replicas of a partition, the preferred leader first, and which of them are added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @classmethod
    def of(cls, partition: PartitionRegistration) -> Assignment:
        return cls(partition.replicas, partition.adding, partition.removing)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True)
class EligibleLeaders:
    """The rule for eligible leader replicas (KIP-966).

    An ISR of `min_isr` members is large enough. `unclean` replicas may have lost records.
    """

    min_isr: int
    unclean: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeBuilder:
    """A change to `partition`, which is number `partition_id` of a topic.

    `is_acceptable` tells which replicas may lead. `isr`, `assignment` and `recovery_state` are what the
    partition should have, by default what it has. `directory_of` returns the log directory of a new replica.
    Without `eligible_leaders` none are kept.
    """

    partition: PartitionRegistration
    topic_id: bytes
    partition_id: int
    is_acceptable: Callable[[int], bool]
    election: Election = Election.ONLINE
    isr: Sequence[int] | None = None
    assignment: Assignment | None = None
    recovery_state: LeaderRecoveryState | None = None
    directory_of: Callable[[int], bytes] = lambda _: UNASSIGNED_DIRECTORY
    eligible_leaders: EligibleLeaders | None = None

    def build(self) -> PartitionChangeRecord | None:
        """Return the record that makes the change, with the leader elected; None if nothing changes."""
        partition, eligible_leaders = self.partition, self.eligible_leaders
        isr = tuple(partition.isr if self.isr is None else self.isr)
        if eligible_leaders is None:
            isr = isr or partition.isr
        target, isr = _complete(self.assignment or Assignment.of(partition), isr)
        elr = self._eligible(target, isr)
        # Without any known complete replica, the last leader is the only candidate.
        last_known = None if eligible_leaders is None or isr or elr else partition.last_known_elr
        leader, is_unclean = elect(
            replace(partition, replicas=target.replicas),
            isr or elr,
            is_acceptable=self.is_acceptable,
            election=self.election,
            last_known=last_known,
        )
        state = partition.recovery_state if self.recovery_state is None else self.recovery_state
        if is_unclean:
            isr, elr, state = (leader,), (), LeaderRecoveryState.RECOVERING
        elif leader in elr:
            isr = (leader,)
            elr = self._eligible(target, isr)
        change = self._empty()
        # A removed replica must not go on fetching in the epoch that it knows.
        if leader != partition.leader or not set(partition.replicas) <= set(target.replicas):
            change.leader = leader
        if state is not partition.recovery_state:
            change.leader_recovery_state = state
        self._note_in_sync(change, leader, isr, elr)
        self._assign(change, target)
        return None if change == self._empty() else change

    def _empty(self) -> PartitionChangeRecord:
        return PartitionChangeRecord(topic_id=self.topic_id, partition_id=self.partition_id)

    def _eligible(self, target: Assignment, isr: tuple[int, ...]) -> tuple[int, ...]:
        """Return the replicas with every committed record that are not in sync: they left a small ISR."""
        partition, eligible_leaders = self.partition, self.eligible_leaders
        if eligible_leaders is None:
            # Those kept while the feature was on are all there is to elect from.
            return () if isr else partition.elr
        if len(isr) >= eligible_leaders.min_isr:
            return ()
        known = {*partition.elr, *partition.isr} - {*isr} - eligible_leaders.unclean
        return tuple(sorted(known & set(target.replicas)))

    def _note_in_sync(
        self, change: PartitionChangeRecord, leader: int, isr: tuple[int, ...], elr: tuple[int, ...]
    ) -> None:
        """Note the in-sync and the eligible replicas, and the last leader if there are neither."""
        partition = self.partition
        if isr != partition.isr:
            change.isr = list(isr)
        if elr != partition.elr:
            change.eligible_leader_replicas = list(elr)
        if leader != NO_LEADER:
            if partition.last_known_elr:
                change.last_known_elr = []
        elif not isr and change.isr is not None and partition.leader != NO_LEADER:
            change.last_known_elr = [partition.leader]

    def _assign(self, change: PartitionChangeRecord, target: Assignment) -> None:
        partition = self.partition
        if target.replicas != partition.replicas:
            known = dict(zip(partition.replicas, partition.directories, strict=False))
            directories = [known.get(each) or self.directory_of(each) for each in target.replicas]
            change.replicas = list(target.replicas)
            if tuple(directories) != partition.directories:
                change.directories = directories
        if target.adding != partition.adding:
            change.adding_replicas = list(target.adding)
        if target.removing != partition.removing:
            change.removing_replicas = list(target.removing)


def elect(
    partition: PartitionRegistration,
    candidates: Sequence[int],
    *,
    is_acceptable: Callable[[int], bool],
    election: Election,
    last_known: Sequence[int] | None = None,
) -> tuple[int, bool]:
    """Return the leader of a partition, and whether the election is unclean.

    `candidates` have every committed record. `last_known` holds the last leader if that may be elected, too.
    """
    order = list(partition.replicas)
    if partition.leader in order and election is not Election.PREFERRED:
        order.insert(0, partition.leader)
    elif partition.leader in order:
        order.insert(1, partition.leader)
    for replica in order:
        if replica in candidates and is_acceptable(replica):
            return replica, False
    unclean = list(last_known or ()) if last_known is not None and len(last_known) == 1 else []
    if election is Election.UNCLEAN:
        unclean.extend(partition.replicas)
    for replica in unclean:
        if is_acceptable(replica):
            return replica, True
    return NO_LEADER, False


def _complete(target: Assignment, isr: tuple[int, ...]) -> tuple[Assignment, tuple[int, ...]]:
    """Return assignment and ISR after a reassignment, if the ISR is enough to end it, else both unchanged."""
    if not target.is_moving:
        return target, isr
    stay = tuple(replica for replica in target.replicas if replica not in target.removing)
    in_sync = tuple(replica for replica in isr if replica not in target.removing)
    if not stay or not in_sync or not set(stay) <= set(in_sync):
        return target, isr
    return Assignment(stay), in_sync


_UNCLEAN = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class Place:
    """A partition, with its topic and index."""

    topic: TopicImage
    index: int
    partition: PartitionRegistration


class PartitionDecisions:
    """Decides about the partitions of `image`; `defaults` are the typed configurations of topics.

    Decisions about a broker are made before the image changes: brokers that are `coming` may lead although
    they are fenced, the one that is `going` may not although it is unfenced.
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
        """Return the same for a broker that is being removed."""
        return PartitionDecisions(self.image, self._defaults, going=node_id)

    def change(
        self,
        place: Place,
        *,
        election: Election | None = None,
        isr: Sequence[int] | None = None,
        assignment: Assignment | None = None,
        recovery_state: LeaderRecoveryState | None = None,
        unclean: frozenset[int] = frozenset(),
    ) -> PartitionChangeRecord | None:
        """Return the change to a partition, None if nothing changes.

        By default the topic decides whether `election` is unclean. `unclean` replicas may have lost records.
        """
        topic = place.topic
        if election is None:
            election = Election.UNCLEAN if self.may_elect_unclean(topic.name) else Election.ONLINE
        keeps_any = self.keeps_eligible_leaders
        eligible_leaders = EligibleLeaders(self.min_isr(topic), unclean) if keeps_any else None
        return PartitionChangeBuilder(
            partition=place.partition,
            topic_id=topic.topic_id,
            partition_id=place.index,
            is_acceptable=partial(self.may_lead, place.partition),
            election=election,
            isr=isr,
            assignment=assignment,
            recovery_state=recovery_state,
            directory_of=self.image.directory_for,
            eligible_leaders=eligible_leaders,
        ).build()

    @property
    def keeps_eligible_leaders(self) -> bool:
        """Whether the cluster uses eligible leader replicas (KIP-966)."""
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0

    def min_isr(self, topic: TopicImage) -> int:
        """Return the effective `min.insync.replicas` of a topic, at most its replication factor."""
        configured = int(self._topic_value(topic.name, MIN_ISR))
        return min(configured, len(topic.partitions[0].replicas))

    def leads_any(self, node_id: int) -> bool:
        """Return whether a broker leads a partition."""
        return any(place.partition.leader == node_id for place in self.partitions())

    def may_lead(self, partition: PartitionRegistration, replica: int) -> bool:
        """Return whether a replica's broker and log directory let it lead, in sync or not."""
        broker = self.image.brokers.get(replica)
        if broker is None or replica == self._going:
            return False
        is_there = broker.is_active or replica in self._coming
        return is_there and broker.has_online(partition.directory_of(replica))

    def may_elect_unclean(self, topic: str) -> bool:
        """Return whether a topic allows unclean leaders."""
        return bool(self._topic_value(topic, _UNCLEAN))

    def place(self, topic: str, index: int) -> Place:
        """Return a partition with its topic; raise `KafkaError` UNKNOWN_TOPIC_OR_PARTITION."""
        found = self.image.topics.get(topic)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic `{topic}` does not exist")
        if not 0 <= index < len(found.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic `{topic}` has no partition {index}"
            )
        return Place(found, index, found.partitions[index])

    def partitions(self) -> Iterator[Place]:
        for topic in self.image.topics.values():
            for index, partition in enumerate(topic.partitions):
                yield Place(topic, index, partition)

    def _topic_value(self, topic: str, name: str) -> Any:  # noqa: ANN401  # the row says which type
        """Return the effective value of a topic configuration whose broker default has the same name."""
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
