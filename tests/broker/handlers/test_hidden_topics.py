"""Nobody learns from a response whether a topic exists that he may not see; short paths change no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.network.apis import APIS, Api
from kcli.protocol.apis import named
from kcli.protocol.frames import RequestHeader, encode_request
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.schema.declaration import message_info
from kcli.protocol.uuids import ZERO_UUID
from kcli.security.acl import AclEntry, AclFilter, Operation, PatternType, PermissionType, ResourceType
from tests.broker.records import batch, fetch_request, fill, produce_request
from tests.broker.single_node import Client, Node, connected, running_node

if TYPE_CHECKING:
    from pathlib import Path

GUARDED = {
    "authorizer.class.name": "standard",
    "super.users": "User:admin",
    "auto.create.topics.enable": "true",
}
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
OPEN, HIDDEN, MISSING = "open", "secret-1", "secret-2"


def produce(name: str, version: int) -> object:
    return produce_request(name, batch(b"v"), acks=1)


def fetch(name: str, version: int) -> object:
    return fetch_request(name, session_epoch=-1)


def list_offsets(name: str, version: int) -> object:
    row = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[row])])


def metadata(name: str, version: int) -> object:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def delete(name: str, version: int) -> object:
    if version >= 6:
        topic = DeleteTopicState(name=name, topic_id=ZERO_UUID)
        return DeleteTopicsRequest(topics=[topic], timeout_ms=10)
    return DeleteTopicsRequest(topic_names=[name], timeout_ms=10)


BY_NAME = {
    "Produce": (produce, range(3, 13)),
    "Fetch": (fetch, range(4, 13)),
    "ListOffsets": (list_offsets, range(12)),
    "Metadata": (metadata, range(14)),
    "DeleteTopics": (delete, range(7)),
}


async def frame_for(client: Client, request: Any, version: int) -> bytes:
    """Return the response as it comes, without its correlation id."""
    header = RequestHeader(message_info(type(request)).key, version, 7, "test")
    await client.stream.send_all(encode_request(header, request))
    return (await client.receive_frame())[4:]


def allow(node: Node, *entries: tuple[str, PatternType, Operation, PermissionType]) -> None:
    """Add entries about topics for the clients of the tests."""
    node.controller.create_acls(
        [
            AclEntry(ResourceType.TOPIC, name, pattern, "User:ANONYMOUS", "*", operation, permission)
            for name, pattern, operation, permission in entries
        ]
    )


@pytest.mark.parametrize("api", BY_NAME)
async def test_a_forbidden_topic_is_answered_alike_whether_it_exists_or_not(api: str, tmp_path: Path) -> None:
    make, versions = BY_NAME[api]
    async with running_node(tmp_path, GUARDED) as node:
        node.create_topic(HIDDEN)
        allow(node, (OPEN, PatternType.LITERAL, Operation.ALL, PermissionType.ALLOW))
        image = node.image
        async with connected(node) as client:
            for version in versions:
                there = await frame_for(client, make(HIDDEN, version), version)
                gone = await frame_for(client, make(MISSING, version), version)
                assert there.replace(HIDDEN.encode(), b"") == gone.replace(MISSING.encode(), b""), version
        assert node.image is image


async def test_an_expression_matches_only_what_its_member_may_see(tmp_path: Path) -> None:
    async with running_node(tmp_path, GUARDED) as node:
        for name in ("seen-1", "seen-2", "unseen"):
            node.create_topic(name)
        allow(node, ("seen-", PREFIXED, Operation.DESCRIBE, ALLOW))
        node.controller.create_acls(
            [
                AclEntry(ResourceType.GROUP, "g", LITERAL, "User:ANONYMOUS", "*", operation, ALLOW)
                for operation in (Operation.READ, Operation.DESCRIBE)
            ]
        )
        async with connected(node) as client:
            await client.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
            joining = ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000,
                subscribed_topic_regex=".*", topic_partitions=[],
            )  # fmt: skip
            response = await client.ask(joining, 1)
            assert response.error_code == 0
            assigned = {each.topic_id for each in response.assignment.topic_partitions}
            assert assigned == {node.image.topics[name].topic_id for name in ("seen-1", "seen-2")}
            described = await client.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
            assert [each.error_code for each in described.groups] == [0]
        assert node.authorizer is not None
        assert [each.question.resource_name for each in node.authorizer.audit.denials] == []


IN_FULL = tuple(
    Api(each.name, "produce.handler", decoder="produce.wire.decoder")
    if each.name == "Produce"
    else Api(each.name, "fetch.handler", sends_files=True)
    if each.name == "Fetch"
    else each
    for each in APIS
)
"""The table without short paths."""

ENTRIES = {
    "none": (),
    "literal": ((OPEN, LITERAL, ALLOW),),
    "prefixed": (("op", PREFIXED, ALLOW),),
    "all": (("*", LITERAL, ALLOW),),
    "another": (("other", LITERAL, ALLOW),),
    "denied": ((OPEN, LITERAL, DENY),),
    "both": (("*", LITERAL, ALLOW), (OPEN, LITERAL, DENY)),
    "denied by prefix": ((OPEN, LITERAL, ALLOW), ("o", PREFIXED, DENY)),
}


@pytest.mark.parametrize("what", ENTRIES)
async def test_short_paths_answer_as_the_handlers_do(what: str, tmp_path: Path) -> None:
    answers = []
    for number, apis in enumerate((APIS, IN_FULL)):
        directory = tmp_path / str(number)
        directory.mkdir()
        async with running_node(directory, GUARDED, apis=apis) as node:
            node.create_topic(OPEN)
            async with connected(node) as client:
                allow(node, (OPEN, LITERAL, Operation.WRITE, ALLOW))
                await fill(client, OPEN, b"first")
                node.controller.delete_acls([AclFilter()])
                allow(
                    node,
                    *((name, pattern, Operation.READ, kind) for name, pattern, kind in ENTRIES[what]),
                    *((name, pattern, Operation.WRITE, kind) for name, pattern, kind in ENTRIES[what]),
                )
                answers.append(
                    [
                        *[await frame_for(client, produce(OPEN, version), version) for version in (7, 9, 12)],
                        *[await frame_for(client, fetch(OPEN, version), version) for version in (4, 11, 12)],
                    ]
                )
                denials = [] if node.authorizer is None else list(node.authorizer.audit.denials)
                answers[-1].append(b"%d denials" % len(denials))
    assert answers[0] == answers[1]
    is_allowed = what in ("literal", "prefixed", "all")
    assert answers[0][-1] == (b"0 denials" if is_allowed else b"6 denials")


def test_the_table_in_full_reads_no_short_forms() -> None:
    keys = [api.key for api in IN_FULL]
    assert keys == [api.key for api in APIS]
    for name in ("Produce", "Fetch"):
        (api,) = [each for each in IN_FULL if each.key == named(name).key]
        assert api.reader is api.decoder
