"""Group APIs over a socket: every error of the coordinator is provoked, and told as the protocol has it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.controller.configuration_control import ConfigChange, ConfigOperation
from kcli.broker.controller.replication_control import TopicDefaults
from kcli.broker.coordinator.runtime import CoordinatorRuntime
from kcli.broker.group_commit import GroupCommit
from kcli.protocol.consumer_protocol import Subscription, encode_subscription
from kcli.protocol.error_codes import ErrorCode
from tests.broker.handlers import group_requests as ask
from tests.broker.handlers.group_requests import GROUP
from tests.broker.node import Client, Node, connected, running_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kcli.storage.unified_log import UnifiedLog

OFFSETS = "__consumer_offsets"
TOPIC = "topic"
PARTITIONS = 3


@asynccontextmanager
async def group_node(directory: Path, **properties: str) -> AsyncIterator[tuple[Node, Client]]:
    """A node with a topic of three partitions, and the coordinator's own."""
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    async with running_node(directory, settings) as node, connected(node) as client:
        node.create_topic(TOPIC, PARTITIONS)
        assert (await client.ask(ask.find_one(), 0)).error_code == 0
        yield node, client


class Member:
    """A member that has a connection of its own."""

    def __init__(self, client: Client, member_id: str, generation: int, group: str = GROUP) -> None:
        self.client = client
        self.id = member_id
        self.generation = generation
        self.group = group

    async def sync(self) -> int:
        """Sync as a leader that assigns nothing."""
        request = ask.sync(self.group, self.id, self.generation, {self.id: b"assigned"})
        error: int = (await self.client.ask(request, 3)).error_code
        return error

    async def heartbeat(self) -> int:
        error: int = (
            await self.client.ask(ask.heartbeat(self.group, self.id, self.generation), 3)
        ).error_code
        return error

    async def commit(self, offset: int = 1, **changes: Any) -> int:
        request = ask.commit(
            {(TOPIC, 0): offset}, self.group, member=self.id, generation=self.generation, **changes
        )
        (error,) = ask.committed(await self.client.ask(request, 7)).values()
        return error


async def joined(client: Client, group: str = GROUP, *, version: int = 3, **changes: Any) -> Member:
    """Join a group, which has its assignment yet to come."""
    response = await client.ask(ask.join(group, **changes), version)
    assert response.error_code == 0, response
    return Member(client, response.member_id, response.generation_id, group)


async def stable(client: Client, group: str = GROUP, **changes: Any) -> Member:
    """Join a group and sync."""
    member = await joined(client, group, **changes)
    assert await member.sync() == 0
    return member


# --- offsets that are not committed yet


@pytest.mark.parametrize("version", [1, 8])
@pytest.mark.parametrize("succeeds", [True, False])
async def test_offsets_are_told_once_they_are_committed(
    version: int, succeeds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaches_disk = trio.Event()
    flush = GroupCommit.flush

    async def slow_flush(self: GroupCommit, log: UnifiedLog) -> None:
        await reaches_disk.wait()
        await flush(self, log)

    monkeypatch.setattr(GroupCommit, "flush", slow_flush)
    settings = {"log_flush_interval_messages": "1", "offsets_commit_timeout_ms": "500"}
    async with group_node(tmp_path, **settings) as (node, client), connected(node) as other:
        answers: list[Any] = []

        async def read() -> None:
            request = ask.fetch(**{GROUP: {TOPIC: [0]}}) if version >= 8 else ask.fetch_one({TOPIC: [0]})
            answers.append(await other.ask(request, version))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.ask, ask.commit({(TOPIC, 0): 7}), 7)
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not answers
            if succeeds:
                reaches_disk.set()
        (answer,) = answers
        found = answer.groups[0] if version >= 8 else answer
        if succeeds:
            assert ask.fetched(found.topics) == {(TOPIC, 0): (7, 0)}
        elif version < 2:
            assert ask.fetched(found.topics) == {(TOPIC, 0): (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)}
        else:
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        reaches_disk.set()


# --- finding a coordinator


async def test_the_coordinator_is_the_leader_of_the_groups_partition(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        for version in range(7):
            request = ask.find_one() if version < 4 else ask.find(GROUP, "other", "")
            response = await client.ask(request, version)
            for found in [response] if version < 4 else response.coordinators:
                assert (found.error_code, found.node_id, found.host, found.port) == (
                    0,
                    node.node_id,
                    "127.0.0.1",
                    node.port,
                )
            if version >= 4:
                assert [found.key for found in response.coordinators] == [GROUP, "other", ""]
        topic = node.image.topics[OFFSETS]
        assert len(topic.partitions) == 50
        assert dict(node.image.topic_config(OFFSETS)) == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }


