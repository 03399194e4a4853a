"""ClusterMetadata, an immutable snapshot of the cluster, and MetadataCache, which schedules its refresh.

A snapshot maps topics to partitions and partitions to leaders. Code that must be consistent takes
`client.cluster` once and works on that value.

`ClusterMetadata.merged` applies the rule of KIP-951 and Kafka's `MetadataCache`: an entry with a lower leader
epoch than the known one is stale and ignored, unless the topic was created anew (another id).
"""

from __future__ import annotations

import math
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kcli.client.network.backoff import Backoff
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kcli.client.config import ClientConfig
    from kcli.protocol.messages.metadata import MetadataResponse
    from kcli.protocol.topics import TopicPartition


STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)  # fmt: skip
"""Errors that show that the snapshot is out of date (Kafka class `InvalidMetadataException`, and 41)."""


class NewLeader(NamedTuple):
    """The leader of a partition, as an error response gave it (KIP-951)."""

    partition: TopicPartition
    leader: int
    leader_epoch: int


class Node(NamedTuple):
    """A broker's id and advertised address. Bootstrap addresses have ids -1, -2, ..."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """Return `host:port`, with an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PartitionMetadata(NamedTuple):
    """One partition in the last metadata response. `leader` is -1 if it has none."""

    partition: int
    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class TopicMetadata(NamedTuple):
    """One topic: its id (all zeros from brokers older than 2.8) and its partitions by index."""

    name: str
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: Mapping[int, PartitionMetadata] = MappingProxyType({})

    @property
    def available(self) -> tuple[int, ...]:
        """Return the indexes of the partitions that have a leader, ascending."""
        return tuple(index for index in sorted(self.partitions) if self.partitions[index].leader >= 0)


class ClusterMetadata(NamedTuple):
    """A snapshot: brokers, the controller, known topics, and topics with errors.

    `errors` holds the code of each requested topic that has no description (unknown, unauthorized, invalid
    name).
    """

    nodes: Mapping[int, Node] = MappingProxyType({})
    cluster_id: str | None = None
    controller_id: int = -1
    topics: Mapping[str, TopicMetadata] = MappingProxyType({})
    errors: Mapping[str, ErrorCode] = MappingProxyType({})

    @classmethod
    def of(cls, response: MetadataResponse) -> ClusterMetadata:
        """Read a response; a topic with an error, other than a missing leader or replica, is in `errors`."""
        topics: dict[str, TopicMetadata] = {}
        errors: dict[str, ErrorCode] = {}
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code != ErrorCode.NONE:
                errors[topic.name] = ErrorCode.of(topic.error_code)
                continue
            partitions = {
                entry.partition_index: PartitionMetadata(
                    entry.partition_index,
                    entry.leader_id,
                    entry.leader_epoch,
                    tuple(entry.replica_nodes),
                    tuple(entry.isr_nodes),
                    tuple(entry.offline_replicas),
                )
                for entry in topic.partitions
            }
            topics[topic.name] = TopicMetadata(topic.name, topic.topic_id, topic.is_internal, partitions)
        nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        return cls(nodes, response.cluster_id, response.controller_id, topics, errors)

    def leader_of(self, partition: TopicPartition) -> PartitionMetadata | None:
        """Return the partition's entry if its leader is a known broker, else None."""
        topic = self.topics.get(partition.topic)
        entry = topic.partitions.get(partition.partition) if topic is not None else None
        return entry if entry is not None and entry.leader in self.nodes else None

    def merged(self, response: ClusterMetadata, *, keep: Iterable[str] = ()) -> ClusterMetadata:
        """Return `response` with our newer leader epochs, and with the topics of `keep` that it lacks."""
        topics = {name: self._newest(topic) for name, topic in response.topics.items()}
        for name in keep:
            if name in self.topics and name not in topics and name not in response.errors:
                topics[name] = self.topics[name]
        return response._replace(topics=topics)

    def with_leader(self, partition: TopicPartition, leader: int, leader_epoch: int) -> ClusterMetadata:
        """Return a snapshot with this leader; the same one if the leader is not newer (KIP-951)."""
        topic = self.topics.get(partition.topic)
        entry = topic.partitions.get(partition.partition) if topic is not None else None
        if topic is None or entry is None or leader < 0 or leader_epoch <= entry.leader_epoch:
            return self
        newer = entry._replace(leader=leader, leader_epoch=leader_epoch)
        topic = topic._replace(partitions={**topic.partitions, entry.partition: newer})
        return self._replace(topics={**self.topics, topic.name: topic})

    def with_nodes(self, nodes: Iterable[Node]) -> ClusterMetadata:
        """Return a snapshot with these brokers added or moved."""
        return self._replace(nodes={**self.nodes, **{node.node_id: node for node in nodes}})

    def with_topics_of(self, other: ClusterMetadata) -> ClusterMetadata:
        return self._replace(topics={**other.topics, **self.topics}, errors={**other.errors, **self.errors})

    def lacking(self, names: Iterable[str]) -> ClusterMetadata:
        """Return a response about all topics with the missing ones of `names` as unknown."""
        missing = {name for name in names if name not in self.topics and name not in self.errors}
        unknown = dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._replace(errors={**self.errors, **unknown})

    def _newest(self, topic: TopicMetadata) -> TopicMetadata:
        known = self.topics.get(topic.name)
        if known is None or known.topic_id != topic.topic_id:
            return topic
        partitions = dict(topic.partitions)
        for index, ours in known.partitions.items():
            theirs = partitions.get(index)
            if theirs is not None and -1 < theirs.leader_epoch < ours.leader_epoch:
                partitions[index] = ours
        return topic._replace(partitions=partitions)


