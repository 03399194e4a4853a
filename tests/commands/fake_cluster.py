"""FakeCluster: a cluster of two brokers in memory, with the admin calls that commands make.

Its methods have the signatures of `kcli.client.admin` and answer as a broker does, so a command runs whole:
only the network is missing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kcli.client import admin
from kcli.client.admin import ConfigOperation, ConfigResourceType, ConfigSource, QuotaMatch
from kcli.client.network.metadata import Node
from kcli.client.network.retry_warnings import RetryWarnings
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError

NODES = (1, 2)
DEFAULTS = {"cleanup.policy": "delete", "min.insync.replicas": "1", "retention.ms": "604800000"}


@dataclass
class FakeTopic:
    """A topic: the replicas of each partition, its own configs, and the first and end offset of each."""

    topic_id: bytes
    assignments: list[list[int]]
    configs: dict[str, str] = field(default_factory=dict)
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    isr: dict[int, list[int]] = field(default_factory=dict)
    leaderless: set[int] = field(default_factory=set)
    offline: dict[int, tuple[int, ...]] = field(default_factory=dict)


def unknown() -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class FakeCluster:
    """The cluster's topics and the configs of its brokers."""

    def __init__(self) -> None:
        self.topics: dict[str, FakeTopic] = {}
        self.broker_configs: dict[str, dict[str, str]] = {"1": {}, "2": {}, "": {}}
        self.other_configs: dict[ConfigResourceType, dict[str, dict[str, str]]] = {
            ConfigResourceType.BROKER_LOGGER: {"1": {"root": "INFO"}, "2": {"root": "WARN"}},
            ConfigResourceType.CLIENT_METRICS: {"laptops": {"interval.ms": "60000"}},
            ConfigResourceType.GROUP: {"billing": {"consumer.session.timeout.ms": "50000"}},
        }
        self.client_quotas: dict[admin.QuotaParts, dict[str, float]] = {}
        self.moving: dict[admin.TopicPartition, admin.PartitionReassignment] = {}
        self.refused: dict[admin.TopicPartition, KafkaError] = {}
        self.looks_left: int | None = None
        self.down: set[int] = set()
        self.silent_log_dirs: set[int] = set()
        self.more_nodes: tuple[admin.ClusterNode, ...] = ()

    def add(self, name: str, *assignments: list[int], **configs: str) -> FakeTopic:
        """Add a topic whose id repeats its number."""
        topic = FakeTopic(bytes([len(self.topics) + 1] * 16), list(assignments))
        topic.configs = {name.replace("_", "."): value for name, value in configs.items()}
        self.topics[name] = topic
        return topic

    @asynccontextmanager
    async def open_client(
        self, *_: object, profile: str | None = None, timeout_ms: int | None = None
    ) -> AsyncIterator[FakeCluster]:
        yield self

    async def list_topics(self, client: object, *, include_internal: bool = True) -> list[admin.TopicListing]:
        return [
            admin.TopicListing(
                name,
                topic.topic_id,
                name.startswith("__"),
                len(topic.assignments),
                len(topic.assignments[0]),
                sum(len(topic.isr.get(index, on)) < len(on) for index, on in enumerate(topic.assignments)),
            )
            for name, topic in sorted(self.topics.items())
            if include_internal or not name.startswith("__")
        ]

    async def create_topics(
        self, client: object, topics: Iterable[admin.NewTopic], *, validate_only: bool = False
    ) -> dict[str, admin.TopicCreated | KafkaError]:
        if validate_only:
            configs = tuple(
                admin.ConfigEntry(name, value, ConfigSource.DEFAULT_CONFIG)
                for name, value in DEFAULTS.items()
            )
            return {topic.name: admin.TopicCreated(topic.name, configs=configs) for topic in topics}
        return {topic.name: self._create(topic) for topic in topics}

    def _create(self, new: admin.NewTopic) -> admin.TopicCreated | KafkaError:
        if new.name in self.topics:
            return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' already exists.")
        if " " in new.name:
            return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid.")
        if any(new.name.replace(".", "_") == name.replace(".", "_") for name in self.topics):
            return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic collides with an existing topic.")
        if new.replication_factor > len(NODES):
            return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "only 2 brokers are registered.")
        for name in new.configs:
            if name not in DEFAULTS:
                return KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        factor = max(1, new.replication_factor)
        assignments = list((new.assignments or {}).values()) or [list(NODES[:factor])] * max(
            1, new.partitions
        )
        topic = self.add(new.name, *(list(replicas) for replicas in assignments))
        topic.configs = dict(new.configs)
        return admin.TopicCreated(new.name, topic.topic_id, len(assignments), len(assignments[0]))

    async def delete_topics(self, client: object, names: Iterable[str]) -> dict[str, KafkaError | None]:
        return {name: None if self.topics.pop(name, None) else unknown() for name in names}

    async def create_partitions(
        self, client: object, counts: Mapping[str, admin.NewPartitions]
    ) -> dict[str, KafkaError | None]:
        results: dict[str, KafkaError | None] = {}
        for name, wanted in counts.items():
            topic = self.topics[name]
            added = wanted.total_count - len(topic.assignments)
            if added <= 0:
                results[name] = KafkaError(
                    ErrorCode.INVALID_PARTITIONS, f"{wanted.total_count} is no increase."
                )
                continue
            topic.assignments += [list(ids) for ids in wanted.assignments or [[1]] * added]
            results[name] = None
        return results

    async def describe_topics(
        self,
        client: object,
        names: Iterable[str],
        *,
        partitions_per_answer: int = 2000,
        timeout_ms: int | None = None,
    ) -> dict[str, admin.TopicDescription | KafkaError]:
        return {name: self._describe(name) if name in self.topics else unknown() for name in names}

    def _describe(self, name: str) -> admin.TopicDescription:
        topic = self.topics[name]
        partitions = tuple(
            admin.PartitionDescription(
                index,
                None if index in topic.leaderless else replicas[0],
                0,
                tuple(replicas),
                tuple(topic.isr.get(index, replicas)),
                topic.offline.get(index, ()),
                (),
                (),
            )
            for index, replicas in enumerate(topic.assignments)
        )
        return admin.TopicDescription(name, topic.topic_id, name.startswith("__"), partitions)

    async def describe_configs(
        self,
        client: object,
        resources: Iterable[admin.ConfigResource],
        *,
        names: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[admin.ConfigResource, tuple[admin.ConfigEntry, ...] | KafkaError]:
        found = {resource: self._configs(resource) for resource in resources}
        if include_documentation:
            return found
        return {
            resource: entries
            if isinstance(entries, KafkaError)
            else tuple(entry._replace(documentation=None) for entry in entries)
            for resource, entries in found.items()
        }

    def _configs(self, resource: admin.ConfigResource) -> tuple[admin.ConfigEntry, ...] | KafkaError:
        if resource.type == ConfigResourceType.BROKER:
            source = (
                ConfigSource.DYNAMIC_BROKER_CONFIG
                if resource.name
                else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            )
            own = self.broker_configs[resource.name]
            return tuple(admin.ConfigEntry(name, value, source) for name, value in own.items())
        if resource.type in self.other_configs:
            return self._other_configs(resource)
        if resource.name not in self.topics:
            return unknown()
        own = self.topics[resource.name].configs
        return tuple(
            admin.ConfigEntry(
                name,
                own.get(name, default),
                ConfigSource.DYNAMIC_TOPIC_CONFIG if name in own else ConfigSource.DEFAULT_CONFIG,
                synonyms=(admin.ConfigSynonym(f"log.{name}", default, ConfigSource.DEFAULT_CONFIG),),
                documentation=f"What Apache Kafka says of {name}.",
            )
            for name, default in DEFAULTS.items()
        )

    def _other_configs(self, resource: admin.ConfigResource) -> tuple[admin.ConfigEntry, ...]:
        source = ConfigSource[f"DYNAMIC_{resource.type.name}_CONFIG"]
        own = self.other_configs[resource.type].get(resource.name, {})
        return (
            *(admin.ConfigEntry(name, value, source) for name, value in own.items()),
            admin.ConfigEntry("inherited", "1", ConfigSource.DEFAULT_CONFIG),
        )

    async def list_config_resources(
        self, client: object, types: Iterable[ConfigResourceType]
    ) -> list[admin.ConfigResource]:
        return [
            admin.ConfigResource(kind, name) for kind in types for name in sorted(self.other_configs[kind])
        ]

    async def incremental_alter_configs(
        self,
        client: object,
        alterations: Mapping[admin.ConfigResource, Sequence[admin.ConfigAlteration]],
        *,
        validate_only: bool = False,
    ) -> dict[admin.ConfigResource, KafkaError | None]:
        return {
            resource: self._alter(resource, operations, validate_only)
            for resource, operations in alterations.items()
        }

    def _alter(
        self,
        resource: admin.ConfigResource,
        operations: Sequence[admin.ConfigAlteration],
        validate_only: bool,
    ) -> KafkaError | None:
        if resource.type == ConfigResourceType.TOPIC and resource.name not in self.topics:
            return unknown()
        if resource.type in self.other_configs:
            values = {each.name: each.value or "" for each in operations}
            self.other_configs[resource.type].setdefault(resource.name, {}).update(values)
            return None
        is_broker = resource.type == ConfigResourceType.BROKER
        own = self.broker_configs[resource.name] if is_broker else self.topics[resource.name].configs
        for operation in operations:
            if operation.name not in DEFAULTS:
                return KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {operation.name}")
            before = [item for item in own.get(operation.name, DEFAULTS[operation.name]).split(",") if item]
            match operation.operation if not validate_only else None:
                case ConfigOperation.SET:
                    own[operation.name] = operation.value or ""
                case ConfigOperation.DELETE:
                    own.pop(operation.name, None)
                case ConfigOperation.APPEND:
                    own[operation.name] = ",".join([*before, operation.value or ""])
                case ConfigOperation.SUBTRACT:
                    own[operation.name] = ",".join(item for item in before if item != operation.value)
        return None

    async def describe_client_quotas(
        self, client: object, wanted: Sequence[admin.QuotaFilter], *, strict: bool = True
    ) -> list[admin.EntityQuotas]:
        def is_found(parts: admin.QuotaParts) -> bool:
            names = dict(parts)
            return names.keys() == {each.type for each in wanted} and all(
                each.match is QuotaMatch.ANY or names[each.type] == each.name for each in wanted
            )

        return [
            admin.EntityQuotas(parts, quotas)
            for parts, quotas in self.client_quotas.items()
            if is_found(parts)
        ]

    async def alter_client_quotas(
        self,
        client: object,
        parts: admin.QuotaParts,
        quotas: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> KafkaError | None:
        if "request_percentage" in quotas:
            return KafkaError(ErrorCode.INVALID_REQUEST, "`request_percentage` is not enforced.")
        if "producer_byte_rat" in quotas:
            return KafkaError(ErrorCode.INVALID_REQUEST, "there is no quota `producer_byte_rat`.")
        own = {} if validate_only else self.client_quotas.setdefault(parts, {})
        for key, value in quotas.items():
            own.pop(key, None)
            if value is not None:
                own[key] = value
        if not own:
            self.client_quotas.pop(parts, None)
        return None

    async def list_offsets(
        self,
        client: object,
        timestamps: Mapping[admin.TopicPartition, int],
        *,
        warnings: RetryWarnings | None = None,
    ) -> dict[admin.TopicPartition, admin.OffsetAndTimestamp | KafkaError]:
        results: dict[admin.TopicPartition, admin.OffsetAndTimestamp | KafkaError] = {}
        for partition, timestamp in timestamps.items():
            start, end = self.topics[partition.topic].offsets.get(partition.partition, (0, 0))
            if partition.partition in self.topics[partition.topic].leaderless:
                results[partition] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                found = {admin.LATEST: end, admin.EARLIEST: start}.get(timestamp, -1)
                results[partition] = admin.OffsetAndTimestamp(found)
        return results

    async def delete_records(
        self, client: object, offsets: Mapping[admin.TopicPartition, int]
    ) -> dict[admin.TopicPartition, int | KafkaError]:
        results: dict[admin.TopicPartition, int | KafkaError] = {}
        for partition, offset in offsets.items():
            topic = self.topics.get(partition.topic)
            if topic is None or partition.partition not in topic.offsets:
                results[partition] = unknown()
                continue
            start, end = topic.offsets[partition.partition]
            if topic.configs.get("cleanup.policy") == "compact":
                results[partition] = KafkaError(ErrorCode.POLICY_VIOLATION)
                continue
            if offset > end:
                results[partition] = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
                continue
            topic.offsets[partition.partition] = (max(start, end if offset == -1 else offset), end)
            results[partition] = topic.offsets[partition.partition][0]
        return results

    async def describe_cluster(
        self, client: object, *, include_fenced: bool = False
    ) -> admin.ClusterDescription:
        nodes = (
            admin.ClusterNode(1, "one.example", 9092, "a"),
            admin.ClusterNode(2, "two.example", 9092),
            *self.more_nodes,
            admin.ClusterNode(3, "three.example", 9092, is_fenced=True),
        )
        return admin.ClusterDescription("4L6g3nShT-eMCtK--X86sw", 2, nodes if include_fenced else nodes[:-1])

    async def unregister_broker(self, client: object, broker_id: int) -> None:
        if broker_id not in (1, 2, 3):
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)

    async def api_versions(self, client: object) -> dict[int, admin.NodeApiVersions | KcliError]:
        ranges = (
            admin.ApiVersionRange(0, "Produce", 0, 13, 13),
            admin.ApiVersionRange(1, "Fetch", 19, 20, None),
            admin.ApiVersionRange(8, "OffsetCommit", 0, 1, None),
            admin.ApiVersionRange(47, "OffsetDelete", 0, 0, 0),
            admin.ApiVersionRange(999, None, 0, 3, None),
        )
        return {
            1: admin.NodeApiVersions(Node(1, "one.example", 9092), ranges),
            2: KcliError("cannot connect to two.example:9092: connection refused"),
        }

    async def describe_log_dirs(
        self,
        client: object,
        node_ids: Iterable[int] | None = None,
        *,
        partitions: Iterable[admin.TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[int, tuple[admin.LogDirDescription, ...] | KcliError]:
        wanted = None if partitions is None else set(partitions)
        offline = admin.LogDirDescription("/d2", (), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
        answers: dict[int, tuple[admin.LogDirDescription, ...] | KcliError] = {}
        for node_id in (1, 2) if node_ids is None else node_ids:
            if node_id in self.silent_log_dirs:
                answers[node_id] = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                continue
            replicas = tuple(
                admin.ReplicaLog(name, index, 100 * (index + 1), 0, False)
                for name, topic in self.topics.items()
                for index, brokers in enumerate(topic.assignments)
                if node_id in brokers and (wanted is None or admin.TopicPartition(name, index) in wanted)
            )
            online = admin.LogDirDescription("/d1", replicas, None, 10_000, 9_000)
            answers[node_id] = (online,) if node_id == 1 else (online, offline)
        return answers

    async def list_partition_reassignments(
        self, client: object, partitions: Iterable[admin.TopicPartition] | None = None
    ) -> dict[admin.TopicPartition, admin.PartitionReassignment]:
        if self.looks_left is not None:
            self.looks_left -= 1
            if self.looks_left == 0:
                self._finish_moves()
        wanted = None if partitions is None else set(partitions)
        return {key: self.moving[key] for key in sorted(self.moving) if wanted is None or key in wanted}

    async def alter_partition_reassignments(
        self,
        client: object,
        targets: Mapping[admin.TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[admin.TopicPartition, KafkaError | None]:
        for partition, target in targets.items():
            if partition in self.refused:
                continue
            if target is None:
                del self.moving[partition]
                continue
            old = tuple(self.topics[partition.topic].assignments[partition.partition])
            adding = tuple(sorted(set(target) - set(old)))
            removing = tuple(sorted(set(old) - set(target)))
            if not adding and not removing:
                self.topics[partition.topic].assignments[partition.partition] = list(target)
                continue
            self.moving[partition] = admin.PartitionReassignment((*target, *removing), adding, removing)
        return {partition: self.refused.get(partition) for partition in targets}

    async def alter_replica_log_dirs(
        self, client: object, moves: Mapping[admin.TopicPartitionReplica, str]
    ) -> dict[admin.TopicPartitionReplica, KafkaError | None]:
        unknown_dir = KafkaError(ErrorCode.LOG_DIR_NOT_FOUND)
        return {replica: None if path in ("/d1", "/d3") else unknown_dir for replica, path in moves.items()}

    def _finish_moves(self) -> None:
        for (topic, index), move in self.moving.items():
            replicas = [each for each in move.replicas if each not in move.removing]
            self.topics[topic].assignments[index] = replicas
        self.moving.clear()
