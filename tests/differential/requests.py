"""Random requests: tables of values that fit a field, and of values that do not.

`valid_request` walks the declaration of a request and picks each value from `FIELDS`; `spoil` makes one value
wrong. An entry is found by `Struct.field`, else by `Api.field`, else by the name of the field alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcli.broker.network.apis import APIS as SERVED
from kcli.protocol.apis import named
from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.protocol.schema.fields import fields_of
from tests.differential.batches import produced, sound_batch
from tests.differential.world import (
    NEW_GROUPS,
    REBALANCE_MS,
    SESSION_MS,
    TOPICS,
    TRANSACTIONAL_IDS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from kcli.protocol.schema.fields import Field
    from tests.differential.world import World

Pick = "Callable[[Random, World], Any]"

APIS = tuple(api for api in SERVED if named(api.name).java is not None)
"""The APIs that both brokers serve."""

CHANGING = {
    "CreateTopics": 0.12, "DeleteTopics": 0.12, "CreatePartitions": 0.12, "AlterConfigs": 0.12,
    "IncrementalAlterConfigs": 0.12, "AlterClientQuotas": 0.12, "ElectLeaders": 0.12,
    "AlterPartitionReassignments": 0.12, "UpdateFeatures": 0.1, "UnregisterBroker": 0.1,
    "CreateAcls": 0.2, "DeleteAcls": 0.2, "AlterUserScramCredentials": 0.2,
}  # fmt: skip
"""APIs that change metadata, which takes Apache Kafka milliseconds to apply, and how often to ask them."""

RARE = {"JoinGroup": 0.3, "ApiVersions": 0.1, "Produce": 2.0, "ListOffsets": 1.5, "Fetch": 1.5}


def versions(name: str) -> range:
    """The versions of an API that both brokers serve."""
    api = named(name)
    assert api.java is not None
    assert api.kcli is not None
    lowest = 3 if name == "Produce" else max(api.java[0], api.kcli[0])
    return range(lowest, min(api.java[1], api.kcli[1]) + 1)


def of(*values: Any) -> Pick:
    """Any of the values."""
    return lambda random, world: random.choice(values)


def topic(random: Random, world: World) -> str:
    """The name of a topic that is there."""
    return world.topic(random.choice(tuple(TOPICS)[:-2]))


def topic_id(random: Random, world: World) -> bytes:
    """The id of a topic that is, or was, there."""
    return world.topic_ids[random.choice(sorted(world.topic_ids))]


def new_topic(random: Random, world: World) -> str:
    """A name for a topic to be created."""
    return world.topic(f"new-{random.randrange(40)}")


def victim(random: Random, world: World) -> str:
    """A topic that may go."""
    return world.topic(random.choice(("deleted-a", "deleted-b", f"new-{random.randrange(40)}")))


def group(random: Random, world: World) -> str:
    """A group in any state."""
    return world.group(
        random.choice(
            ("empty", "other", "stable", "stable", "modern", "modern", f"new-{random.randrange(NEW_GROUPS)}")
        )
    )


def transactional_id(random: Random, world: World) -> str:
    """An id that has a producer, or one that may get it."""
    return world.transactional_id(random.choice(TRANSACTIONAL_IDS))


def producer_id(random: Random, world: World) -> int:
    """The producer id of some transactional id."""
    return random.choice([each for each, _ in world.producers.values()])


def member(random: Random, world: World) -> str:
    """A member that some group has, or had."""
    return random.choice((*world.members[:2], *world.members, ""))


CONFIGS = """
retention.ms=60000 retention.ms=-1 retention.bytes=1000000 segment.bytes=1048576
cleanup.policy=delete cleanup.policy=compact,delete compression.type=zstd max.message.bytes=100000
min.insync.replicas=1 message.timestamp.type=LogAppendTime unclean.leader.election.enable=true
min.cleanable.dirty.ratio=0.3 flush.ms=1000 leader.replication.throttled.replicas=*
leader.replication.throttled.replicas=0:1 compression.gzip.level=9 local.retention.ms=-2
remote.storage.enable=false preallocate=TRUE retention.ms=-2 retention.ms=x retention.ms=
segment.bytes=1 cleanup.policy=shred cleanup.policy= cleanup.policy=compact,compact
min.insync.replicas=0 compression.type=brotli no.such.config=1 =1 message.timestamp.type=createtime
unclean.leader.election.enable=yes min.cleanable.dirty.ratio=1.5 compression.gzip.level=10
compression.gzip.level=0 leader.replication.throttled.replicas=x message.format.version=2.8
segment.ms=0 remote.storage.enable=true local.retention.ms=9999999999 segment.jitter.ms=-1
retention.ms=9223372036854775808 file.delete.delay.ms=-1 index.interval.bytes=0
"""
"""Configurations of topics; some are refused."""


def config(random: Random, world: World) -> tuple[str, str]:
    """A configuration of a topic and a value for it."""
    name, _, value = random.choice(CONFIGS.split()).partition("=")
    return name, value


PARTITION = of(0, 0, 0, 1, 2)
BROKER_IDS = of(1, 1, 1)
FIELDS: dict[str, Pick] = {
    "topic": topic,
    "name": topic,
    "topic_name": topic,
    "topic_id": topic_id,
    "group_id": group,
    "groups": group,
    "group_ids": group,
    "groups_names": group,
    "member_id": member,
    "group_instance_id": of(None, None, None, "static-1", "static-2"),
    "generation_id": of(1, 1, 1, 2, 0, 3),
    "member_epoch": of(0, 1, 1, 2, -1),
    "partition": PARTITION,
    "partition_index": PARTITION,
    "partition_indexes": PARTITION,
    "partitions": PARTITION,
    "index": PARTITION,
    "replica_id": of(-1),
    "timeout_ms": of(5000),
    "isolation_level": of(0, 1),
    "current_leader_epoch": of(-1, -1, 0),
    "leader_epoch": of(0, 0, 1, -1),
    "timestamp": of(-1, -2, -3, -4, -5, -6, 0, 1, 2**50),
    "max_num_offsets": of(1, 2, 10),
    "throttle_time_ms": of(0),
    "reason": of(None, "because"),
    "protocol_type": of("consumer", "consumer", "consumer", "connect"),
    "protocol_name": of("range", "range", None),
    "endpoint_type": of(1),
    "cursor": of(None),
    # Produce
    "transactional_id": of(None),
    "acks": of(-1, -1, 1, 0),
    "Produce.timeout_ms": of(5000),
    "records": lambda random, world: produced(random),
    # Fetch
    "FetchRequest.cluster_id": of(None),
    "FetchRequest.max_wait_ms": of(0, 0, 1, 5),
    "FetchRequest.min_bytes": of(0, 1, 1, 1000),
    "FetchRequest.max_bytes": of(2**31 - 1, 100_000, 1000, 1),
    "FetchRequest.session_id": of(0),
    "FetchRequest.session_epoch": of(-1, 0),
    "FetchRequest.rack_id": of("", "rack"),
    "ForgottenTopic.topic": topic,
    "fetch_offset": of(0, 0, 1, 5, 20, 21, 40, 100, 119, 120, 121),
    "last_fetched_epoch": of(-1, -1, 0),
    "log_start_offset": of(-1, 0),
    "partition_max_bytes": of(1_000_000, 1000, 100, 1, 0),
    "ReplicaState.replica_id": of(-1),
    "ReplicaState.replica_epoch": of(-1),
    "replica_directory_id": of(bytes(16)),
    "high_watermark": of(2**63 - 1),
    # groups
    "generation_id_or_member_epoch": of(-1, -1, 1, 1, 2),
    "OffsetCommitRequest.member_id": lambda random, world: random.choice(("", "", *world.members)),
    "OffsetFetchRequestGroup.member_id": lambda random, world: random.choice(
        (None, None, "", *world.members)
    ),
    "OffsetFetchRequestGroup.member_epoch": of(-1, -1, 1),
    "retention_time_ms": of(-1, 100_000_000),
    "commit_timestamp": of(-1),
    "committed_offset": of(0, 1, 7, 1000, 2**40),
    "committed_leader_epoch": of(-1, 0),
    "committed_metadata": of("", None, "note", "x" * 4096),
    "key": group,
    "key_type": of(0, 0, 0, 0, 1),
    "coordinator_keys": group,
    "session_timeout_ms": of(SESSION_MS, SESSION_MS, 60_000_000),
    "rebalance_timeout_ms": of(REBALANCE_MS, REBALANCE_MS, 2 * REBALANCE_MS),
    "JoinGroupRequestProtocol.name": of("range", "range", "roundrobin", "sticky"),
    "JoinGroupRequestProtocol.metadata": of(
        b"\0\1\0\0\0\0\0\0\0\0", b"", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
    ),
    "assignment": of(b"\0\1\0\0\0\0\0\0\0\0", b"", b"assignment"),
    "states_filter": of("Stable", "Empty", "stable", "Dead", "PreparingRebalance", "no such"),
    "types_filter": of("classic", "consumer", "Consumer", "share", "no such"),
    "ConsumerGroupHeartbeatRequest.group_id": lambda random, world: random.choice(
        (world.modern, world.modern, group(random, world))
    ),
    "ConsumerGroupHeartbeatRequest.member_id": lambda random, world: random.choice(
        (*world.members, "member-a", "member-b", "member-c")
    ),
    "ConsumerGroupHeartbeatRequest.rebalance_timeout_ms": of(SESSION_MS, SESSION_MS, -1),
    "instance_id": of(None, None, None, None, "static-a"),
    "ConsumerGroupHeartbeatRequest.rack_id": of(None, None, "rack"),
    "subscribed_topic_names": topic,
    "subscribed_topic_regex": lambda random, world: random.choice(
        (None, None, None, world.prefix + "(plain|single)", "")
    ),
    "server_assignor": of(None, None, "uniform", "range"),
    # topics
    "CreatableTopic.name": new_topic,
    "num_partitions": of(1, 1, 2, 3, -1),
    "replication_factor": of(1, 1, -1),
    "broker_ids": of(1),
    "validate_only": of(False, False, True),
    "DeleteTopicState.name": victim,
    "DeleteTopicState.topic_id": of(bytes(16)),
    "topic_names": victim,
    "CreatePartitionsTopic.name": lambda random, world: random.choice(
        (victim(random, world), world.topic("changed"))
    ),
    "count": of(2, 3, 3, 4, 1),
    "offset": of(0, 1, 2, 5, 5, -1),
    "DeleteRecordsRequest.timeout_ms": of(5000),
    "AlterReplicaLogDir.path": of("/no/such/directory"),
    "election_type": of(0, 0, 1),
    "replicas": of(1),
    "MetadataRequestTopic.topic_id": of(bytes(16)),
    "allow_auto_topic_creation": of(False),
    "response_partition_limit": of(2000, 1, 2, 5),
    "Cursor.partition_index": of(0, 1, 2),
    # configurations
    "resource_type": of(2),
    "resource_name": topic,
    "configuration_keys": lambda random, world: config(random, world)[0],
    "AlterConfigsResource.resource_name": lambda random, world: world.topic(
        random.choice(("changed", "deleted-b"))
    ),
    "config_operation": of(0, 0, 0, 1, 2, 3),
    "resource_types": of(2, 4, 8, 16, 32),
    # transactions
    "InitProducerIdRequest.transactional_id": lambda random, world: random.choice(
        (None, transactional_id(random, world))
    ),
    "AddPartitionsToTxnTransaction.transactional_id": transactional_id,
    "v3_and_below_transactional_id": transactional_id,
    "AddOffsetsToTxnRequest.transactional_id": transactional_id,
    "EndTxnRequest.transactional_id": transactional_id,
    "TxnOffsetCommitRequest.transactional_id": transactional_id,
    "transactional_ids": transactional_id,
    "v3_and_below_producer_id": producer_id,
    "producer_id": producer_id,
    "producer_id_filters": producer_id,
    "v3_and_below_producer_epoch": of(0, 1, 2),
    "producer_epoch": of(0, 1, 2),
    "coordinator_epoch": of(0, 0, 1, -1),
    "transaction_version": of(0, 0, 1, 2),
    "state_filters": of("Empty", "Ongoing", "CompleteAbort", "PrepareCommit", "Dead", "ongoing", "no such"),
    "duration_filter": of(-1, -1, 0, 10**9),
    "transactional_id_pattern": lambda random, world: random.choice(
        (None, "", ".*", world.prefix + "tx-(a|b)", world.prefix + "tx", "(", "[z-a]", ".*tx-[^a]")
    ),
    # producers, quotas, cluster
    "transaction_timeout_ms": of(600_000, 900_000),
    "InitProducerIdRequest.producer_id": of(-1),
    "InitProducerIdRequest.producer_epoch": of(-1),
    "entity_type": of("user", "client-id", "client-id", "ip"),
    "entity_name": lambda random, world: world.topic(random.choice(("ann", "bob", "app"))),
    "match_type": of(0, 1, 2),
    "match": lambda random, world: random.choice((None, world.topic("ann"), world.topic("app"))),
    "OpData.key": of(
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
        "connection_creation_rate",
    ),
    "value": of(None, "1"),
    "OpData.value": of(1.0, 1000.0, 1e9),
    "QuorumTopic.topic_name": of("__cluster_metadata"),
    "feature": of(
        "no.such.feature", "group.version", "transaction.version", "metadata.version", "kraft.version"
    ),
    "max_version_level": of(100, 99),
    "upgrade_type": of(1, 1, 2, 3),
    "UnregisterBrokerRequest.broker_id": of(7, 8, 1000, -1),
    # logins, credentials, tokens
    "SaslHandshakeRequest.mechanism": of("PLAIN", "no such"),
    "auth_bytes": of(b"", b"\0ann\0secret"),
    "UserName.name": lambda random, world: world.topic(random.choice(("ann", "bob"))),
    "ScramCredentialDeletion.name": lambda random, world: world.topic(random.choice(("ann", "bob"))),
    "ScramCredentialUpsertion.name": lambda random, world: world.topic(random.choice(("ann", "bob"))),
    "mechanism": of(1, 2),
    "iterations": of(4096, 8192, 1),
    "salt": of(b"salt"),
    "salted_password": of(b"p" * 32),
    "principal_type": of("User", "Group"),
    "owner_principal_type": of("User", None),
    "principal_name": of("ann", "alice"),
    "owner_principal_name": of("ann", "alice", None),
    "max_lifetime_ms": of(-1, 60_000),
    "hmac": of(b"", b"h" * 64),
    "renew_period_ms": of(-1, 1000),
    "expiry_time_period_ms": of(-1, 1000),
    # access control
    "resource_type_filter": of(1, 2, 3, 4, 5),
    "resource_name_filter": lambda random, world: random.choice((None, "*", topic(random, world))),
    "pattern_type_filter": of(1, 2, 3, 4),
    "principal_filter": of(None, "User:ANONYMOUS", "User:*"),
    "host_filter": of(None, "127.0.0.2"),
    "operation": of(1, 2, 3, 4, 8),
    "permission_type": of(1, 2, 3),
    "AclCreation.resource_type": of(2, 2, 3, 5, 4, 1),
    "AclCreation.resource_name": group,
    "resource_pattern_type": of(3, 3, 4, 1),
    "AclCreation.principal": of("User:ANONYMOUS", "User:alice", "User:*", "ann"),
    "AclCreation.host": of("*", "127.0.0.3", "10.0.0.1"),
    "AclCreation.operation": of(2, 3, 4, 1),
    "AclCreation.permission_type": of(2, 3, 3, 1),
    "client_software_name": of("raw", "raw"),
    "client_software_version": of("1.0"),
    "Fetch.topic": topic,
}
"""Values that fit."""

STRINGS = (
    "",
    "missing",
    "no such name",
    "ünïcode",
    "x" * 249,
    "x" * 250,
    ".",
    "..",
    "a/b",
    "a\0b",
    "__consumer_offsets",
    "a.b_c",
)
IDS = (bytes(16), bytes(15) + b"\1", b"\x7f" * 16)
WRONG: dict[str, tuple[Any, ...]] = {
    "i8": (-128, -2, -1, 0, 1, 2, 3, 4, 5, 8, 127),
    "i16": (-(2**15), -2, -1, 0, 1, 2, 3, 2**15 - 1),
    "i32": (-(2**31), -2, -1, 0, 1, 2, 3, 7, 100, 2**31 - 1),
    "i64": (-(2**63), -7, -6, -2, -1, 0, 1, 100, 2**40, 2**63 - 1),
    "f64": (-1.0, 0.0, 0.5, float("inf"), 1e300),
    "string": STRINGS,
    "uuid": IDS,
    "bytes": (b"", b"\0", b"\xff" * 5),
}
"""Values of a kind that most fields of it do not take."""

WRONG_FIELDS: dict[str, tuple[Any, ...]] = {
    "num_partitions": (-2, 0, 10_001, 2**31 - 1),
    # None above 10,000: Apache Kafka answers with an error and creates 10,000, which takes minutes.
    "count": (-(2**31), -1, 0, 1),
    "max_wait_ms": (-(2**31), -1, 0),
    "min_bytes": (-(2**31), -1, 0),
    "timeout_ms": (-(2**31), -1, 0, 1),
    # Neither 0 nor 1: timers that end at once remove a member at another time in each broker.
    "rebalance_timeout_ms": (-(2**31), -2, -1),
    "ConsumerGroupHeartbeatRequest.rebalance_timeout_ms": (-1, 2**31 - 1),
    "session_timeout_ms": (-(2**31), -1, 0, 100, 1_800_001, 2**31 - 1),
    # No short ones: transactions that time out do so at another moment in each broker.
    "transaction_timeout_ms": (-(2**31), -1, 0, 900_001, 2**31 - 1),
    # Not -1, for which Apache Kafka's handler throws.
    "WritableTxnMarker.producer_epoch": (-(2**15), -2, 0, 1, 2**15 - 1),
    "WritableTxnMarker.producer_id": (-(2**63), -7, 2**40, 2**63 - 1),
    # None that a broker may have given to somebody.
    **dict.fromkeys(
        ("producer_id", "v3_and_below_producer_id", "producer_id_filters"),
        (-(2**63), -7, -1, 2**40, 2**63 - 1),
    ),
    "UnregisterBrokerRequest.broker_id": (-(2**31), -2, 0, 2, 2**31 - 1),
    "max_version_level": (-1, 31, 100),
    "feature": ("", "no such", "x" * 250),
    # Never the internal topics: they are for all worlds.
    **dict.fromkeys(
        (
            "DeleteTopicState.name",
            "topic_names",
            "CreatePartitionsTopic.name",
            "CreatableTopic.name",
            "DeleteRecordsTopic.name",
            "ReassignableTopic.name",
            "AlterConfigsResource.resource_name",
            "WritableTxnMarkerTopic.name",
        ),
        ("", "missing", "no such name", "ünïcode", "x" * 249, "x" * 250, ".", "..", "a/b", "a\0b", "a.b_c"),
    ),
    "group_id": ("", "%", "%ünïcode", "%no such name", "%a/b", "%a\0b", "%" + "x" * 249),
}
"""The same for fields where another value would stop a broker or take long; % is the prefix of the world."""


def wrong_values(struct: type[Any], field: Field, world: World) -> tuple[Any, ...]:
    """Values that a field should not have."""
    found = WRONG_FIELDS.get(f"{struct.__name__}.{field.name}") or WRONG_FIELDS.get(field.name)
    assert field.wire is not None
    if found is None:
        return WRONG.get(field.wire.kind, ())
    return tuple(each.replace("%", world.prefix) if isinstance(each, str) else each for each in found)


@dataclass(slots=True)
class Request:
    """A request of one version of an API."""

    api: str
    version: int
    body: Any


class RequestMaker:
    """Makes the requests of a seed, for all APIs or one."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self._names = names or tuple(api.name for api in APIS)
        self._weights = [CHANGING.get(name, RARE.get(name, 1.0)) for name in self._names]
        self._classes = {api.name: api.request for api in APIS}

    def make(self, random: Random, world: World) -> Request:
        """One request."""
        if world.wanted and random.random() < 0.7:
            return world.wanted.pop()
        world.wanted.clear()
        name = random.choices(self._names, self._weights)[0]
        version = random.choice(versions(name))
        import_module(self._classes[name].__module__)
        body = valid(self._classes[name], name, version, random, world)
        ADJUST.get(name, lambda *_: None)(body, version, random, world)
        transactions = getattr(body, "transactions", [])[:1]
        for _ in range(random.choice((0, 0, 1, 1, 1, 2))):
            spoil(body, version, random, world)
        if name == "AddPartitionsToTxn":
            # Apache Kafka never answers a request without transactions, or with one of them twice.
            body.transactions = transactions
        if name == "AlterUserScramCredentials":
            # Java makes no key of an empty password.
            for each in body.upsertions:
                each.salted_password = each.salted_password or b"p" * 32
        if name == "DescribeUserScramCredentials":
            # Apache Kafka never refuses a request for all users: its handler throws.
            body.users = body.users or []
        if name == "WriteTxnMarkers":
            _write_markers(body, version, random, world)
        if name == "DescribeTopicPartitions":
            _describe_topics(body, version, random, world)
        return Request(name, version, body)


