"""The table of APIs: every key and name of Apache Kafka 4.3 (class `ApiKeys`), and who speaks which versions.

The table is data alone: looking up a name or a version imports no messages.
"""

from __future__ import annotations

from typing import NamedTuple

Versions = tuple[int, int]
"""Lowest and highest version."""


class Api(NamedTuple):
    """One API.

    `java`: the stable versions that the client of Apache Kafka 4.3.1 speaks, None for APIs between nodes.
    `kcli`: the versions that kcli has messages for, from the lowest of Kafka 3.9 to the highest of 4.3.1. The
    client speaks all of them; the broker serves all of them, except APIs between nodes (`is_served`).
    """

    key: int
    name: str
    java: Versions | None
    kcli: Versions | None
    is_served: bool = True

    def usable(self, low: int, high: int) -> int | None:
        """Return the highest version that kcli has in common with a broker's range, None without one."""
        if self.kcli is None:
            return None
        lowest, highest = self.kcli
        return min(highest, high) if max(lowest, low) <= min(highest, high) else None


APIS = {
    api.key: api
    for api in (
        # key, name, java, kcli
        Api(0, "Produce", (0, 13), (0, 13)),
        Api(1, "Fetch", (4, 18), (0, 18)),
        Api(2, "ListOffsets", (1, 11), (0, 11)),
        Api(3, "Metadata", (0, 13), (0, 13)),
        Api(4, "LeaderAndIsr", None, None),
        Api(5, "StopReplica", None, None),
        Api(6, "UpdateMetadata", None, None),
        Api(7, "ControlledShutdown", None, None),
        Api(8, "OffsetCommit", (2, 10), (0, 10)),
        Api(9, "OffsetFetch", (1, 10), (0, 10)),
        Api(10, "FindCoordinator", (0, 6), (0, 6)),
        Api(11, "JoinGroup", (0, 9), (0, 9)),
        Api(12, "Heartbeat", (0, 4), (0, 4)),
        Api(13, "LeaveGroup", (0, 5), (0, 5)),
        Api(14, "SyncGroup", (0, 5), (0, 5)),
        Api(15, "DescribeGroups", (0, 6), (0, 6)),
        Api(16, "ListGroups", (0, 5), (0, 5)),
        Api(17, "SaslHandshake", (0, 1), (0, 1)),
        Api(18, "ApiVersions", (0, 4), (0, 4)),
        Api(19, "CreateTopics", (2, 7), (0, 7)),
        Api(20, "DeleteTopics", (1, 6), (0, 6)),
        Api(21, "DeleteRecords", (0, 2), (0, 2)),
        Api(22, "InitProducerId", (0, 5), (0, 5)),
        Api(23, "OffsetForLeaderEpoch", (2, 4), (0, 4)),
        Api(24, "AddPartitionsToTxn", (0, 5), (0, 5)),
        Api(25, "AddOffsetsToTxn", (0, 4), (0, 4)),
        Api(26, "EndTxn", (0, 5), (0, 5)),
        Api(27, "WriteTxnMarkers", (1, 2), (0, 2)),
        Api(28, "TxnOffsetCommit", (0, 5), (0, 5)),
        Api(29, "DescribeAcls", (1, 3), (0, 3)),
        Api(30, "CreateAcls", (1, 3), (0, 3)),
        Api(31, "DeleteAcls", (1, 3), (0, 3)),
        Api(32, "DescribeConfigs", (1, 4), (0, 4)),
        Api(33, "AlterConfigs", (0, 2), (0, 2)),
        Api(34, "AlterReplicaLogDirs", (1, 2), (0, 2)),
        Api(35, "DescribeLogDirs", (1, 5), (0, 5)),
        Api(36, "SaslAuthenticate", (0, 2), (0, 2)),
        Api(37, "CreatePartitions", (0, 3), (0, 3)),
        Api(38, "CreateDelegationToken", (1, 3), (0, 3), is_served=False),
        Api(39, "RenewDelegationToken", (1, 2), (0, 2), is_served=False),
        Api(40, "ExpireDelegationToken", (1, 2), (0, 2), is_served=False),
        Api(41, "DescribeDelegationToken", (1, 3), (0, 3), is_served=False),
        Api(42, "DeleteGroups", (0, 2), (0, 2)),
        Api(43, "ElectLeaders", (0, 2), (0, 2)),
        Api(44, "IncrementalAlterConfigs", (0, 1), (0, 1)),
        Api(45, "AlterPartitionReassignments", (0, 1), (0, 1)),
        Api(46, "ListPartitionReassignments", (0, 0), (0, 0)),
        Api(47, "OffsetDelete", (0, 0), (0, 0)),
        Api(48, "DescribeClientQuotas", (0, 1), (0, 1)),
        Api(49, "AlterClientQuotas", (0, 1), (0, 1)),
        Api(50, "DescribeUserScramCredentials", (0, 0), (0, 0)),
        Api(51, "AlterUserScramCredentials", (0, 0), (0, 0)),
        Api(52, "Vote", None, None),
        Api(53, "BeginQuorumEpoch", None, None),
        Api(54, "EndQuorumEpoch", None, None),
        Api(55, "DescribeQuorum", (0, 2), (0, 2)),
        Api(56, "AlterPartition", None, (2, 3), is_served=False),
        Api(57, "UpdateFeatures", (0, 2), (0, 2)),
        Api(58, "Envelope", None, None),
        Api(59, "FetchSnapshot", None, None),
        Api(60, "DescribeCluster", (0, 2), (0, 2)),
        Api(61, "DescribeProducers", (0, 0), (0, 0)),
        Api(62, "BrokerRegistration", None, None),
        Api(63, "BrokerHeartbeat", None, None),
        Api(64, "UnregisterBroker", (0, 0), (0, 0)),
        Api(65, "DescribeTransactions", (0, 0), (0, 0)),
        Api(66, "ListTransactions", (0, 2), (0, 2)),
        Api(67, "AllocateProducerIds", None, None),
        Api(68, "ConsumerGroupHeartbeat", (0, 1), (0, 1)),
        Api(69, "ConsumerGroupDescribe", (0, 1), (0, 1)),
        Api(70, "ControllerRegistration", None, None),
        Api(71, "GetTelemetrySubscriptions", (0, 0), None),
        Api(72, "PushTelemetry", (0, 0), None),
        Api(73, "AssignReplicasToDirs", None, None),
        Api(74, "ListConfigResources", (0, 1), (0, 1)),
        Api(75, "DescribeTopicPartitions", (0, 0), (0, 0)),
        Api(76, "ShareGroupHeartbeat", (1, 1), None),
        Api(77, "ShareGroupDescribe", (1, 1), None),
        Api(78, "ShareFetch", (1, 2), None),
        Api(79, "ShareAcknowledge", (1, 2), None),
        Api(80, "AddRaftVoter", (0, 1), None),
        Api(81, "RemoveRaftVoter", (0, 0), None),
        Api(82, "UpdateRaftVoter", None, None),
        Api(83, "InitializeShareGroupState", (0, 0), None),
        Api(84, "ReadShareGroupState", (0, 0), None),
        Api(85, "WriteShareGroupState", (0, 1), None),
        Api(86, "DeleteShareGroupState", (0, 0), None),
        Api(87, "ReadShareGroupStateSummary", (0, 1), None),
        Api(88, "StreamsGroupHeartbeat", (0, 0), None),
        Api(89, "StreamsGroupDescribe", (0, 0), None),
        Api(90, "DescribeShareGroupOffsets", (0, 1), None),
        Api(91, "AlterShareGroupOffsets", (0, 0), None),
        Api(92, "DeleteShareGroupOffsets", (0, 0), None),
    )
}
"""The APIs by key."""

_BY_NAME = {api.name: api for api in APIS.values()}


def named(name: str) -> Api:
    """Return the API of that name."""
    return _BY_NAME[name]


def api_name(key: int) -> str | None:
    """Return the name of an API, None for a key from a newer Kafka."""
    api = APIS.get(key)
    return None if api is None else api.name
