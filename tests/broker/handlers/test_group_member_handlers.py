"""Members over a socket: every error of joining, syncing, beating and leaving, and broken connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.protocol.error_codes import ErrorCode
from tests.broker.handlers import group_requests as ask
from tests.broker.handlers.group_requests import GROUP
from tests.broker.single_node import connected

if TYPE_CHECKING:
    from pathlib import Path

from tests.broker.handlers.group_node import TOPIC, Member, group_node, joined, stable

# --- joining


@pytest.mark.parametrize(
    ("changes", "version", "error"),
    [
        ({"session_timeout_ms": 5999}, 3, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, 3, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member": "unknown"}, 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": {}}, 3, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, 3, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({}, 4, ErrorCode.MEMBER_ID_REQUIRED),
        ({}, 9, ErrorCode.MEMBER_ID_REQUIRED),
        ({"group_instance_id": "i", "member": "unknown"}, 5, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_a_join_is_refused(
    changes: dict[str, Any], version: int, error: ErrorCode, tmp_path: Path
) -> None:
    async with group_node(tmp_path) as (_, client):
        response = await client.ask(ask.join(**changes), version)
        assert response.error_code == error
        assert response.generation_id == -1
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            assert response.member_id.startswith("test-")
            again = await client.ask(ask.join(member=response.member_id), version)
            assert (again.error_code, again.generation_id, again.leader) == (0, 1, response.member_id)


@pytest.mark.parametrize(("version", "protocol"), [(6, ""), (7, None), (9, None)])
@pytest.mark.parametrize("group", [GROUP, ""])
async def test_a_refused_join_has_no_protocol(
    group: str, version: int, protocol: str | None, tmp_path: Path
) -> None:
    async with group_node(tmp_path) as (_, client):
        request = ask.join(member="unknown")
        request.group_id = group
        response = await client.ask(request, version)
        expected = ErrorCode.UNKNOWN_MEMBER_ID if group else ErrorCode.INVALID_GROUP_ID
        assert (response.error_code, response.protocol_name) == (expected, protocol)


@pytest.mark.parametrize("changes", [{"protocols": {"other": b""}}, {"protocol_type": "connect"}])
async def test_members_must_have_a_protocol_in_common(changes: dict[str, Any], tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client), connected(node) as other:
        await stable(client)
        response = await other.ask(ask.join(**changes), 3)
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_full_group_takes_nobody(tmp_path: Path) -> None:
    async with group_node(tmp_path, group_max_size="1") as (node, client), connected(node) as other:
        member = await stable(client)
        assert (await other.ask(ask.join(), 3)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert await member.heartbeat() == 0


async def test_an_instance_that_comes_back_fences_the_one_before(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client), connected(node) as other:
        first = await joined(client, version=5, group_instance_id="i")
        assert await first.sync() == 0
        second = await joined(other, version=5, group_instance_id="i")
        assert (second.generation, second.id != first.id) == (first.generation, True)
        stale = ask.heartbeat(member=first.id, instance="i")
        assert (await client.ask(stale, 3)).error_code == ErrorCode.FENCED_INSTANCE_ID
        request = ask.sync(member=first.id, generation=first.generation, group_instance_id="i")
        assert (await client.ask(request, 3)).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert await first.commit(group_instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
        (gone,) = (await client.ask(ask.leave(GROUP, (first.id, "i")), 3)).members
        assert gone.error_code == ErrorCode.FENCED_INSTANCE_ID


# --- between rebalances


async def test_while_a_generation_is_unassigned(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        member = await joined(client)
        assert await member.heartbeat() == 0
        assert await member.commit() == ErrorCode.REBALANCE_IN_PROGRESS
        assert await member.sync() == 0
        assert await member.commit() == 0


async def test_while_members_are_waited_for(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client), connected(node) as other:
        member = await stable(client)
        await other.send(ask.join(), 3)
        while await member.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        assert await member.sync() == ErrorCode.REBALANCE_IN_PROGRESS
        assert await member.commit() == 0
        assert (await client.ask(ask.join(member=member.id), 3)).generation_id == 2
        assert (await other.receive(11, 3))[1].generation_id == 2


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        ("nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 0, ErrorCode.ILLEGAL_GENERATION),
        (None, 2, ErrorCode.ILLEGAL_GENERATION),
    ],
)
async def test_strangers_and_other_generations_are_refused(
    member: str | None, generation: int, error: ErrorCode, tmp_path: Path
) -> None:
    async with group_node(tmp_path) as (_, client):
        known = await stable(client)
        other = Member(client, member or known.id, generation)
        assert await other.heartbeat() == error
        assert await other.sync() == error
        assert await other.commit() == error
        assert await known.heartbeat() == 0


async def test_a_group_that_does_not_exist_has_no_members(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        member = Member(client, "m", 1)
        assert await member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert await member.sync() == ErrorCode.UNKNOWN_MEMBER_ID
        assert await member.commit() == ErrorCode.ILLEGAL_GENERATION
        newer = ask.commit({(TOPIC, 0): 1}, member="m", generation=1)
        assert set(ask.committed(await client.ask(newer, 9)).values()) == {ErrorCode.GROUP_ID_NOT_FOUND}


async def test_a_sync_of_another_protocol_is_refused(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        member = await joined(client)
        for names in [("connect", "range"), ("consumer", "other"), (None, None), ("consumer", None)]:
            request = ask.sync(
                member=member.id,
                generation=member.generation,
                protocol_type=names[0],
                protocol_name=names[1],
            )
            response = await client.ask(request, 5)
            assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL, names


async def test_leaving_names_each_member(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        member = await stable(client)
        response = await client.ask(ask.leave(GROUP, "nobody", member.id, ("", "no-instance")), 4)
        assert response.error_code == 0
        assert [(each.member_id, each.error_code) for each in response.members] == [
            ("nobody", ErrorCode.UNKNOWN_MEMBER_ID),
            (member.id, 0),
            ("", ErrorCode.UNKNOWN_MEMBER_ID),
        ]
        again = await client.ask(ask.leave_alone(GROUP, member.id), 2)
        assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID


# --- connections and stops


async def test_a_member_whose_connection_breaks_stays_until_its_session_ends(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client), connected(node) as other:
        member = await stable(client)
        async with connected(node) as lost:
            await lost.send(ask.join(), 3)
            while await member.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
                pass
        await trio.testing.wait_all_tasks_blocked(0.01)
        (group,) = (await other.ask(ask.describe(GROUP), 5)).groups
        assert (group.group_state, len(group.members)) == ("PreparingRebalance", 2)


async def test_a_stop_answers_whoever_waits(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client), connected(node) as other:
        member = await stable(client)
        await other.send(ask.join(), 3)
        while await member.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        node.groups.stop()
        assert (await other.receive(11, 3))[1].error_code == ErrorCode.NOT_COORDINATOR
        assert await member.heartbeat() == ErrorCode.COORDINATOR_NOT_AVAILABLE