def valid(struct: type[Any], api: str, version: int, random: Random, world: World) -> Any:
    """An object with values that fit; fields that the version lacks have their defaults."""
    values = {}
    for field in fields_of(struct):
        if version not in field.versions:
            values[field.name] = field.make_default()
            continue
        pick = (
            FIELDS.get(f"{struct.__name__}.{field.name}")
            or FIELDS.get(f"{api}.{field.name}")
            or FIELDS.get(field.name)
        )
        if field.is_array:
            if version in field.nullable and random.random() < 0.2:
                values[field.name] = None
                continue
            count = random.choice((1, 1, 1, 1, 2, 2, 3, 0))
            if field.struct is not None:
                values[field.name] = [valid(field.struct, api, version, random, world) for _ in range(count)]
            else:
                assert pick is not None, f"{struct.__name__}.{field.name}"
                values[field.name] = [pick(random, world) for _ in range(count)]
        elif field.struct is not None:
            is_null = version in field.nullable and random.random() < 0.7
            values[field.name] = None if is_null else valid(field.struct, api, version, random, world)
        elif pick is not None:
            value = pick(random, world)
            if value is None and version not in field.nullable:
                value = field.make_default() or ""
            values[field.name] = value
        else:
            assert field.wire is not None
            assert field.wire.kind == "boolean", f"{struct.__name__}.{field.name}"
            values[field.name] = random.random() < 0.5
    return struct(**values)


