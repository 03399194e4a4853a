"""Groups as a whole over a socket: listed, described, and deleted with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.protocol.consumer_protocol import Subscription, encode_subscription
from kcli.protocol.error_codes import ErrorCode
from tests.broker.handlers import group_requests as ask
from tests.broker.handlers.group_requests import GROUP, codes

if TYPE_CHECKING:
    from pathlib import Path

from tests.broker.handlers.group_node import TOPIC, group_node, joined, stable


async def test_groups_are_listed_by_state_and_type(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        await stable(client, "working")
        await joined(client, "waiting")
        await client.ask(ask.commit({(TOPIC, 0): 1}, "resting"), 7)

        async def listed(version: int, **filters: Any) -> dict[str, tuple[str, str, str]]:
            response = await client.ask(ask.list_groups(**filters), version)
            assert response.error_code == 0
            return {
                each.group_id: (each.protocol_type, each.group_state, each.group_type)
                for each in response.groups
            }

        everything = {
            "working": ("consumer", "Stable", "classic"),
            "waiting": ("consumer", "CompletingRebalance", "classic"),
            "resting": ("", "Empty", "classic"),
        }
        assert await listed(5) == everything
        assert await listed(4) == {name: (*row[:2], "") for name, row in everything.items()}
        assert await listed(0) == {name: (row[0], "", "") for name, row in everything.items()}
        assert set(await listed(4, states=["sTABLE", "empty"])) == {"working", "resting"}
        assert set(await listed(5, states=["Dead"])) == set()
        assert set(await listed(5, types=["CLASSIC"])) == set(everything)
        assert set(await listed(5, types=["consumer", "share"])) == set()
        assert set(await listed(5, types=["nonsense"])) == set()


async def test_a_described_group_shows_its_members(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        member = await stable(client)
        for version in range(7):
            (group,) = (await client.ask(ask.describe(GROUP, operations=version >= 3), version)).groups
            assert (group.error_code, group.group_state) == (0, "Stable")
            assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
            (row,) = group.members
            assert (row.member_id, row.client_id, row.client_host) == (member.id, "test", "/127.0.0.1")
            assert (row.member_metadata, row.member_assignment) == (b"metadata", b"assigned")
            assert group.authorized_operations == (3400 if version >= 3 else -(2**31))


async def test_unknown_groups_are_dead_or_not_found(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        for version in range(7):
            (group,) = (await client.ask(ask.describe("none"), version)).groups
            expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0
            assert (group.error_code, group.group_state) == (expected, "Dead")


async def test_only_groups_without_members_are_deleted(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        await stable(client, "working")
        names = [f"resting-{number}" for number in range(10)]
        for name in names:
            await client.ask(ask.commit({(TOPIC, 0): 1}, name), 7)
        response = await client.ask(ask.delete("working", *names, "none", "none"), 2)
        assert {each.group_id: each.error_code for each in response.results} == {
            "working": ErrorCode.NON_EMPTY_GROUP,
            **dict.fromkeys(names, 0),
            "none": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert len(response.results) == 12
        assert [each.group_id for each in (await client.ask(ask.list_groups(), 2)).groups] == ["working"]
        topics = (await client.ask(ask.fetch_one({TOPIC: [0]}, names[0]), 7)).topics
        assert ask.fetched(topics) == {(TOPIC, 0): (-1, 0)}


async def test_offsets_are_deleted_but_for_subscribed_topics(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client):
        node.create_topic("read")
        subscription = encode_subscription(Subscription(("read",)))
        member = await joined(client, protocols={"range": subscription})
        assert await member.sync() == 0
        offsets: dict[tuple[str | bytes, int], int] = {(TOPIC, 0): 1, ("read", 0): 2}
        request = ask.commit(offsets, member=member.id, generation=member.generation)
        assert codes(await client.ask(request, 7)) == {0}
        response = await client.ask(ask.delete_offsets({TOPIC: [0, 1, 9], "read": [0], "none": [0]}), 0)
        assert response.error_code == 0
        assert {
            (topic.name, row.partition_index): row.error_code
            for topic in response.topics
            for row in topic.partitions
        } == {
            (TOPIC, 0): 0,
            (TOPIC, 1): 0,
            (TOPIC, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("read", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        response = await client.ask(ask.fetch_one({TOPIC: [0], "read": [0]}), 7)
        assert ask.fetched(response.topics) == {(TOPIC, 0): (-1, 0), ("read", 0): (2, 0)}
        missing = await client.ask(ask.delete_offsets({TOPIC: [0]}, "none"), 0)
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
