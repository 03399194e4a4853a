"""Offsets over a socket: committed and fetched in every version, refused, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.replication_control import TopicDefaults
from kcli.broker.replication.group_commit import GroupCommit
from kcli.protocol.configs import ConfigOperation
from kcli.protocol.error_codes import ErrorCode
from tests.broker.handlers import group_requests as ask
from tests.broker.handlers.group_requests import GROUP, codes
from tests.broker.single_node import connected

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.storage.log.unified_log import UnifiedLog
from tests.broker.handlers.group_node import OFFSETS, PARTITIONS, TOPIC, group_node


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


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """A clock that stands still until it is set."""
    return trio.testing.MockClock()


@pytest.mark.parametrize("version", [1, 8])
@pytest.mark.parametrize("succeeds", [True, False])
async def test_offsets_are_told_once_they_are_committed(
    version: int,
    succeeds: bool,
    clock: trio.testing.MockClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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
            else:
                clock.jump(0.501)
        (answer,) = answers
        found = answer.groups[0] if version >= 8 else answer
        if succeeds:
            assert ask.fetched(found.topics) == {(TOPIC, 0): (7, 0)}
        elif version < 2:
            assert ask.fetched(found.topics) == {(TOPIC, 0): (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)}
        else:
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        reaches_disk.set()