def sites(value: Any, version: int) -> Iterator[tuple[Any, Field]]:
    """Every object inside a request with each field that the version has."""
    for field in fields_of(type(value)):
        if version not in field.versions:
            continue
        yield value, field
        part = getattr(value, field.name)
        if field.struct is not None:
            for item in part if isinstance(part, list) else [part]:
                if item is not None:
                    yield from sites(item, version)


def spoil(body: Any, version: int, random: Random, world: World) -> None:
    """Make one value of a request wrong, or one list too short, too long or null."""
    places = list(sites(body, version))
    if not places:
        return
    owner, field = random.choice(places)
    value = getattr(owner, field.name)
    if field.wire is not None and field.wire.kind == "records":
        return
    if version in field.nullable and random.random() < 0.2:
        setattr(owner, field.name, None)
    elif field.is_array and isinstance(value, list):
        if value and random.random() < 0.3:
            twice = [*value, value[0]] if field.name != "resources" else []
            setattr(owner, field.name, random.choice(([], twice)))
        elif field.struct is None and wrong_values(type(owner), field, world):
            setattr(owner, field.name, [*value[1:], random.choice(wrong_values(type(owner), field, world))])
    elif not field.is_array and field.struct is None and field.wire is not None:
        if field.wire.kind == "boolean":
            setattr(owner, field.name, not value)
        elif wrong := wrong_values(type(owner), field, world):
            setattr(owner, field.name, random.choice(wrong))


