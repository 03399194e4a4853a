"""Groups are listed by every broker and described by their coordinator, whatever protocol they speak."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kcli.client import admin
from kcli.client.admin import MemberToRemove, TopicPartition
from kcli.client.client import Client
from kcli.client.metadata import Node
from kcli.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages import consumer_group_describe, describe_groups
from kcli.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kcli.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.client.fake_brokers import Disconnect, FakeBrokers, fake_cluster

LIST_GROUPS = 16
LEAVE_GROUP = 13


@asynccontextmanager
async def cluster_with(
    *, nodes: int = 1, hidden: tuple[type[Any], ...] = (), **max_versions: int
) -> AsyncIterator[tuple[FakeBrokers, Client]]:
    """Brokers that hide some APIs, or the later versions of some, and a client that knows it."""
    async with fake_cluster(nodes=nodes) as (brokers, client):
        brokers.hidden.update(hidden)
        brokers.max_versions = {int(key.removeprefix("api_")): value for key, value in max_versions.items()}
        for node_id in brokers.nodes:
            brokers.disconnect(node_id)
        yield brokers, client


def listed(*groups: tuple[str, str, str, str], code: int = 0) -> ListGroupsResponse:
    """Return the answer of one broker: groups of (id, protocol type, state, type)."""
    return ListGroupsResponse(
        error_code=code,
        groups=[
            ListedGroup(group_id=name, protocol_type=protocol, group_state=state, group_type=kind)
            for name, protocol, state, kind in groups
        ],
    )


# --- list ------------------------------------------------------------------------------------------------


async def test_every_broker_lists_its_groups(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(nodes=2) as (brokers, client):
        answers = {
            1: listed(("b", "consumer", "Stable", "consumer"), ("c", "connect", "Empty", "classic")),
            2: listed(("a", "", "Empty", "classic")),
        }
        brokers.script(ListGroupsRequest, *[lambda node_id, request, version: answers[node_id]] * 2)
        listings = await admin.list_groups(client)
        assert listings == admin.GroupListings(
            (
                admin.GroupListing("b", "consumer", "Stable", "Consumer"),
                admin.GroupListing("c", "connect", "Empty", "Classic"),
                admin.GroupListing("a", "", "Empty", "Classic"),
            )
        )


async def test_a_broker_that_cannot_be_asked_leaves_the_others_groups(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(nodes=3) as (brokers, client):
        brokers.down.add("broker-2")

        def answer(node_id: int, request: Any, version: int) -> ListGroupsResponse:
            return listed(("a", "consumer", "Stable", "classic"), code=0 if node_id == 1 else 31)

        brokers.script(ListGroupsRequest, *[answer] * 2)
        listings = await admin.list_groups(client)
        assert [group.group_id for group in listings.groups] == ["a"]
        assert "broker-2:9092: connection refused" in listings.errors[2].message
        refused = listings.errors[3]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_coordinator_that_is_still_loading_is_asked_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(
            ListGroupsRequest,
            listed(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            listed(("a", "consumer", "Stable", "classic")),
        )
        listings = await admin.list_groups(client)
        assert [group.group_id for group in listings.groups] == ["a"]
        assert not listings.errors


@pytest.mark.parametrize(
    ("version", "states", "types", "sent"),
    [
        (5, ["Stable"], ["consumer"], (["Stable"], ["consumer"])),
        (4, ["Stable"], [], (["Stable"], [])),
        (4, [], ["Classic", "consumer"], ([], [])),
        (0, [], ["classic"], ([], [])),
        (4, [], ["consumer"], None),
        (4, [], ["classic", "share"], None),
        (3, ["Stable"], [], None),
    ],
)
async def test_filters_travel_where_the_broker_knows_them(
    version: int,
    states: list[str],
    types: list[str],
    sent: tuple[list[str], list[str]] | None,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_with(api_16=version) as (brokers, client):
        brokers.script(ListGroupsRequest, listed())
        listings = await admin.list_groups(client, states=states, types=types)
        if sent is None:
            assert "no common version of ListGroups" in listings.errors[1].message
        else:
            (request,) = brokers.received(ListGroupsRequest)
            assert (request.states_filter, request.types_filter) == sent
            assert not listings.errors


# --- describe --------------------------------------------------------------------------------------------


def consumer_group(group_id: str, code: int = 0) -> consumer_group_describe.DescribedGroup:
    """Return a group of the consumer protocol with one member, or its refusal."""
    if code:
        return consumer_group_describe.DescribedGroup(
            error_code=code,
            error_message=f"Group {group_id} not found.",
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=[],
        )

    def of_orders(*partitions: int) -> consumer_group_describe.Assignment:
        topic = consumer_group_describe.TopicPartitions(
            topic_id=b"o" * 16, topic_name="orders", partitions=list(partitions)
        )
        return consumer_group_describe.Assignment(topic_partitions=[topic])

    member = consumer_group_describe.Member(
        member_id="m1",
        instance_id="one",
        rack_id="r1",
        member_epoch=7,
        client_id="app",
        client_host="/10.0.0.1",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="",
        assignment=of_orders(1, 0),
        target_assignment=of_orders(1),
        member_type=1,
    )
    return consumer_group_describe.DescribedGroup(
        group_id=group_id,
        group_state="Reconciling",
        group_epoch=8,
        assignment_epoch=7,
        assignor_name="uniform",
        members=[member],
    )


def classic_group(
    group_id: str, protocol_type: str = "consumer", metadata: bytes | None = None
) -> describe_groups.DescribedGroup:
    """Return a stable classic group with one member."""
    if metadata is None:
        metadata = encode_subscription(Subscription(("orders", "bills"), rack_id="r1"))
    member = DescribedGroupMember(
        member_id="m1",
        group_instance_id=None,
        client_id="app",
        client_host="/10.0.0.1",
        member_metadata=metadata,
        member_assignment=encode_assignment(Assignment({"orders": (2, 0), "bills": (1,)})),
    )
    return describe_groups.DescribedGroup(
        group_id=group_id,
        group_state="Stable",
        protocol_type=protocol_type,
        protocol_data="range",
        members=[member],
    )


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


# --- delete ----------------------------------------------------------------------------------------------


async def test_each_coordinator_deletes_its_groups(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(nodes=2) as (brokers, client):
        brokers.coordinators = {"a": 1, "b": 2, "c": 1}

        def delete(node_id: int, request: DeleteGroupsRequest, version: int) -> DeleteGroupsResponse:
            codes = {"a": 0, "b": 68, "c": 69}
            return DeleteGroupsResponse(
                results=[
                    DeletableGroupResult(group_id=name, error_code=codes[name])
                    for name in request.groups_names
                ]
            )

        brokers.script(DeleteGroupsRequest, delete, delete)
        deleted = await admin.delete_groups(client, ["a", "b", "c"])
        assert list(deleted) == ["a", "b", "c"]
        assert deleted["a"] is None
        codes = [error.code for error in deleted.values() if error is not None]
        assert codes == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
        assert sorted(request.groups_names for request in brokers.received(DeleteGroupsRequest)) == [
            ["a", "c"],
            ["b"],
        ]


# --- remove members --------------------------------------------------------------------------------------


def left(*answers: tuple[str, str | None, int], code: int = 0) -> LeaveGroupResponse:
    """Return an answer about members of (id, instance id, code)."""
    return LeaveGroupResponse(
        error_code=code,
        members=[
            MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error)
            for member_id, instance_id, error in answers
        ],
    )


async def test_members_are_removed_by_id_or_by_instance(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(LeaveGroupRequest, left(("", "static", 25), ("m1", None, 0)))
        members = [MemberToRemove("m1"), MemberToRemove(instance_id="static")]
        removed = await admin.remove_members(client, "old", members, reason="x" * 300)
        assert removed[members[0]] is None
        refused = removed[members[1]]
        assert refused is not None
        assert refused.code is ErrorCode.UNKNOWN_MEMBER_ID
        (request,) = brokers.received(LeaveGroupRequest)
        sent = [(member.member_id, member.group_instance_id) for member in request.members]
        assert sent == [("m1", None), ("", "static")]
        assert {member.reason for member in request.members} == {"x" * 255}


async def test_a_member_that_the_answer_leaves_out_counts_as_not_removed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(LeaveGroupRequest, left(("m1", None, 0)))
        members = [MemberToRemove("m1"), MemberToRemove("m2")]
        removed = await admin.remove_members(client, "old", members)
        assert removed[members[0]] is None
        assert str(removed[members[1]]) == "the broker left this out of its answer"


async def test_all_members_are_those_that_the_group_has(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(
            ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse(groups=[consumer_group("new")])
        )
        brokers.script(LeaveGroupRequest, left(("", "one", 0)))
        assert await admin.remove_members(client, "new") == {MemberToRemove("", "one"): None}
        assert brokers.received(LeaveGroupRequest)[0].members[0].reason == "member was removed by an admin"


async def test_nobody_is_removed_from_a_group_without_members(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        empty = consumer_group("new")
        empty.members = []
        brokers.script(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse(groups=[empty]))
        assert await admin.remove_members(client, "new") == {}
        assert not brokers.received(LeaveGroupRequest)


async def test_a_group_that_refuses_as_a_whole_raises(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(LeaveGroupRequest, left(code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        with pytest.raises(KafkaError, match="not authorized for this group"):
            await admin.remove_members(client, "old", [MemberToRemove("m1")])


async def test_an_old_broker_removes_one_member_at_a_time(autojump_clock: trio.testing.MockClock) -> None:
    async with cluster_with(api_13=2) as (brokers, client):
        brokers.script(LeaveGroupRequest, left())
        assert await admin.remove_members(client, "old", [MemberToRemove("m1")]) == {
            MemberToRemove("m1"): None
        }
        assert brokers.received(LeaveGroupRequest)[0].member_id == "m1"
        with pytest.raises(KafkaError, match="no common version of LeaveGroup"):
            await admin.remove_members(client, "old", [MemberToRemove("m1"), MemberToRemove("m2")])
