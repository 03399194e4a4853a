"""The coordinator describes groups of both protocols."""

from __future__ import annotations

from typing import Any

import trio

from kcli.client import admin
from kcli.client.admin import TopicPartition
from kcli.client.network.metadata import Node
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages import describe_groups
from kcli.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.client.admin.groups_of_brokers import classic_group, cluster_with, consumer_group
from tests.client.fake_brokers import Disconnect, fake_cluster

NODE = Node(1, "broker-1", 9092)
DESCRIBED_CLASSIC = admin.GroupDescription(
    group_id="old",
    type=admin.CLASSIC,
    protocol_type="consumer",
    state="Stable",
    assignor="range",
    coordinator=NODE,
    members=(
        admin.GroupMember(
            "m1",
            None,
            "app",
            "/10.0.0.1",
            assignment=(TopicPartition("bills", 1), TopicPartition("orders", 0), TopicPartition("orders", 2)),
            subscribed_topics=("bills", "orders"),
            rack_id="r1",
        ),
    ),
)
DESCRIBED_CONSUMER = admin.GroupDescription(
    group_id="new",
    type=admin.CONSUMER,
    protocol_type="consumer",
    state="Reconciling",
    assignor="uniform",
    coordinator=NODE,
    members=(
        admin.GroupMember(
            "m1",
            "one",
            "app",
            "/10.0.0.1",
            assignment=(TopicPartition("orders", 0), TopicPartition("orders", 1)),
            subscribed_topics=("orders",),
            rack_id="r1",
            target_assignment=(TopicPartition("orders", 1),),
            epoch=7,
            is_classic=False,
        ),
    ),
    epoch=8,
    target_assignment_epoch=7,
)


async def test_what_is_no_consumer_group_is_described_as_a_classic_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(
            ConsumerGroupDescribeRequest,
            ConsumerGroupDescribeResponse(groups=[consumer_group("old", 69), consumer_group("new")]),
        )
        brokers.script(DescribeGroupsRequest, DescribeGroupsResponse(groups=[classic_group("old")]))
        described = await admin.describe_groups(client, ["old", "new"])
        assert described == {"old": DESCRIBED_CLASSIC, "new": DESCRIBED_CONSUMER}
        assert brokers.received(DescribeGroupsRequest)[0].groups == ["old"]


async def test_brokers_without_the_consumer_protocol_are_asked_for_classic_groups(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_with(hidden=(ConsumerGroupDescribeRequest,)) as (brokers, client):
        brokers.script(DescribeGroupsRequest, DescribeGroupsResponse(groups=[classic_group("old")]))
        assert await admin.describe_groups(client, ["old"]) == {"old": DESCRIBED_CLASSIC}


async def test_a_group_that_does_not_exist_is_refused_in_the_brokers_words(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        missing = describe_groups.DescribedGroup(
            error_code=69,
            error_message="Group old not found.",
            group_id="old",
            group_state="Dead",
            protocol_type="",
            protocol_data="",
            members=[],
        )
        brokers.script(
            ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse(groups=[consumer_group("old", 69)])
        )
        brokers.script(DescribeGroupsRequest, DescribeGroupsResponse(groups=[missing]))
        refused = (await admin.describe_groups(client, ["old"]))["old"]
        assert isinstance(refused, KafkaError)
        assert (refused.code, refused.message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group old not found.")


async def test_the_members_of_other_programs_keep_their_metadata_to_themselves(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_with(hidden=(ConsumerGroupDescribeRequest,)) as (brokers, client):
        group = classic_group("workers", "connect", b"not a subscription")
        brokers.script(DescribeGroupsRequest, DescribeGroupsResponse(groups=[group]))
        described = (await admin.describe_groups(client, ["workers"]))["workers"]
        assert isinstance(described, admin.GroupDescription)
        assert described.members == (admin.GroupMember("m1", None, "app", "/10.0.0.1"),)


async def test_a_member_whose_metadata_cannot_be_read_fails_its_group_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_with(hidden=(ConsumerGroupDescribeRequest,)) as (brokers, client):
        groups = [classic_group("odd", metadata=b"\0\0\0"), classic_group("old")]
        brokers.script(DescribeGroupsRequest, DescribeGroupsResponse(groups=groups))
        described = await admin.describe_groups(client, ["odd", "old"])
        assert described["old"] == DESCRIBED_CLASSIC
        odd = described["odd"]
        assert isinstance(odd, KafkaError)
        assert odd.message.startswith(
            "a member of group `odd` has metadata that is not a consumer's: malformed"
        )


async def test_a_moved_coordinator_is_looked_up_again(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(nodes=2) as (brokers, client):

        def moved(node_id: int, request: Any, version: int) -> ConsumerGroupDescribeResponse:
            assert node_id == 1
            brokers.coordinators["new"] = 2
            return ConsumerGroupDescribeResponse(groups=[consumer_group("new", ErrorCode.NOT_COORDINATOR)])

        brokers.script(
            ConsumerGroupDescribeRequest, moved, ConsumerGroupDescribeResponse(groups=[consumer_group("new")])
        )
        described = (await admin.describe_groups(client, ["new"]))["new"]
        assert isinstance(described, admin.GroupDescription)
        assert described.coordinator.node_id == 2
        assert len(brokers.received(FindCoordinatorRequest)) == 2


async def test_a_lost_coordinator_is_looked_up_again(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(
            ConsumerGroupDescribeRequest,
            Disconnect,
            ConsumerGroupDescribeResponse(groups=[consumer_group("new")]),
        )
        assert (await admin.describe_groups(client, ["new"]))["new"] == DESCRIBED_CONSUMER
        assert len(brokers.received(FindCoordinatorRequest)) == 2


async def test_an_unreachable_coordinator_is_named_when_the_time_is_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(nodes=2) as (brokers, client):
        brokers.coordinators["new"] = 2
        brokers.down.add("broker-2")
        refused = (await admin.describe_groups(client, ["new"], timeout_ms=5_000))["new"]
        assert isinstance(refused, KafkaError)
        assert "broker-2:9092: connection refused" in refused.message
        assert trio.current_time() < 6
