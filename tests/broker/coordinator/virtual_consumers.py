"""Consumer groups in a virtual coordinator: changing topics, and members that follow the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kcli.broker.coordinator.consumer.group import ConsumerGroup
from kcli.broker.coordinator.group import ClientInfo
from kcli.broker.metadata.metadata_image import MetadataImage, delta_between
from kcli.broker.metadata.registrations import PartitionRegistration, TopicImage
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.broker.coordinator.virtual_coordinator import Call, VirtualCoordinator

CLIENT = ClientInfo("c", "/127.0.0.1")
REBALANCE_MS = 60_000
START_ANEW = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
}

Partitions = set[tuple[str, int]]
"""Partitions as (topic, index)."""


def topic_id(name: str, incarnation: int = 0) -> bytes:
    """Return the id of a test topic in its n-th creation."""
    return name.encode().ljust(15, b"-")[:15] + bytes([incarnation])


class VirtualConsumers(VirtualCoordinator):
    """`topics` exist from the beginning, with these numbers of partitions."""

    def __init__(self, topics: dict[str, int] | None = None, **config: Any) -> None:
        self._lives: dict[str, int] = {}
        super().__init__(**config)
        self.topics(**({"t": 4} if topics is None else topics))

    # --- metadata ----------------------------------------------------------------------------------

    def topics(self, **counts: int) -> None:
        """Create topics, grow them, or delete those with 0 partitions."""
        topics = dict(self.image.topics)
        for name, count in counts.items():
            if count == 0:
                del topics[name]
                self._lives[name] = self._lives.get(name, 0) + 1
            else:
                partition = PartitionRegistration(replicas=(1,), isr=(1,), leader=1)
                identity = topic_id(name, self._lives.get(name, 0))
                topics[name] = TopicImage(name, identity, (partition,) * count)
        image = MetadataImage(
            topics=topics,
            topics_by_id={topic.topic_id: topic for topic in topics.values()},
            configs=self.image.configs,
            offset=self.image.offset + 1,
        )
        delta = delta_between(self.image, image)
        self.image = image
        self.perform(self.shard.image_changed(self.now, delta))

    def configure_group(self, name: str, **configs: str) -> None:
        """Give a group configurations of its own."""
        own = {key.replace("_", "."): value for key, value in configs.items()}
        self.image = replace(self.image, configs={**self.image.configs, (32, name): own})

    # --- requests ----------------------------------------------------------------------------------

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: Partitions | None = None,
        version: int = 1,
        client: ClientInfo = CLIENT,
        **fields: Any,
    ) -> Call:
        """Send a heartbeat with the given fields only."""
        request = ConsumerGroupHeartbeatRequest(
            **{
                "group_id": "g",
                "member_id": member_id,
                "member_epoch": epoch,
                "topic_partitions": None if owned is None else self.by_id(owned),
                **fields,
            }
        )
        return self.call(
            f"beat {member_id} {epoch}",
            lambda now, call: self.shard.consumer_group_heartbeat(now, call, request, version, client),
        )

    def enter(self, member_id: str, *topics: str, **fields: Any) -> Call:
        """Join with these topics, by default with `t` unless there is an expression."""
        names = list(topics) or ([] if "subscribed_topic_regex" in fields else ["t"])
        said = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": names, **fields}
        return self.beat(member_id, 0, owned=set(), **said)

    def by_id(self, partitions: Partitions) -> list[TopicPartitions]:
        names = sorted({name for name, _ in partitions})
        return [
            TopicPartitions(
                topic_id=self.image.topics[name].topic_id,
                partitions=sorted(index for each, index in partitions if each == name),
            )
            for name in names
            if name in self.image.topics
        ]

    # --- what is there -----------------------------------------------------------------------------

    def named(self, entries: list[TopicPartitions]) -> Partitions:
        """Return partitions by name, without those of deleted topics."""
        return {
            (self.image.topics_by_id[entry.topic_id].name, index)
            for entry in entries
            for index in entry.partitions
            if entry.topic_id in self.image.topics_by_id
        }

    def given(self, call: Call) -> str | None:
        """Return the partitions in a heartbeat response, written `t0 t1`; None if it has none."""
        assignment = call.response.assignment
        return None if assignment is None else short(self.named(assignment.topic_partitions))

    def consumer_group(self, name: str = "g") -> ConsumerGroup:
        group = self.shard.groups[name]
        assert isinstance(group, ConsumerGroup)
        return group

    def outline(self, name: str = "g") -> dict[str, str]:
        """Return a line for each member: epoch, state, owned partitions, partitions to give up."""
        lines = {}
        for member_id, member in sorted(self.consumer_group(name).members.items()):
            has = short(self._named_owned(member.assigned))
            line = f"{member.epoch} {member.state.name.partition('_')[0].lower()} {has}".rstrip()
            revoking = short(self._named_owned(member.revoking))
            lines[member_id] = f"{line} -{revoking}" if revoking else line
        return lines

    def _named_owned(self, owned: Any) -> Partitions:
        return {
            (self.image.topics_by_id[topic_id].name if topic_id in self.image.topics_by_id else "?", index)
            for topic_id, partitions in owned.items()
            for index in partitions
        }


def short(partitions: Partitions) -> str:
    return " ".join(f"{name}{index}" for name, index in sorted(partitions))


@dataclass
class Consumer:
    """A member that follows the protocol: it takes its partitions, and gives up others at once.

    With `keeps` it does not give up partitions yet.
    """

    coordinator: VirtualConsumers
    member_id: str
    says: dict[str, Any]
    epoch: int = 0
    owned: Partitions = field(default_factory=set)
    target: Partitions = field(default_factory=set)
    """What it was last told to have."""
    keeps: bool = False
    error: ErrorCode = ErrorCode.NONE

    def beat(self) -> None:
        """Send one heartbeat, or join; none after a fatal error."""
        if self.error is ErrorCode.FENCED_INSTANCE_ID:
            return
        if self.epoch == 0:
            self.owned = self.target = set()
            call = self.coordinator.enter(self.member_id, **self.says)
        else:
            self.owned = self.owned | self.target if self.keeps else set(self.target)
            owned = {each for each in self.owned if each[0] in self.coordinator.image.topics}
            instance = self.says.get("instance_id")
            call = self.coordinator.beat(self.member_id, self.epoch, owned=owned, instance_id=instance)
        if not call.is_parked:
            self.take(call)

    def take(self, call: Call) -> None:
        """Handle a response."""
        self.error = call.error
        if call.error in START_ANEW:
            self.epoch, self.owned, self.target = 0, set(), set()
        elif call.error is ErrorCode.NONE:
            self.epoch = call.response.member_epoch
            if call.response.assignment is not None:
                self.target = self.coordinator.named(call.response.assignment.topic_partitions)
                self.owned = self.owned | self.target if self.keeps else set(self.target)
