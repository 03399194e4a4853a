"""Fetches that know another leader epoch than the leader, as franz-go sends them and reads the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.protocol.error_codes import ErrorCode
from tests.support.franz_requests import franz_request
from tests.support.kcli_cluster import KcliCluster
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.interop

METADATA, FETCH = 3, 1
TOPIC = "passed-on"
FORMER, LEADER, STRANGER = 2, 3, 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliCluster]:
    """Nodes one of which has handed a partition over to another."""
    running = KcliCluster(
        tmp_path_factory.mktemp("fetch-epochs"), settings={"auto.leader.rebalance.enable": "false"}
    )
    running.broker.start()
    admin = AdminClient({"bootstrap.servers": running.bootstraps[STRANGER]})
    wanted = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[FORMER, LEADER]])
    admin.create_topics([wanted])[TOPIC].result(30)
    running.stop_node(FORMER)
    eventually(
        lambda: is_handed_over(running), "the other leads, and all know it", seen=lambda: metadata(running)
    )
    yield running
    assert running.broker.stop() == 0


def metadata(cluster: KcliCluster) -> dict[str, Any]:
    (topic,) = franz_request(cluster.bootstraps[STRANGER], METADATA, 12, Topics=[{"Topic": TOPIC}])["Topics"]
    found: dict[str, Any] = topic
    return found


def leadership(cluster: KcliCluster) -> dict[str, Any]:
    (partition,) = metadata(cluster)["Partitions"]
    found: dict[str, Any] = partition
    return found


def is_handed_over(cluster: KcliCluster) -> bool:
    """Whether a stranger has heard of the new leader, and the leader of it itself."""
    found = [(each["Leader"], each["LeaderEpoch"]) for each in metadata(cluster)["Partitions"] or ()]
    return [leader for leader, _ in found] == [LEADER] and all(
        row(fetch(cluster, LEADER, 12, epoch))["ErrorCode"] == ErrorCode.NONE for _, epoch in found
    )


def fetch(cluster: KcliCluster, node: int, version: int, epoch: int) -> dict[str, Any]:
    """The whole answer of a node to who knows an epoch."""
    partition = {
        "Partition": 0,
        "CurrentLeaderEpoch": epoch,
        "FetchOffset": 0,
        "LastFetchedEpoch": -1,
        "LogStartOffset": -1,
        "PartitionMaxBytes": 1 << 20,
    }
    topic = {"Topic": TOPIC, "TopicID": metadata(cluster)["TopicID"], "Partitions": [partition]}
    return franz_request(
        cluster.bootstraps[node],
        *(FETCH, version),
        ReplicaID=-1,
        SessionEpoch=-1,
        MaxBytes=1 << 20,
        Topics=[topic],
    )


def row(answer: dict[str, Any]) -> dict[str, Any]:
    ((found,),) = [topic["Partitions"] for topic in answer["Topics"]]
    partition: dict[str, Any] = found
    return partition


@pytest.mark.parametrize("version", [9, 12, 17])
@pytest.mark.parametrize(
    ("later", "error"),
    [
        (-1, ErrorCode.FENCED_LEADER_EPOCH),
        (0, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
    ids=["older", "same", "newer"],
)
def test_an_epoch_that_is_not_the_leader_s_is_refused(
    cluster: KcliCluster, version: int, later: int, error: ErrorCode
) -> None:
    epoch = leadership(cluster)["LeaderEpoch"]
    assert row(fetch(cluster, LEADER, version, epoch + later))["ErrorCode"] == error


@pytest.mark.parametrize(
    ("node", "later", "error"),
    [
        (LEADER, -1, ErrorCode.FENCED_LEADER_EPOCH),
        (STRANGER, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["older", "stranger"],
)
def test_who_leads_is_told_to_those_who_do_not_know(
    cluster: KcliCluster, node: int, later: int, error: ErrorCode
) -> None:
    epoch = leadership(cluster)["LeaderEpoch"]
    answer = fetch(cluster, node, 17, epoch + later)
    assert row(answer)["ErrorCode"] == error
    assert row(answer)["CurrentLeader"] == {"LeaderID": LEADER, "LeaderEpoch": epoch}
    host, _, port = cluster.bootstraps[LEADER].rpartition(":")
    assert [(each["NodeID"], each["Host"], each["Port"]) for each in answer["Brokers"]] == [
        (LEADER, host, int(port))
    ]
