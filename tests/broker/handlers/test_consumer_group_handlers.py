"""Groups of the consumer protocol over a socket: heartbeats, descriptions, and each error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.broker.handlers import group_requests as ask
from tests.broker.handlers.group_requests import GROUP
from tests.broker.single_node import Client, Node, connected, running_node

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TOPIC = "topic"
PARTITIONS = 3
SETTINGS = {
    "group.consumer.session.timeout.ms": "60000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
}


def beat(member: str = "m", epoch: int = 0, group: str = GROUP, **changes: Any) -> Any:
    """A heartbeat; with epoch 0 it has every field that a joining member sends."""
    fields: dict[str, Any] = {}
    if epoch == 0:
        fields = {
            "rebalance_timeout_ms": 1000,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
        }
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **(fields | changes)
    )


def describe(*groups: str, operations: bool = False) -> Any:
    return ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)


def partitions_of(rows: Sequence[TopicPartitions]) -> dict[bytes, list[int]]:
    return {row.topic_id: sorted(row.partitions) for row in rows}


async def prepared(node: Node, client: Client) -> bytes:
    """Create the topic and that of the coordinator; return the id of the first."""
    topic_id = node.create_topic(TOPIC, PARTITIONS).topic_id
    assert (await client.ask(ask.find_one(), 0)).error_code == 0
    return topic_id


async def test_a_member_joins_reads_and_leaves(tmp_path: Path) -> None:
    async with running_node(tmp_path, SETTINGS) as node, connected(node) as client:
        topic_id = await prepared(node, client)
        joined = await client.ask(beat(), 1)
        assert (joined.error_code, joined.member_id, joined.heartbeat_interval_ms) == (0, "m", 500)
        assert joined.member_epoch > 0
        assert partitions_of(joined.assignment.topic_partitions) == {topic_id: [0, 1, 2]}
        owned = [TopicPartitions(topic_id=topic_id, partitions=[0, 1, 2])]
        again = await client.ask(beat(epoch=joined.member_epoch, topic_partitions=owned), 1)
        assert (again.error_code, again.member_epoch) == (0, joined.member_epoch)
        commit = ask.commit({(topic_id, 0): 5}, member="m", generation=joined.member_epoch)
        assert ask.committed(await client.ask(commit, 10)) == {(topic_id, 0): 0}
        left = await client.ask(beat(epoch=-1), 1)
        assert (left.error_code, left.member_epoch) == (0, -1)
        (group,) = (await client.ask(describe(GROUP), 1)).groups
        assert (group.error_code, group.group_state, group.members) == (0, "Empty", [])


@pytest.mark.parametrize("version", [0, 1])
async def test_a_description_shows_what_members_have(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path, SETTINGS) as node, connected(node) as client:
        topic_id = await prepared(node, client)
        joined = await client.ask(beat(instance_id="i", rack_id="r"), version)
        (group,) = (await client.ask(describe(GROUP, operations=True), version)).groups
        assert (group.error_code, group.group_id, group.assignor_name) == (0, GROUP, "uniform")
        assert (group.group_epoch, group.assignment_epoch) == (joined.member_epoch, joined.member_epoch)
        assert group.authorized_operations == 3400
        (member,) = group.members
        assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
        assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
        assert member.subscribed_topic_names == [TOPIC]
        assert partitions_of(member.target_assignment.topic_partitions) == {topic_id: [0, 1, 2]}
        assert member.member_type == (1 if version else -1)


async def test_both_protocols_list_their_groups(tmp_path: Path) -> None:
    async with running_node(tmp_path, SETTINGS) as node, connected(node) as client:
        await prepared(node, client)
        await client.ask(beat(group="new"), 1)
        await client.ask(ask.join("old"), 3)
        listed = (await client.ask(ask.list_groups(), 5)).groups
        assert {each.group_id: each.group_type for each in listed} == {"new": "consumer", "old": "classic"}
        only = (await client.ask(ask.list_groups(types=["Consumer"]), 5)).groups
        assert [each.group_id for each in only] == ["new"]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (beat(group=""), ErrorCode.INVALID_REQUEST),
        (beat(member=""), ErrorCode.INVALID_REQUEST),
        (beat(rebalance_timeout_ms=-1), ErrorCode.INVALID_REQUEST),
        (beat(topic_partitions=None), ErrorCode.INVALID_REQUEST),
        (beat(subscribed_topic_names=None), ErrorCode.INVALID_REQUEST),
        (beat(epoch=-3), ErrorCode.INVALID_REQUEST),
        (beat(rack_id=""), ErrorCode.INVALID_REQUEST),
        (beat(instance_id=""), ErrorCode.INVALID_REQUEST),
        (beat(server_assignor="none"), ErrorCode.UNSUPPORTED_ASSIGNOR),
        (beat(subscribed_topic_regex="("), ErrorCode.INVALID_REGULAR_EXPRESSION),
        (beat(member="stranger", epoch=5), ErrorCode.UNKNOWN_MEMBER_ID),
        (beat(member="other", instance_id="i"), ErrorCode.UNRELEASED_INSTANCE_ID),
        (beat(member="first", epoch=1000), ErrorCode.FENCED_MEMBER_EPOCH),
        (beat(member="third"), ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
async def test_a_heartbeat_is_refused(request_: Any, error: ErrorCode, tmp_path: Path) -> None:
    settings = {**SETTINGS, "group.consumer.max.size": "2"}
    async with running_node(tmp_path, settings) as node, connected(node) as client:
        await prepared(node, client)
        assert (await client.ask(beat("first", instance_id="i"), 1)).error_code == 0
        if request_.member_id == "third":
            assert (await client.ask(beat("second"), 1)).error_code == 0
        response = await client.ask(request_, 1)
        assert response.error_code == error
        assert response.error_message


async def test_commits_of_another_epoch_are_stale(tmp_path: Path) -> None:
    async with running_node(tmp_path, SETTINGS) as node, connected(node) as client:
        await prepared(node, client)
        epoch = (await client.ask(beat(), 1)).member_epoch
        commit = ask.commit({(TOPIC, 0): 5}, member="m", generation=epoch + 1)
        assert set(ask.committed(await client.ask(commit, 9)).values()) == {ErrorCode.STALE_MEMBER_EPOCH}
        unknown = ask.commit({(TOPIC, 0): 5}, member="n", generation=epoch)
        assert set(ask.committed(await client.ask(unknown, 9)).values()) == {ErrorCode.UNKNOWN_MEMBER_ID}


async def test_groups_that_cannot_be_described(tmp_path: Path) -> None:
    async with running_node(tmp_path, SETTINGS) as node, connected(node) as client:
        await prepared(node, client)
        await client.ask(ask.join("classic"), 3)
        groups = (await client.ask(describe("none", "classic", ""), 1)).groups
        assert [(each.group_id, each.error_code) for each in groups] == [
            ("none", ErrorCode.GROUP_ID_NOT_FOUND),
            ("classic", ErrorCode.GROUP_ID_NOT_FOUND),
            ("", ErrorCode.INVALID_GROUP_ID),
        ]
        await client.ask(beat(), 1)
        (classic,) = (await client.ask(ask.describe(GROUP), 6)).groups
        assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_only_the_coordinator_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_node(tmp_path, SETTINGS) as node, connected(node) as client:

        async def codes() -> set[int]:
            (group,) = (await client.ask(describe(GROUP), 1)).groups
            return {(await client.ask(beat(), 1)).error_code, group.error_code}

        assert await codes() == {ErrorCode.NOT_COORDINATOR}
        await prepared(node, client)
        node.groups.stop()
        assert await codes() == {ErrorCode.COORDINATOR_NOT_AVAILABLE}

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("a bug")

        for name in ("ask", "shard"):
            monkeypatch.setattr(CoordinatorRuntime, name, fail)
        (group,) = (await client.ask(describe(GROUP), 0)).groups
        assert group.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await client.ask(beat(), 0)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_group_may_be_given_its_own_pace(tmp_path: Path) -> None:
    from kcli.broker.config.config_entries import ConfigChange
    from kcli.broker.handlers.topics import topic_defaults
    from kcli.protocol.configs import ConfigOperation

    async with running_node(tmp_path, SETTINGS) as node, connected(node) as client:
        await prepared(node, client)
        change = ConfigChange("consumer.heartbeat.interval.ms", ConfigOperation.SET, "700")
        outcomes = node.controller.incremental_alter_configs(
            [((32, GROUP), [change])], defaults=topic_defaults(node.config)
        )
        assert outcomes == [None]
        assert (await client.ask(beat(), 1)).heartbeat_interval_ms == 700
        assert (await client.ask(beat(group="other"), 1)).heartbeat_interval_ms == 500


async def test_a_loaded_group_knows_its_members(tmp_path: Path) -> None:
    async with running_node(tmp_path, SETTINGS) as node, connected(node) as client:
        topic_id = await prepared(node, client)
        epoch = (await client.ask(beat(), 1)).member_epoch
        before = await client.ask(describe(GROUP), 1)
        node.controller.fence_broker(node_id=node.node_id, epoch=node.epoch)
        node.controller.unfence_broker(node_id=node.node_id, epoch=node.epoch)
        owned = [TopicPartitions(topic_id=topic_id, partitions=[0, 1, 2])]
        while True:
            response = await client.ask(beat(epoch=epoch, topic_partitions=owned), 1)
            if response.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
        assert (response.error_code, response.member_epoch) == (0, epoch)
        assert await client.ask(describe(GROUP), 1) == before