# --- values that depend on each other ----------------------------------------------------------------


def _configs(body: Any, version: int, random: Random, world: World) -> None:
    for owner in getattr(body, "resources", getattr(body, "topics", [])):
        for each in owner.configs or []:
            each.name, each.value = config(random, world)


def _create_topics(body: Any, version: int, random: Random, world: World) -> None:
    _configs(body, version, random, world)
    for each in body.topics:
        if random.random() < 0.5:
            each.configs = []
        if random.random() < 0.7:
            each.assignments = []
        else:
            each.num_partitions = each.replication_factor = -1
            for number, assignment in enumerate(each.assignments):
                assignment.partition_index = number
        if version < 4:
            each.num_partitions = max(each.num_partitions, 1) if not each.assignments else -1
            each.replication_factor = 1 if not each.assignments else -1


def _delete_topics(body: Any, version: int, random: Random, world: World) -> None:
    for each in body.topics:
        if random.random() < 0.3:
            each.topic_id = world.topic_ids.get(victim(random, world), bytes(15) + b"\2")
            each.name = None


def _create_partitions(body: Any, version: int, random: Random, world: World) -> None:
    for each in body.topics:
        if random.random() < 0.7:
            each.assignments = None


def _produce(body: Any, version: int, random: Random, world: World) -> None:
    del body.topic_data[1:]
    for each in body.topic_data:
        del each.partition_data[1:]
        if random.random() < 0.4:
            for data in each.partition_data:
                data.records = sound_batch(random).encode()


