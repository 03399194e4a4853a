"""FindCoordinator over a socket: addresses and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from kcli.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC
from tests.broker.handlers import group_requests as ask
from tests.broker.handlers.group_requests import GROUP, codes
from tests.broker.single_node import connected, running_node

if TYPE_CHECKING:
    from pathlib import Path

from tests.broker.handlers.group_node import OFFSETS, PARTITIONS, TOPIC, group_node, stable


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
            if 1 <= version < 4:
                assert response.error_message == "NONE"
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


async def test_a_topic_that_cannot_be_made_as_configured_is_told_of_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"offsets.topic.segment.bytes": "1024"}
    async with running_node(tmp_path, settings) as node, connected(node) as client:
        found = await client.ask(ask.find_one(), 3)
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert OFFSETS not in node.image.topics
    why = "invalid value `1024` for `segment.bytes`: must be at least 1048576"
    assert (found.error_message, caplog.messages) == (why, [f"cannot create `{OFFSETS}`: {why}"])


@pytest.mark.parametrize(
    ("key_type", "version", "error"),
    [
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


async def test_the_coordinator_of_a_transactional_id_leads_its_partition(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        for version in range(1, 7):
            request = ask.find_one("id", 1) if version < 4 else ask.find("id", "other", key_type=1)
            response = await client.ask(request, version)
            for found in [response] if version < 4 else response.coordinators:
                assert (found.error_code, found.node_id, found.port) == (0, node.node_id, node.port)
        topic = node.image.topics[TRANSACTION_STATE_TOPIC]
        assert (len(topic.partitions), len(topic.partitions[0].replicas)) == (50, 1)
        assert dict(node.image.topic_config(TRANSACTION_STATE_TOPIC)) == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        }
        assert OFFSETS not in node.image.topics


async def test_the_topic_of_transactions_is_made_as_configured(tmp_path: Path) -> None:
    settings = {
        "transaction.state.log.num.partitions": "7",
        "transaction.state.log.segment.bytes": "2000000",
    }
    async with running_node(tmp_path, settings) as node, connected(node) as client:
        await client.ask(ask.find_one("id", 1), 3)
        assert len(node.image.topics[TRANSACTION_STATE_TOPIC].partitions) == 7
        assert node.image.topic_config(TRANSACTION_STATE_TOPIC)["segment.bytes"] == "2000000"
        assert node.transactions.partition_count == 7


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

    monkeypatch.setattr("kcli.broker.coordinator.runtime.coordinator_runtime.load", never)
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
        (ask.sync(member="m"), range(5)),
        (ask.sync(member="m", protocol_type="consumer", protocol_name="range"), range(5, 6)),
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
