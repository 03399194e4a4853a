"""Groups of a cluster of three nodes, whose coordinators and leaders are killed or stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.conftest import GROUP_SETTINGS
from tests.support.group_ledger import Ledger
from tests.support.group_tool import GroupTool
from tests.support.kcli_cluster import NODES, KcliCluster
from tests.support.steady_load import SteadyLoad
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.group_members import Members

pytestmark = pytest.mark.interop

PARTITIONS = 12
RECORDS_PER_SECOND = 600
SETTLE_SECONDS = 60
DEADLINE_SECONDS = 30.0
SETTINGS = {
    **GROUP_SETTINGS,
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    # Five seconds after another node became the controller, the lost one would get its groups back.
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KcliCluster]:
    """Three nodes of one process."""
    found = KcliCluster(tmp_path, settings=SETTINGS)
    found.broker.start()
    yield found
    found.broker.close()


def create_topic(cluster: KcliCluster, topic: str) -> None:
    """Create a topic with a replica on every node, and wait until all of them know it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, NODES)])[topic].result(DEADLINE_SECONDS)
    for bootstrap in cluster.bootstraps.values():
        node = AdminClient({"bootstrap.servers": bootstrap})
        eventually(lambda node=node: topic in node.list_topics(timeout=DEADLINE_SECONDS).topics, topic)


def coordinator(cluster: KcliCluster, group: str) -> int:
    """The node that coordinates a group; while that moves, nodes may name one that is it no more."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = 0

    def is_told() -> bool:
        nonlocal found
        try:
            described = admin.describe_consumer_groups([group])[group].result(DEADLINE_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
            return False
        found = int(described.coordinator.id)
        return True

    eventually(is_told, "the coordinator is known")
    return found


@pytest.mark.parametrize("assignor", ["range", "consumer"])
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_group_outlives_its_coordinators(
    cluster: KcliCluster, members: Members, kafka_tool: KafkaTools, end: str, assignor: str
) -> None:
    create_topic(cluster, "orders")
    bootstrap = cluster.bootstrap
    members.common(bootstrap=bootstrap, topic="orders", group="group", assignor=assignor)
    with SteadyLoad(bootstrap, "orders", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        crew = members.enlist("librdkafka", "Java", "kcli")
        GroupTool(kafka_tool, bootstrap).join_in_turn("group", PARTITIONS, *crew)
        nodes = []
        for _ in range(2):
            node = coordinator(cluster, "group")
            nodes.append(node)
            (cluster.kill_node if end == "killed" else cluster.stop_node)(node)
            # What is sent while it is away is consumed, and committed with another coordinator.
            goal = dict(enumerate(load.sent))
            members.consume_up_to(goal, SETTLE_SECONDS)
            cluster.start_node(node)
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
        members.settle(PARTITIONS, SETTLE_SECONDS)
    for member in members.inside:
        member.leave()
    assert nodes[0] != nodes[1]
    assert GroupTool(kafka_tool, bootstrap).offsets("group") == ends
    ledger = Ledger(members.events)
    assert ledger.missing(ends) == {}
    assert ledger.wrong_values() == []
    assert list(members.of("failed")) == []