def _metadata(body: Any, version: int, random: Random, world: World) -> None:
    body.allow_auto_topic_creation = version < 4
    for each in body.topics or []:
        if version >= 12 and random.random() < 0.4:
            each.topic_id, each.name = topic_id(random, world), None


def _init_producer(body: Any, version: int, random: Random, world: World) -> None:
    if version >= 3 and random.random() < 0.4:
        known = world.producers.get(body.transactional_id or "")
        if known is not None:
            body.producer_id, body.producer_epoch = known


def _of_producer(body: Any, version: int, random: Random, world: World) -> None:
    """Name the producer that the transactional id has, mostly."""
    known = world.producers.get(body.transactional_id)
    if known is not None and random.random() < 0.85:
        body.producer_id, body.producer_epoch = known


def _add_partitions(body: Any, version: int, random: Random, world: World) -> None:
    if version >= 4 and not body.transactions:
        body.transactions = [
            valid(AddPartitionsToTxnTransaction, "AddPartitionsToTxn", version, random, world)
        ]
    for each in body.transactions:
        _of_producer(each, version, random, world)
    known = world.producers.get(body.v3_and_below_transactional_id)
    if version < 4 and known is not None and random.random() < 0.85:
        body.v3_and_below_producer_id, body.v3_and_below_producer_epoch = known


