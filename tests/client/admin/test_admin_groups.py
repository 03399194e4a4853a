"""Every broker lists groups; the coordinator deletes them and removes their members."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client import admin
from kcli.client.admin import MemberToRemove
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.client.admin.groups_of_brokers import cluster_with, consumer_group, listed
from tests.client.fake_brokers import fake_cluster

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
    """Return a response about members of (id, instance id, code)."""
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


async def test_nobody_is_removed_from_a_group_without_members(autojump_clock: trio.testing.MockClock) -> None:
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
