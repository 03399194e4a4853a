"""The immutable records of an image: brokers, partitions and topics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

from kcli.protocol.internal.metadata_records import (
    LEADER_UNCHANGED,
    NO_LEADER,
    BrokerEndpoint,
    PartitionChangeRecord,
    PartitionRecord,
)

if TYPE_CHECKING:
    from collections.abc import Collection

MIGRATING_DIRECTORY = bytes(16)
"""The log directory of a replica from before directories had ids (KIP-858)."""

UNASSIGNED_DIRECTORY = (1).to_bytes(16, "big")
"""The log directory of a replica whose broker has not named it yet."""

LOST_DIRECTORY = (2).to_bytes(16, "big")
"""A log directory that has failed."""


class LeaderRecoveryState(IntEnum):
    """Whether an unclean leader still has to recover."""

    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener. `security_protocol` is Kafka's number, 0 for PLAINTEXT."""

    name: str
    host: str
    port: int
    security_protocol: int = 0

    @property
    def address(self) -> str:
        """Return `host:port`, with an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def to_record(self) -> BrokerEndpoint:
        return BrokerEndpoint(
            name=self.name, host=self.host, port=self.port, security_protocol=self.security_protocol
        )


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A registered broker; `epoch` is the offset of that. `features` has (name, lowest, highest level)."""

    node_id: int
    epoch: int
    incarnation: bytes
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()
    features: tuple[tuple[str, int, int], ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it may get leadership and replicas."""
        return not (self.fenced or self.in_controlled_shutdown)

    def has_online(self, directory: bytes) -> bool:
        """Return whether a log directory is online, or its state is unknown."""
        if directory in {MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY}:
            return True
        # A broker that never named a directory has one, or it would have stopped.
        return directory != LOST_DIRECTORY and (not self.directories or directory in self.directories)

    def has_lost_all(self, offline: Collection[bytes]) -> bool:
        """Return whether it named log directories and all of them are offline."""
        return bool(self.directories) and {*self.directories} <= {*offline}

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """Return the endpoint of a listener, None if the broker does not have it."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener_name), None)


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """One partition. `replicas[0]` is the preferred leader; `directories` run parallel to `replicas`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    def directory_of(self, replica: int) -> bytes:
        """Return the log directory of a replica, `UNASSIGNED_DIRECTORY` if it is unknown."""
        if replica not in self.replicas or len(self.directories) != len(self.replicas):
            return UNASSIGNED_DIRECTORY
        return self.directories[self.replicas.index(replica)]

    def merge(self, change: PartitionChangeRecord) -> PartitionRegistration:
        """Return this partition after a change."""
        merged: dict[str, Any] = {"partition_epoch": self.partition_epoch + 1}
        if change.leader != LEADER_UNCHANGED:
            # A record with the same leader counts: that raises the epoch without a new leader.
            merged.update(leader=change.leader, leader_epoch=self.leader_epoch + 1)
        if change.leader_recovery_state >= 0:
            merged["recovery_state"] = LeaderRecoveryState(change.leader_recovery_state)
        lists = {
            "replicas": change.replicas,
            "isr": change.isr,
            "removing": change.removing_replicas,
            "adding": change.adding_replicas,
            "directories": change.directories,
            "elr": change.eligible_leader_replicas,
            "last_known_elr": change.last_known_elr,
        }
        merged.update({name: tuple(value) for name, value in lists.items() if value is not None})
        return replace(self, **merged)

    def to_record(self, topic_id: bytes, partition_id: int) -> PartitionRecord:
        return PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing),
            adding_replicas=list(self.adding),
            leader=self.leader,
            leader_recovery_state=self.recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        return cls(
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            removing=tuple(record.removing_replicas),
            adding=tuple(record.adding_replicas),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories),
            recovery_state=LeaderRecoveryState(record.leader_recovery_state),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; its partitions are in the order of their numbers."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionRegistration, ...]

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition, without those that a reassignment adds."""
        return len(self.partitions[0].replicas) - len(self.partitions[0].adding)


class PartitionState(Enum):
    """The state of a partition (class `PartitionState`), which follows from its leader."""

    NEW = "it has replicas and never had a leader"
    ONLINE = "it has a leader"
    OFFLINE = "it has lost its leader"


def partition_state(partition: PartitionRegistration) -> PartitionState:
    """Return the state of a partition; one that never had a leader has the leader epoch 0."""
    if partition.leader >= 0:
        return PartitionState.ONLINE
    return PartitionState.OFFLINE if partition.leader_epoch > 0 else PartitionState.NEW