def metadata_request(topics: Collection[str] | None, version: int, *, auto_create: bool) -> MetadataRequest:
    """Return a metadata request for all topics (None), or for some."""
    entries = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    if version == 0 and topics is None:
        entries = []
    # Brokers before 0.11 create topics by their own configuration; they lack the field.
    return MetadataRequest(topics=entries, allow_auto_topic_creation=auto_create or version < 4)


class _Role(Enum):
    ANY = "any broker"
    CONTROLLER = "the controller"


ANY: Final = _Role.ANY
"""The least-loaded broker."""

CONTROLLER: Final = _Role.CONTROLLER
"""The broker that metadata names as the controller (a KRaft broker forwards to it)."""

Target: TypeAlias = int | _Role


class WantedTopic:
    """A topic that the client uses. `expires_at` is infinite for a pinned one."""

    __slots__ = ("auto_create", "expires_at")

    def __init__(self, auto_create: bool, expires_at: float) -> None:
        self.auto_create = auto_create
        self.expires_at = expires_at


class MetadataCache:
    """The current snapshot and the schedule of its refresh. Pure: all times are parameters, in seconds.

    The client's refresh task drives it: `next_refresh` says when, `begin` starts a try, `succeeded` or
    `failed` ends it. There is one try at a time, for all callers. A topic that is wanted during a try starts
    another one at once. Tries back off while they fail, or bring nothing new although a caller waits;
    otherwise the snapshot is refreshed after `metadata.max.age.ms`. Topics unused for `metadata.max.idle.ms`
    are dropped unless they are pinned.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.cluster = ClusterMetadata()
        self.version = 0
        self.is_in_flight = False
        self.needs_update = False
        self.wanted: dict[str, WantedTopic] = {}
        self.wants_all = 0
        """How many callers follow all topics."""
        self.is_complete = False
        """Whether the last answer was about all topics."""
        self.listeners: list[Callable[[ClusterMetadata], None]] = []
        self._max_age = config.metadata_max_age_ms / 1000
        self._max_idle = config.metadata_max_idle_ms / 1000
        self._backoff = Backoff.of(config)
        self._not_before = -math.inf
        self._last_success = -math.inf
        self._asked_for_all = False
        self._has_unasked = False

    def want(self, topic: str, now: float, *, auto_create: bool = False, pinned: bool = False) -> bool:
        """Keep a topic in the snapshot; return True if it is new and must be fetched at once."""
        expires_at = math.inf if pinned else now + self._max_idle
        entry = self.wanted.get(topic)
        if entry is not None:
            entry.auto_create |= auto_create
            entry.expires_at = max(entry.expires_at, expires_at)
            return False
        self.wanted[topic] = WantedTopic(auto_create, expires_at)
        self.needs_update = True
        self._not_before = -math.inf
        self._has_unasked = True
        return True

    def follow_all(self, follow: bool) -> None:
        """Keep all topics in the snapshot; each True needs one False to end it."""
        self.wants_all += 1 if follow else -1
        if follow:
            self.needs_update = self._has_unasked = True
            self._not_before = -math.inf

    def request_update(self) -> int:
        """Request an early refresh; return the version whose change will show it."""
        self.needs_update = True
        return self.version

    def next_refresh(self) -> float:
        """Return when the next try is due; infinite while one is under way."""
        if self.is_in_flight:
            return math.inf
        due = -math.inf if self.needs_update else self._last_success + self._max_age
        return max(due, self._not_before)

    def begin(self, now: float) -> None:
        self.is_in_flight = True
        self.needs_update = False
        self._has_unasked = False
        self._asked_for_all = self.wants_all > 0
        self.wanted = {name: entry for name, entry in self.wanted.items() if entry.expires_at > now}

    def succeeded(self, response: ClusterMetadata, now: float) -> None:
        fresh = self.cluster.merged(response, keep=() if self._asked_for_all else self.wanted)
        if fresh == self.cluster:
            self._not_before = now + self._backoff.next_delay()
        else:
            self._backoff.reset()
            self._not_before = now + self._backoff.next_delay() if fresh.errors else -math.inf
        if self._has_unasked:
            self._not_before = -math.inf  # topics wanted meanwhile were not in the request
        self.is_in_flight = False
        self.is_complete = self._asked_for_all
        self._last_success = now
        self._replace(fresh)

    def failed(self, now: float) -> None:
        """Note a failed try; the next one is due after the backoff."""
        self.is_in_flight = False
        self.needs_update = True
        self._not_before = now + self._backoff.next_delay()

    def update_leaders(self, leaders: Iterable[NewLeader], nodes: Iterable[Node]) -> None:
        """Apply the leaders in an error response, and their nodes (KIP-951)."""
        cluster = self.cluster
        for partition, leader, leader_epoch in leaders:
            cluster = cluster.with_leader(partition, leader, leader_epoch)
        if cluster is not self.cluster:
            self._replace(cluster.with_nodes(nodes))

    def update_nodes(self, answer: ClusterMetadata) -> None:
        """Apply brokers, controller and known topics of a response not meant for the refresh task."""
        if not answer.nodes:
            return
        merged = self.cluster.merged(answer)
        topics = {name: merged.topics.get(name, topic) for name, topic in self.cluster.topics.items()}
        self._replace(merged._replace(topics=topics, errors=self.cluster.errors))

    def learn_node(self, node: Node) -> None:
        """Add a broker that another response named, if metadata has not named it yet."""
        if node.node_id not in self.cluster.nodes:
            self._replace(self.cluster.with_nodes([node]))

    def forget_nodes(self) -> None:
        """Drop the brokers, keep the topics: the client goes back to its bootstrap addresses (KIP-899)."""
        self._replace(ClusterMetadata(topics=self.cluster.topics, errors=self.cluster.errors))

    def _replace(self, cluster: ClusterMetadata) -> None:
        self.cluster = cluster
        self.version += 1
        for listener in self.listeners:
            listener(cluster)
