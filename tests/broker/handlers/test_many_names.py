"""Metadata of thousands of names: the responses are the same as for a few, and others run meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.handlers.metadata import TOPICS_PER_TURN
from kcli.broker.network.apis import APIS
from kcli.broker.network.request_context import RequestContext
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.network.responses import AwaitedResponse
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.frames import decode_response
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.single_node import LISTENER, Node, connected, running_node
from tests.support.raw_client import request_frame

if TYPE_CHECKING:
    from pathlib import Path

METADATA = 3
MANY = TOPICS_PER_TURN + 1


def by_name(names: list[str], *, may_create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)


def feed(node: Node, request: bytes) -> Any:
    """Feed a request to the engine of a node, as a connection does."""
    context = RequestContext(node, LISTENER, "test", APIS)  # type: ignore[arg-type]  # it stands for a broker
    return RequestEngine(APIS).feed(context, memoryview(request), 4, len(request))


@pytest.mark.parametrize("count", [MANY, 10 * TOPICS_PER_TURN])
async def test_others_run_meanwhile(count: int, tmp_path: Path) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with running_node(tmp_path) as node, trio.open_nursery() as nursery:
        names = [f"unknown-{number:06}" for number in range(count)]
        request = request_frame(by_name(names), 12)
        answer = feed(node, request)
        assert type(answer) is AwaitedResponse
        nursery.start_soon(others)
        (frame,) = await answer
        nursery.cancel_scope.cancel()
    assert turns > count // TOPICS_PER_TURN
    _, response = decode_response(METADATA, 12, frame[4:])
    assert [(topic.name, topic.error_code) for topic in response.topics] == [(name, 3) for name in names]


async def test_a_few_names_are_answered_at_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        names = [f"unknown-{number:06}" for number in range(TOPICS_PER_TURN)]
        assert type(feed(node, request_frame(by_name(names), 12))) is tuple


@pytest.mark.parametrize("version", [1, 4, 9, 12])
async def test_each_is_answered_once_and_in_order(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path, {"auto.create.topics.enable": "true"}) as node:
        node.create_topic("there", partitions=3)
        illegal = [f"no name {number}" for number in range(MANY)]
        async with connected(node) as client:
            request = by_name([*illegal, "there", "new", "there"], may_create=True)
            response = await client.ask(request, version)
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [
        *((name, ErrorCode.INVALID_TOPIC_EXCEPTION, 0) for name in illegal),
        ("there", 0, 3),
        ("new", 0, 1),
    ]
    assert "new" in node.image.topics


async def test_many_ids(tmp_path: Path) -> None:
    ids = [number.to_bytes(16, "big") for number in range(1, MANY + 1)]
    async with running_node(tmp_path) as node, connected(node) as client:
        there = node.create_topic("there").topic_id
        wanted = [MetadataRequestTopic(topic_id=each, name=None) for each in (*ids, there)]
        response = await client.ask(MetadataRequest(topics=wanted), 12)
    assert [(topic.topic_id, topic.error_code) for topic in response.topics] == [
        *((each, ErrorCode.UNKNOWN_TOPIC_ID) for each in ids),
        (there, 0),
    ]


async def test_one_that_cannot_be_asked_for_refuses_all(tmp_path: Path) -> None:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(MANY)]
    async with running_node(tmp_path) as node, connected(node) as client:
        request = MetadataRequest(topics=[*topics, MetadataRequestTopic(name=None)])
        response = await client.ask(request, 10)
        assert {topic.error_code for topic in response.topics} == {ErrorCode.INVALID_REQUEST}
        assert not node.image.topics
