"""The admin calls about groups against kcli's own broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.client import admin
from kcli.client.admin import CommittedOffset, TopicPartition
from kcli.client.client import connect
from kcli.client.network.connection import Connection
from kcli.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.running_cluster import running_cluster

GROUPS = tuple(f"group-{number}" for number in range(6))
ORDERS = [TopicPartition("orders", index) for index in range(2)]


def code_of(result: object) -> ErrorCode | None:
    """Return the code of a refusal."""
    return result.code if isinstance(result, KafkaError) else None


async def join_alone(connection: Connection) -> str:
    """Join the group `billing` alone, with all of `orders`; return the member's id."""
    metadata = encode_subscription(Subscription(("orders",)), 1)
    join = JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    joined = await connection.request(join, 3)
    assignment = encode_assignment(Assignment({"orders": (0, 1)}), 0)
    sync = SyncGroupRequest(
        group_id="billing",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )
    assert (await connection.request(sync, 3)).assignment == assignment
    return str(joined.member_id)


async def test_groups_on_several_coordinators_are_handled_together(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, nodes=3, offsets_topic_num_partitions="6") as cluster,
        connect(",".join(cluster.bootstrap_servers)) as client,
    ):
        await admin.create_topics(client, [admin.NewTopic("orders", partitions=2)])
        for number, group_id in enumerate(GROUPS):
            offsets = {ORDERS[0]: CommittedOffset(number, 0, group_id), ORDERS[1]: CommittedOffset(7)}
            assert await admin.alter_group_offsets(client, group_id, offsets) == dict.fromkeys(ORDERS)
        coordinators = await client.coordinators.find_many(GROUPS)
        assert len(set(coordinators.values())) > 1

        listings = await admin.list_groups(client, states=["Empty"])
        assert {group.group_id for group in listings.groups} == set(GROUPS)
        assert not listings.errors
        found = await admin.list_group_offsets(client, dict.fromkeys(GROUPS))
        assert found == {
            group_id: {ORDERS[0]: CommittedOffset(number, 0, group_id), ORDERS[1]: CommittedOffset(7)}
            for number, group_id in enumerate(GROUPS)
        }
        assert await admin.delete_group_offsets(client, GROUPS[0], ORDERS[:1]) == {ORDERS[0]: None}
        left = await admin.list_group_offsets(client, {GROUPS[0]: ORDERS})
        assert left == {GROUPS[0]: {ORDERS[0]: None, ORDERS[1]: CommittedOffset(7)}}
        deleted = await admin.delete_groups(client, [*GROUPS, "nobody"])
        assert [code_of(deleted[group_id]) for group_id in GROUPS] == [None] * 6
        assert code_of(deleted["nobody"]) is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_groups_member_is_described_guarded_and_removed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, connect(",".join(cluster.bootstrap_servers)) as client:
        await admin.create_topics(client, [admin.NewTopic("orders", partitions=2)])
        member_id = await join_alone(await (await client.coordinators.link("billing")).ready())

        described = (await admin.describe_groups(client, ["billing"]))["billing"]
        assert isinstance(described, admin.GroupDescription)
        assert (described.type, described.state, described.assignor) == ("Classic", "Stable", "range")
        (member,) = described.members
        assert (member.member_id, member.assignment) == (member_id, tuple(ORDERS))
        assert member.subscribed_topics == ("orders",)
        altered = await admin.alter_group_offsets(client, "billing", {ORDERS[0]: CommittedOffset(1)})
        assert code_of(altered[ORDERS[0]]) is ErrorCode.UNKNOWN_MEMBER_ID
        forgotten = await admin.delete_group_offsets(client, "billing", ORDERS[:1])
        assert code_of(forgotten[ORDERS[0]]) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        deleted = await admin.delete_groups(client, ["billing"])
        assert code_of(deleted["billing"]) is ErrorCode.NON_EMPTY_GROUP

        assert list(await admin.remove_members(client, "billing")) == [admin.MemberToRemove(member_id)]
        assert await admin.delete_groups(client, ["billing"]) == {"billing": None}
        with pytest.raises(KafkaError, match="no such group"):
            await admin.delete_group_offsets(client, "billing", ORDERS)