async def test_the_topic_is_made_as_configured(tmp_path: Path) -> None:
    settings = {"offsets_topic_num_partitions": "7", "offsets_topic_segment_bytes": "2000000"}
    async with group_node(tmp_path, **settings) as (node, _):
        assert len(node.image.topics[OFFSETS].partitions) == 7
        assert node.image.topic_config(OFFSETS)["segment.bytes"] == "2000000"
        assert node.groups.partition_count == 7


@pytest.mark.parametrize(
    ("key_type", "version", "error"),
    [
        (1, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (1, 6, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, 5, ErrorCode.INVALID_REQUEST),
        (2, 6, ErrorCode.INVALID_REQUEST),
        (9, 4, ErrorCode.INVALID_REQUEST),
        (-1, 3, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_coordinators_that_there_are_not(
    key_type: int, version: int, error: ErrorCode, tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        if version < 4:
            found = await client.ask(ask.find_one("id", key_type), version)
        else:
            (found,) = (await client.ask(ask.find("id", key_type=key_type), version)).coordinators
        assert (found.error_code, found.node_id, found.host, found.port) == (error, -1, "", -1)
        assert OFFSETS not in node.image.topics


async def test_the_wish_for_transactions_is_told_in_the_log_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        for _ in range(3):
            await client.ask(ask.find("id", "other", key_type=1), 4)
    (line,) = caplog.messages
    assert line == (
        "client `test` from 127.0.0.1 asks for a transaction coordinator: kcli has no transactions yet"
    )


async def test_a_partition_without_a_leader_has_no_coordinator(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client):
        member = await stable(client)
        node.controller.fence_broker(node_id=node.node_id, epoch=node.epoch)
        assert (await client.ask(ask.find_one(), 2)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await member.heartbeat() == ErrorCode.NOT_COORDINATOR
        node.controller.unfence_broker(node_id=node.node_id, epoch=node.epoch)
        assert (await client.ask(ask.find_one(), 2)).error_code == 0
        assert await member.heartbeat() == 0


# --- where the coordinator is not


REQUESTS = [
    (ask.join(), 5),
    (ask.sync(member="m"), 3),
    (ask.heartbeat(member="m"), 3),
    (ask.leave(GROUP, "m"), 3),
    (ask.leave_alone(GROUP, "m"), 2),
    (ask.commit({(TOPIC, 0): 1}), 8),
    (ask.fetch_one({TOPIC: [0]}), 1),
    (ask.fetch_one({TOPIC: [0]}), 7),
    (ask.fetch(**{GROUP: {TOPIC: [0]}}), 8),
    (ask.describe(GROUP), 4),
    (ask.delete(GROUP), 1),
    (ask.delete_offsets({TOPIC: [0]}), 0),
]


def codes(value: object) -> set[int]:
    """All error codes anywhere in a response."""
    if isinstance(value, list):
        return set().union(*map(codes, value)) if value else set()
    found = set()
    for name in getattr(type(value), "__slots__", ()):
        field = getattr(value, name)
        found |= {field} if name == "error_code" else codes(field)
    return found


def name_of(case: object) -> str:
    return type(case).__name__ if not isinstance(case, int) else str(case)


@pytest.mark.parametrize(("request_", "version"), REQUESTS, ids=name_of)
async def test_only_the_coordinator_answers(request_: object, version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic(TOPIC, PARTITIONS)
        # There is no topic of offsets yet, so nobody leads it.
        assert codes(await client.ask(request_, version)) - {0} == {ErrorCode.NOT_COORDINATOR}
        await client.ask(ask.find_one(), 0)
        node.groups.stop()
        assert codes(await client.ask(request_, version)) - {0} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


@pytest.mark.parametrize(("request_", "version"), REQUESTS, ids=name_of)
async def test_a_coordinator_that_still_reads_says_so(
    request_: object, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object, **__: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr("kcli.broker.coordinator.runtime.load", never)
    async with group_node(tmp_path) as (node, client):
        await client.ask(ask.commit({(TOPIC, 0): 1}), 8)
        node.controller.fence_broker(node_id=node.node_id, epoch=node.epoch)
        node.controller.unfence_broker(node_id=node.node_id, epoch=node.epoch)
        expected = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        if "Heartbeat" in type(request_).__name__:
            expected = set()  # The member must not leave.
        assert codes(await client.ask(request_, version)) - {0} == expected
        assert codes(await client.ask(ask.list_groups(), 4)) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (ask.join(""), 5),
        (ask.sync("", "m"), 3),
        (ask.heartbeat("", "m"), 3),
        (ask.leave("", "m"), 3),
        (ask.delete_offsets({TOPIC: [0]}, ""), 0),
    ],
    ids=name_of,
)
async def test_an_empty_group_id_is_invalid(request_: object, version: int, tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        assert codes(await client.ask(request_, version)) == {ErrorCode.INVALID_GROUP_ID}


async def test_offsets_without_a_name_are_kept_under_it(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        assert codes(await client.ask(ask.commit({(TOPIC, 0): 7}, ""), 8)) == {0}
        response = await client.ask(ask.fetch_one({TOPIC: [0]}, ""), 5)
        assert ask.fetched(response.topics) == {(TOPIC, 0): (7, 0)}
        assert [each.group_id for each in (await client.ask(ask.list_groups(), 2)).groups] == [""]
        assert codes(await client.ask(ask.delete(""), 1)) == {0}


FAILING = [
    (request, version)
    for request, versions in [
        (ask.join(), range(10)),
        (ask.sync(member="m"), range(6)),
        (ask.heartbeat(member="m"), range(5)),
        (ask.leave(GROUP, "m"), range(3, 6)),
        (ask.leave_alone(GROUP, "m"), range(3)),
        (ask.list_groups(), range(6)),
        (ask.describe(GROUP), range(7)),
        (ask.delete(GROUP), range(3)),
        (ask.commit({(TOPIC, 0): 1}), range(10)),
        (ask.fetch_one({TOPIC: [0]}), range(8)),
        (ask.fetch(**{GROUP: {TOPIC: [0]}}), range(8, 11)),
        (ask.delete_offsets({TOPIC: [0]}), range(1)),
        (ask.find_one(), range(4)),
        (ask.find(GROUP), range(4, 7)),
    ]
    for version in versions
]


@pytest.mark.parametrize(("request_", "version"), FAILING, ids=name_of)
async def test_what_nobody_foresaw_is_told_in_every_version(
    request_: object, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    for name in ("ask", "shard", "shards"):
        monkeypatch.setattr(CoordinatorRuntime, name, fail)
    monkeypatch.setattr("kcli.broker.handlers.coordinators.group_metadata_topic", fail)
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic(TOPIC)
        assert codes(await client.ask(request_, version)) - {0} == {ErrorCode.UNKNOWN_SERVER_ERROR}


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


# --- offsets


async def test_each_version_commits_and_fetches(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client):
        topic_id = node.image.topics[TOPIC].topic_id
        for version in range(11):
            topic: str | bytes = topic_id if version >= 10 else TOPIC
            response = await client.ask(ask.commit({(topic, 0): version, (topic, 2): 9}), version)
            assert ask.committed(response) == {(topic, 0): 0, (topic, 2): 0}
            if version < 8:
                topics = (await client.ask(ask.fetch_one({TOPIC: [0, 1, 2]}), version)).topics
            else:
                request = ask.fetch(**{GROUP: {topic: [0, 1, 2]}})
                (group,) = (await client.ask(request, version)).groups
                topics = group.topics
            assert ask.fetched(topics) == {(topic, 0): (version, 0), (topic, 1): (-1, 0), (topic, 2): (9, 0)}


async def test_all_offsets_of_a_group_may_be_asked_for(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client):
        topic_id = node.create_topic("other").topic_id
        await client.ask(ask.commit({(TOPIC, 1): 5, ("other", 0): 6}), 8)
        for version in (2, 5, 7):
            response = await client.ask(ask.fetch_one(None), version)
            assert ask.fetched(response.topics) == {(TOPIC, 1): (5, 0), ("other", 0): (6, 0)}
        for version in (8, 9):
            (group,) = (await client.ask(ask.fetch(**{GROUP: None}), version)).groups
            assert ask.fetched(group.topics) == {(TOPIC, 1): (5, 0), ("other", 0): (6, 0)}
        (group,) = (await client.ask(ask.fetch(**{GROUP: None}), 10)).groups
        assert ask.fetched(group.topics) == {
            (node.image.topics[TOPIC].topic_id, 1): (5, 0),
            (topic_id, 0): (6, 0),
        }


async def test_several_groups_are_fetched_at_once(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client):
        names = [f"group-{number}" for number in range(30)]
        for number, name in enumerate(names):
            await client.ask(ask.commit({(TOPIC, 0): number}, name), 8)
        assert len({node.groups.partition_for(name) for name in names}) > 10
        response = await client.ask(ask.fetch(**{name: {TOPIC: [0]} for name in [*names, "none"]}), 8)
        assert [each.group_id for each in response.groups] == [*names, "none"]
        found = [ask.fetched(each.topics)[TOPIC, 0] for each in response.groups]
        assert found == [*((number, 0) for number in range(30)), (-1, 0)]


async def test_unknown_partitions_cost_only_themselves(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client):
        offsets: dict[tuple[str | bytes, int], int] = {
            (TOPIC, 0): 1,
            (TOPIC, PARTITIONS): 1,
            (TOPIC, -1): 1,
            ("unknown", 0): 1,
        }
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for version in (2, 9):
            assert ask.committed(await client.ask(ask.commit(offsets), version)) == {
                (TOPIC, 0): 0,
                (TOPIC, PARTITIONS): unknown,
                (TOPIC, -1): unknown,
                ("unknown", 0): unknown,
            }
        topic_id, other = node.image.topics[TOPIC].topic_id, bytes(range(16))
        by_id: dict[tuple[str | bytes, int], int] = {
            (topic_id, 0): 2,
            (topic_id, 9): 1,
            (other, 0): 1,
        }
        assert ask.committed(await client.ask(ask.commit(by_id), 10)) == {
            (topic_id, 0): 0,
            (topic_id, 9): unknown,
            (other, 0): ErrorCode.UNKNOWN_TOPIC_ID,
        }
        (group,) = (await client.ask(ask.fetch(**{GROUP: {topic_id: [0, 9], other: [0]}}), 10)).groups
        assert ask.fetched(group.topics) == {
            (topic_id, 0): (2, 0),
            (topic_id, 9): (-1, 0),
            (other, 0): (-1, ErrorCode.UNKNOWN_TOPIC_ID),
        }


async def test_nothing_left_to_commit_is_answered_without_a_group(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (_, client):
        request = ask.commit({("unknown", 0): 1}, member="m", generation=5)
        assert codes(await client.ask(request, 7)) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert (await client.ask(ask.commit({}), 7)).topics == []
        assert (await client.ask(ask.list_groups(), 4)).groups == []


async def test_metadata_that_is_too_long_costs_only_its_partition(tmp_path: Path) -> None:
    async with group_node(tmp_path, offset_metadata_max_bytes="10") as (_, client):
        request = ask.commit({(TOPIC, 0): 1, (TOPIC, 1): 1, (TOPIC, 2): 1}, metadata="0123456789")
        request.topics[0].partitions[1].committed_metadata = "01234567890"
        request.topics[0].partitions[2].committed_metadata = None
        assert ask.committed(await client.ask(request, 7)) == {
            (TOPIC, 0): 0,
            (TOPIC, 1): ErrorCode.OFFSET_METADATA_TOO_LARGE,
            (TOPIC, 2): 0,
        }
        (topic,) = (await client.ask(ask.fetch_one({TOPIC: [0, 1, 2]}), 7)).topics
        assert [(row.committed_offset, row.metadata) for row in topic.partitions] == [
            (1, "0123456789"),
            (-1, ""),
            (1, ""),
        ]


async def test_a_commit_larger_than_a_batch_may_be_fails(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client):
        change = ConfigChange("max.message.bytes", ConfigOperation.SET, "500")
        node.controller.incremental_alter_configs(
            [((2, OFFSETS), [change])], defaults=TopicDefaults(1, 1, node.config.topic_defaults)
        )
        offsets: dict[tuple[str | bytes, int], int] = {(TOPIC, index): 1 for index in range(PARTITIONS)}
        response = await client.ask(ask.commit(offsets, metadata="x" * 200), 7)
        assert codes(response) == {ErrorCode.UNKNOWN_SERVER_ERROR}
        topics = (await client.ask(ask.fetch_one({TOPIC: [0]}), 7)).topics
        assert ask.fetched(topics) == {(TOPIC, 0): (-1, 0)}


async def test_the_offsets_of_a_deleted_topic_are_gone(tmp_path: Path) -> None:
    async with group_node(tmp_path) as (node, client):
        await client.ask(ask.commit({(TOPIC, 0): 1}), 7)
        node.controller.delete_topics([node.image.topics[TOPIC].topic_id])
        node.create_topic(TOPIC, PARTITIONS)
        assert ask.fetched((await client.ask(ask.fetch_one({TOPIC: [0]}), 7)).topics) == {(TOPIC, 0): (-1, 0)}


async def test_offsets_that_nobody_needs_are_forgotten(tmp_path: Path) -> None:
    settings = {"offsets_retention_minutes": "60", "offsets_retention_check_interval_ms": "5"}
    async with group_node(tmp_path, **settings) as (node, client):
        await client.ask(ask.commit({(TOPIC, 0): 1}), 7)
        await trio.sleep(0.02)
        assert len((await client.ask(ask.list_groups(), 4)).groups) == 1
        node.now_ms += 3_600_000
        while (await client.ask(ask.list_groups(), 4)).groups:
            pass
        topics = (await client.ask(ask.fetch_one({TOPIC: [0]}), 7)).topics
        assert ask.fetched(topics) == {(TOPIC, 0): (-1, 0)}


# --- groups as a whole


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
