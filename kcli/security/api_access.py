"""What a principal needs for each API, as data: `API_ACCESS` (Kafka classes `KafkaApis`, `ControllerApis`).

An API needs all rows of its entry whose resource a request names. A need is met by its own operation, or by
one of those that do `instead`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kcli.security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping


class Permission(NamedTuple):
    """An operation on a resource of a type."""

    operation: Operation
    type: ResourceType


class Need(NamedTuple):
    """A permission that an API needs, or one of others; an `is_optional` one only some requests need."""

    permission: Permission
    instead: tuple[Permission, ...] = ()
    is_optional: bool = False


def _on(type: ResourceType, operation: Operation, *instead: Permission, optional: bool = False) -> Need:
    return Need(Permission(operation, type), instead, optional)


_T, _G, _C, _X = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)


def _on_each(operation: Operation) -> tuple[Need, ...]:
    return tuple(_on(type, operation, optional=True) for type in (_T, _G, _C))


_CLUSTER_ACTION = Permission(Operation.CLUSTER_ACTION, _C)
_READ_GROUP = _on(_G, Operation.READ)
_READ_TOPIC = _on(_T, Operation.READ)
_DESCRIBE_GROUP = _on(_G, Operation.DESCRIBE)
_DESCRIBE_TOPIC = _on(_T, Operation.DESCRIBE)
_WRITE_ID = _on(_X, Operation.WRITE)
_ALTER_CLUSTER = (_on(_C, Operation.ALTER),)
_DESCRIBE_CLUSTER = (_on(_C, Operation.DESCRIBE),)

API_ACCESS: Mapping[str, tuple[Need, ...]] = MappingProxyType(
    {
        "Produce": (_on(_T, Operation.WRITE), _on(_X, Operation.WRITE, optional=True)),
        "Fetch": (_READ_TOPIC,),
        "ListOffsets": (_DESCRIBE_TOPIC,),
        "Metadata": (
            _on(_T, Operation.DESCRIBE, optional=True),
            _on(_C, Operation.DESCRIBE, optional=True),
        ),
        "OffsetCommit": (_READ_GROUP, _READ_TOPIC),
        "OffsetFetch": (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
        "FindCoordinator": (
            _on(_G, Operation.DESCRIBE, optional=True),
            _on(_X, Operation.DESCRIBE, optional=True),
        ),
        "JoinGroup": (_READ_GROUP,),
        "Heartbeat": (_READ_GROUP,),
        "LeaveGroup": (_READ_GROUP,),
        "SyncGroup": (_READ_GROUP,),
        "DescribeGroups": (_DESCRIBE_GROUP,),
        "ListGroups": (_on(_G, Operation.DESCRIBE, Permission(Operation.DESCRIBE, _C)),),
        "SaslHandshake": (),
        "ApiVersions": (),
        "CreateTopics": (_on(_T, Operation.CREATE, Permission(Operation.CREATE, _C)),),
        "DeleteTopics": (
            _on(_T, Operation.DELETE, Permission(Operation.DELETE, _C)),
            _on(_T, Operation.DESCRIBE, Permission(Operation.DELETE, _C)),
        ),
        "DeleteRecords": (_on(_T, Operation.DELETE),),
        "InitProducerId": (
            _on(_X, Operation.WRITE, optional=True),
            _on(_C, Operation.IDEMPOTENT_WRITE, Permission(Operation.WRITE, _T), optional=True),
        ),
        "OffsetForLeaderEpoch": (_on(_T, Operation.DESCRIBE, _CLUSTER_ACTION),),
        "AddPartitionsToTxn": (_WRITE_ID, _on(_T, Operation.WRITE)),
        "AddOffsetsToTxn": (_WRITE_ID, _READ_GROUP),
        "EndTxn": (_WRITE_ID,),
        "WriteTxnMarkers": (_on(_C, Operation.ALTER, _CLUSTER_ACTION),),
        "TxnOffsetCommit": (_WRITE_ID, _READ_GROUP, _READ_TOPIC),
        "DescribeAcls": _DESCRIBE_CLUSTER,
        "CreateAcls": _ALTER_CLUSTER,
        "DeleteAcls": _ALTER_CLUSTER,
        "DescribeConfigs": _on_each(Operation.DESCRIBE_CONFIGS),
        "AlterConfigs": _on_each(Operation.ALTER_CONFIGS),
        "AlterReplicaLogDirs": _ALTER_CLUSTER,
        "DescribeLogDirs": _DESCRIBE_CLUSTER,
        "SaslAuthenticate": (),
        "CreatePartitions": (_on(_T, Operation.ALTER),),
        "DeleteGroups": (_on(_G, Operation.DELETE),),
        "ElectLeaders": _ALTER_CLUSTER,
        "IncrementalAlterConfigs": _on_each(Operation.ALTER_CONFIGS),
        "AlterPartitionReassignments": _ALTER_CLUSTER,
        "ListPartitionReassignments": _DESCRIBE_CLUSTER,
        "OffsetDelete": (_on(_G, Operation.DELETE), _READ_TOPIC),
        "DescribeClientQuotas": (_on(_C, Operation.DESCRIBE_CONFIGS),),
        "AlterClientQuotas": (_on(_C, Operation.ALTER_CONFIGS),),
        "DescribeUserScramCredentials": _DESCRIBE_CLUSTER,
        "AlterUserScramCredentials": _ALTER_CLUSTER,
        "DescribeQuorum": _DESCRIBE_CLUSTER,
        "UpdateFeatures": _ALTER_CLUSTER,
        "DescribeCluster": (),
        "DescribeProducers": (_READ_TOPIC,),
        "UnregisterBroker": _ALTER_CLUSTER,
        "DescribeTransactions": (_on(_X, Operation.DESCRIBE),),
        "ListTransactions": (_on(_X, Operation.DESCRIBE),),
        "ConsumerGroupHeartbeat": (_READ_GROUP, _on(_T, Operation.DESCRIBE, optional=True)),
        "ConsumerGroupDescribe": (_DESCRIBE_GROUP, _on(_T, Operation.DESCRIBE, optional=True)),
        "ListConfigResources": (_on(_C, Operation.DESCRIBE_CONFIGS),),
        "DescribeTopicPartitions": (_DESCRIBE_TOPIC,),
    }
)
"""The needs of a client by API. Brokers, which need CLUSTER_ACTION, are left out."""