def _write_markers(body: Any, version: int, random: Random, world: World) -> None:
    # Apache Kafka never answers a marker that names a partition twice, leaves one without partitions out of
    # its response, and puts the results of producers that are named twice together.
    del body.markers[1:]
    for marker in body.markers:
        del marker.topics[1:]
        for each in marker.topics:
            each.partition_indexes = list(dict.fromkeys(each.partition_indexes)) or [0]
    body.markers = [marker for marker in body.markers if marker.topics]


def sync_after(join: Request, response: Any) -> Request:
    """The request by which the leader of a new generation assigns."""
    version = min(join.version, 5)
    named = {"protocol_type": response.protocol_type, "protocol_name": response.protocol_name}
    body = SyncGroupRequest(
        group_id=join.body.group_id,
        generation_id=response.generation_id,
        member_id=response.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"assignment")],
        **(named if join.version >= 7 else {}),
    )
    return Request("SyncGroup", version if join.version >= 7 else min(version, 4), body)


def _join(body: Any, version: int, random: Random, world: World) -> None:
    if version == 0:
        body.group_id = world.group(f"old-{random.randrange(10**9)}")
        body.member_id = ""


def _describe_topics(body: Any, version: int, random: Random, world: World) -> None:
    if not body.topics:
        # Which topics a page has depends on those of other users of the brokers.
        body.response_partition_limit, body.cursor = 2000, None


def _alter_configs(body: Any, version: int, random: Random, world: World) -> None:
    # Apache Kafka does not answer AlterConfigs that names a resource twice.
    del body.resources[1:]
    _configs(body, version, random, world)


ADJUST = {
    "DescribeTopicPartitions": _describe_topics,
    "AlterConfigs": _alter_configs,
    "IncrementalAlterConfigs": _configs,
    "CreateTopics": _create_topics,
    "DeleteTopics": _delete_topics,
    "CreatePartitions": _create_partitions,
    "Produce": _produce,
    "InitProducerId": _init_producer,
    "AddPartitionsToTxn": _add_partitions,
    "AddOffsetsToTxn": _of_producer,
    "EndTxn": _of_producer,
    "TxnOffsetCommit": _of_producer,
    "Metadata": _metadata,
    "JoinGroup": _join,
}
