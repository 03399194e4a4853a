"""The names of Kafka's APIs by key (class `ApiKeys` of Apache Kafka 4.3), and which of them we speak."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from kcli.protocol import messages
from kcli.protocol.schema.declaration import message_info

API_NAMES = """
Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown OffsetCommit
OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups SaslHandshake
ApiVersions CreateTopics DeleteTopics DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn
AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit DescribeAcls CreateAcls DeleteAcls DescribeConfigs
AlterConfigs AlterReplicaLogDirs DescribeLogDirs SaslAuthenticate CreatePartitions CreateDelegationToken
RenewDelegationToken ExpireDelegationToken DescribeDelegationToken DeleteGroups ElectLeaders
IncrementalAlterConfigs AlterPartitionReassignments ListPartitionReassignments OffsetDelete
DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials Vote
BeginQuorumEpoch EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot
DescribeCluster DescribeProducers BrokerRegistration BrokerHeartbeat UnregisterBroker DescribeTransactions
ListTransactions AllocateProducerIds ConsumerGroupHeartbeat ConsumerGroupDescribe ControllerRegistration
GetTelemetrySubscriptions PushTelemetry AssignReplicasToDirs ListConfigResources DescribeTopicPartitions
ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge AddRaftVoter RemoveRaftVoter
UpdateRaftVoter InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState
ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets
AlterShareGroupOffsets DeleteShareGroupOffsets
""".split()  # noqa: SIM905  # one name a line would be a page


def api_name(api_key: int) -> str | None:
    """Return the name of an API, None for a key from a newer Kafka."""
    return API_NAMES[api_key] if 0 <= api_key < len(API_NAMES) else None


@cache
def our_versions() -> dict[int, tuple[int, int]]:
    """Return the version range of every API that this client has messages for, by key."""
    ranges: dict[int, tuple[int, int]] = {}
    for module in pkgutil.iter_modules(messages.__path__, f"{messages.__name__}."):
        for name, found in vars(import_module(module.name)).items():
            if name.endswith("Request") and _is_message(found):
                info = message_info(found)
                ranges[info.key] = (info.min_version, info.max_version)
    return ranges


def usable_version(api_key: int, low: int, high: int) -> int | None:
    """Return the highest version in common with a broker's range, None without one."""
    ours = our_versions().get(api_key)
    if ours is None or max(ours[0], low) > min(ours[1], high):
        return None
    return min(ours[1], high)


def _is_message(found: Any) -> bool:  # noqa: ANN401  # whatever a module holds
    try:
        message_info(found)
    except TypeError:
        return False
    return True
