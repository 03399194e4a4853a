"""range where racks are known, held against Apache Kafka 4.3.1's `RangeAssignor`.

Each line of `golden/range_racks.txt` is a case and what that class answered: topics with the racks of each
partition's replicas, a letter each and `-` for none; members with their racks and topics; what each is given.
"""

from __future__ import annotations

import pytest

from kcli.assignors import range
from kcli.assignors.members import MemberSubscription
from kcli.client.groups.classic_join import racks_of
from kcli.client.network.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from kcli.protocol.topics import TopicPartition
from tests.conftest import GOLDEN

ROWS = (GOLDEN / "range_racks.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("row", ROWS)
def test_members_get_what_is_in_their_racks(row: str) -> None:
    topics, members, expected = row.split(" ")
    counts: dict[str, int] = {}
    racks: dict[TopicPartition, frozenset[str]] = {}
    for topic in topics.split(";"):
        name, _, partitions = topic.partition("=")
        replicas = partitions.split(",")
        counts[name] = len(replicas)
        racks |= {(name, index): frozenset(each) - {"-"} for index, each in enumerate(replicas)}
    group: dict[str, MemberSubscription] = {}
    for member in members.split(";"):
        name, rack, wanted = member.split(":")
        group[name] = MemberSubscription(frozenset(wanted.split("+")), rack_id=rack or None)
    found = range.assign(counts, group, racks)
    given = {name: [f"{topic}-{index}" for topic, index in found[name]] for name in sorted(found)}
    assert ";".join(f"{name}:{','.join(each)}" for name, each in given.items()) == expected


def test_racks_are_those_of_all_replicas_whose_brokers_are_known() -> None:
    nodes = {1: Node(1, "h", 9092, "a"), 2: Node(2, "h", 9093, "b"), 3: Node(3, "h", 9094)}
    partitions = {
        0: PartitionMetadata(0, 1, replicas=(1, 2, 3)),
        1: PartitionMetadata(1, -1, replicas=(2, 9)),
    }
    cluster = ClusterMetadata(nodes=nodes, topics={"t": TopicMetadata("t", partitions=partitions)})
    assert racks_of(cluster, ["t", "missing"]) == {("t", 0): {"a", "b"}, ("t", 1): {"b"}}
