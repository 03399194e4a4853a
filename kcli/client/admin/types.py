"""The values that admin calls take and return: named tuples, whose classes cost a third of dataclasses.

A group is Classic or Consumer (KIP-848). A field that its type does not have, or that an old broker does not
send, is None.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.configs import ConfigSource, ConfigType
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.client.network.metadata import Node
    from kcli.errors import KcliError
    from kcli.protocol.configs import ConfigOperation, ConfigResourceType
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.topics import TopicPartition


class NewTopic(NamedTuple):
    """A topic to create; -1 means the broker's default.

    `assignments` (partition index -> broker ids, preferred leader first) excludes the two numbers.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] = MappingProxyType({})


class TopicCreated(NamedTuple):
    """A topic that was created, or would be with `validate_only`.

    `partitions` and `replication_factor` are -1, and `configs` is None, if the broker does not send them
    (older than 2.4, or describing configs is not authorized).
    """

    name: str
    topic_id: bytes = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[ConfigEntry, ...] | None = None


class NewPartitions(NamedTuple):
    """The new partition count of a topic, and the brokers of each added partition."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicListing(NamedTuple):
    """A topic in a listing of all.

    `replication_factor` is that of the first partition, `under_replicated` the number of partitions with
    replicas out of sync.
    """

    name: str
    topic_id: bytes
    is_internal: bool
    partition_count: int
    replication_factor: int = 0
    under_replicated: int = 0


class PartitionDescription(NamedTuple):
    """One partition. `leader` is None if it has none.

    `eligible_leader_replicas` and `last_known_elr` are None if the broker does not send them (KIP-966).
    """

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


class TopicDescription(NamedTuple):
    """A topic and its partitions in ascending order."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the first partition, as Kafka's tool does."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class ConfigResource(NamedTuple):
    """A resource with configs. A broker's name is its id as text; "" is the default of all brokers."""

    type: ConfigResourceType
    name: str


class ConfigSynonym(NamedTuple):
    """One of the sources of a value, most specific first."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One config of a resource. A sensitive value is None."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None


class ConfigAlteration(NamedTuple):
    """One change of one config. `value` is None for DELETE."""

    name: str
    operation: ConfigOperation
    value: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """A result of `list_offsets`. Offset and timestamp are -1 if the broker found none."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


class ReplicaLog(NamedTuple):
    """One replica in a log directory. `is_future`: it is being moved here from another directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """One log directory of a broker. Volume sizes are -1 if the broker does not send them (KIP-827)."""

    path: str
    replicas: tuple[ReplicaLog, ...] = ()
    error: KafkaError | None = None
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


class ClusterNode(NamedTuple):
    """A broker as DescribeCluster shows it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class ClusterDescription(NamedTuple):
    """The cluster's id, its brokers by ascending id, and the broker that acts as the controller."""

    cluster_id: str | None
    controller_id: int | None
    nodes: tuple[ClusterNode, ...]


class ApiVersionRange(NamedTuple):
    """The versions of one API that a broker advertises. `name` is None for an unknown key."""

    api_key: int
    name: str | None
    min_version: int
    max_version: int
    usable: int | None
    """The version this client would use, None without a common one."""


class FeatureRange(NamedTuple):
    """The levels of one feature, supported or finalized."""

    name: str
    min_level: int
    max_level: int


class NodeApiVersions(NamedTuple):
    """A broker and its response to ApiVersions, by ascending key."""

    node: Node
    apis: tuple[ApiVersionRange, ...]
    supported_features: tuple[FeatureRange, ...] = ()
    finalized_features: tuple[FeatureRange, ...] = ()
    finalized_features_epoch: int = -1


NO_GENERATION = -1

CLASSIC = "Classic"
CONSUMER = "Consumer"


class GroupListing(NamedTuple):
    """A group in a listing. `protocol_type` is "consumer" for groups of consumers, "connect" for Connect.

    It is empty for a group that only committed offsets. Brokers before 2.6 send no states, those before 3.8
    no types.
    """

    group_id: str
    protocol_type: str
    state: str | None = None
    type: str | None = None


class GroupListings(NamedTuple):
    """The groups of all brokers, and the errors of brokers that did not list theirs."""

    groups: tuple[GroupListing, ...]
    errors: Mapping[int, KcliError] = MappingProxyType({})


class GroupMember(NamedTuple):
    """A member of a group. Partitions are in order.

    `assignment` is empty while a classic group rebalances, and in classic groups of other programs, which
    have their own format. `is_classic` is the protocol of a member of a Consumer group (KIP-1099).
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


class GroupDescription(NamedTuple):
    """A group and its members, in the order of the response.

    `assignor` is empty until the members agree on one. Brokers before 4.0 describe a group that does not
    exist, in state Dead.
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


class CommittedOffset(NamedTuple):
    """The committed position of a group in a partition: the offset of the next record to read."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class Generation(NamedTuple):
    """The generation of a group and the member id in it."""

    generation_id: int = NO_GENERATION
    member_id: str = ""
    protocol: str | None = None

    @property
    def is_known(self) -> bool:
        """Return whether the coordinator may know this member in this generation."""
        return self.generation_id != NO_GENERATION and self.member_id != ""
