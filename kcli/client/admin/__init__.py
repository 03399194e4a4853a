"""Typed admin calls: each is an async function that takes the client first and returns frozen values.

How to use it::

    from kcli.client import admin
    from kcli.client.client import connect
    from kcli.client.config import ClientConfig
    from kcli.protocol.error_codes import KafkaError

    async with connect("host:9092,other:9092", ClientConfig(...)) as client:
        results = await admin.create_topics(client, [admin.NewTopic("orders", partitions=3)])
        match results["orders"]:
            case KafkaError() as refused: ...        # .code, .message
            case created: ...                        # TopicCreated

`connect` raises a `KcliError` with a hint if no bootstrap address answers: within about two seconds if all of
them refuse, within `socket.connection.setup.timeout.ms` (10 s) if one is silent or speaks another protocol,
and after `default.api.timeout.ms` at the latest.

**Partial results.** A call about several items returns a dict from the item to its value *or* to a
`KafkaError` (a `KcliError` for a node that could not be reached): an error of one item does not hide the
others. The value None means done. An error of the whole call raises `KcliError` (`KafkaError` if a broker
refused it with a code).

**Time.** `timeout_ms` limits the call, retries included; None means `ClientConfig.default_api_timeout_ms`.
Retriable errors (no leader yet, not the controller, throttled) are retried within that time. An unknown topic
is not retried.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.client.admin.acls import create_acls, delete_acls, describe_acls
    from kcli.client.admin.client_quotas import (
        EntityQuotas,
        QuotaFilter,
        QuotaParts,
        alter_client_quotas,
        describe_client_quotas,
    )
    from kcli.client.admin.cluster import api_versions, describe_cluster, describe_log_dirs, unregister_broker
    from kcli.client.admin.configs import describe_configs, incremental_alter_configs, list_config_resources
    from kcli.client.admin.group_offsets import alter_group_offsets, delete_group_offsets, list_group_offsets
    from kcli.client.admin.groups import delete_groups, describe_groups, list_groups, remove_members
    from kcli.client.admin.partitions import delete_records, list_offsets
    from kcli.client.admin.reassignments import (
        PartitionReassignment,
        alter_partition_reassignments,
        list_partition_reassignments,
    )
    from kcli.client.admin.replicas import (
        ElectionType,
        ReplicaPlace,
        TopicPartitionReplica,
        alter_replica_log_dirs,
        elect_leaders,
        replica_places,
    )
    from kcli.client.admin.scram import (
        UserCredential,
        delete_scram_credential,
        describe_user_scram_credentials,
        set_scram_credential,
    )
    from kcli.client.admin.topic_changes import create_partitions, create_topics, delete_topics
    from kcli.client.admin.topics import describe_topics, list_topics
    from kcli.client.admin.transactions import (
        ProducerState,
        TransactionDescription,
        TransactionListing,
        TransactionListings,
        abort_transaction,
        describe_producers,
        describe_transactions,
        force_terminate_transaction,
        list_transactions,
    )
    from kcli.client.admin.types import (
        CLASSIC,
        CONSUMER,
        ApiVersionRange,
        ClusterDescription,
        ClusterNode,
        CommittedOffset,
        ConfigAlteration,
        ConfigEntry,
        ConfigResource,
        ConfigSynonym,
        GroupDescription,
        GroupListing,
        GroupListings,
        GroupMember,
        LogDirDescription,
        MemberToRemove,
        NewPartitions,
        NewTopic,
        NodeApiVersions,
        OffsetAndTimestamp,
        PartitionDescription,
        ReplicaLog,
        TopicCreated,
        TopicDescription,
        TopicListing,
    )
    from kcli.client.network.metadata import Node
    from kcli.protocol.configs import ConfigOperation, ConfigResourceType, ConfigSource
    from kcli.protocol.messages.describe_client_quotas import QuotaMatch
    from kcli.protocol.messages.list_offsets import EARLIEST, LATEST
    from kcli.protocol.topics import TopicPartition

__all__ = [
    "CLASSIC", "CONSUMER", "EARLIEST", "LATEST", "ApiVersionRange", "ClusterDescription", "ClusterNode",
    "CommittedOffset", "ConfigAlteration", "ConfigEntry", "ConfigOperation", "ConfigResource",
    "ConfigResourceType", "ConfigSource", "ConfigSynonym", "ElectionType", "EntityQuotas",
    "GroupDescription", "GroupListing", "GroupListings", "GroupMember", "LogDirDescription",
    "MemberToRemove", "NewPartitions", "NewTopic", "Node", "NodeApiVersions", "OffsetAndTimestamp",
    "PartitionDescription", "PartitionReassignment", "ProducerState", "QuotaFilter", "QuotaMatch",
    "QuotaParts", "ReplicaLog", "ReplicaPlace", "TopicCreated", "TopicDescription", "TopicListing",
    "TopicPartition", "TopicPartitionReplica", "TransactionDescription", "TransactionListing",
    "TransactionListings", "UserCredential", "abort_transaction", "alter_client_quotas",
    "alter_group_offsets",
    "alter_partition_reassignments", "alter_replica_log_dirs", "api_versions", "create_acls",
    "create_partitions", "create_topics", "delete_acls", "delete_group_offsets", "delete_groups",
    "delete_records", "delete_scram_credential", "delete_topics",
    "describe_acls", "describe_client_quotas", "describe_cluster", "describe_configs", "describe_groups",
    "describe_log_dirs", "describe_producers", "describe_topics", "describe_transactions",
    "describe_user_scram_credentials", "elect_leaders",
    "force_terminate_transaction", "incremental_alter_configs", "list_config_resources",
    "list_group_offsets", "list_groups", "list_offsets", "list_partition_reassignments", "list_topics",
    "list_transactions", "remove_members", "replica_places", "set_scram_credential",
    "unregister_broker",
]  # fmt: skip

_NAMES = {
    "kcli.client.admin.acls": "create_acls delete_acls describe_acls",
    "kcli.client.admin.client_quotas": (
        "EntityQuotas QuotaFilter QuotaParts alter_client_quotas describe_client_quotas"
    ),
    "kcli.client.admin.cluster": "api_versions describe_cluster describe_log_dirs unregister_broker",
    "kcli.client.admin.configs": "describe_configs incremental_alter_configs list_config_resources",
    "kcli.client.admin.group_offsets": "alter_group_offsets delete_group_offsets list_group_offsets",
    "kcli.client.admin.groups": "delete_groups describe_groups list_groups remove_members",
    "kcli.client.admin.partitions": "delete_records list_offsets",
    "kcli.client.admin.reassignments": (
        "PartitionReassignment alter_partition_reassignments list_partition_reassignments"
    ),
    "kcli.client.admin.replicas": (
        "ElectionType ReplicaPlace TopicPartitionReplica alter_replica_log_dirs elect_leaders replica_places"
    ),
    "kcli.client.admin.scram": (
        "UserCredential delete_scram_credential describe_user_scram_credentials set_scram_credential"
    ),
    "kcli.client.admin.topic_changes": "create_partitions create_topics delete_topics",
    "kcli.client.admin.topics": "describe_topics list_topics",
    "kcli.client.admin.transactions": (
        "ProducerState TransactionDescription TransactionListing TransactionListings abort_transaction "
        "describe_producers describe_transactions force_terminate_transaction list_transactions"
    ),
    "kcli.client.admin.types": (
        "CLASSIC CONSUMER ApiVersionRange ClusterDescription ClusterNode CommittedOffset "
        "ConfigAlteration ConfigEntry ConfigResource ConfigSynonym GroupDescription GroupListing "
        "GroupListings GroupMember LogDirDescription MemberToRemove NewPartitions NewTopic "
        "NodeApiVersions OffsetAndTimestamp PartitionDescription ReplicaLog TopicCreated "
        "TopicDescription TopicListing"
    ),
    "kcli.client.network.metadata": "Node",
    "kcli.protocol.configs": "ConfigOperation ConfigResourceType ConfigSource",
    "kcli.protocol.messages.describe_client_quotas": "QuotaMatch",
    "kcli.protocol.messages.list_offsets": "EARLIEST LATEST",
    "kcli.protocol.topics": "TopicPartition",
}
"""The names of each module, which is imported when one of them is first used: a command needs few."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
