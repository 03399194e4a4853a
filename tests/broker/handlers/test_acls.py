"""DescribeAcls, CreateAcls, DeleteAcls on a node, and what the entries do to its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.protocol.messages.describe_acls import DescribeAclsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.security.acl import AclEntry, AclFilter, Operation, PatternType, PermissionType, ResourceType
from tests.broker.records import batch, fetch_request, fetched, produce_request, produced, values
from tests.broker.single_node import Client, connected, running_node
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

GUARDED = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
ENTRY: dict[str, Any] = {
    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip
ALL: dict[str, Any] = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
    "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip


def entry(**changes: Any) -> AclCreation:
    return AclCreation(**{**ENTRY, **changes})


async def create(client: Client, *entries: AclCreation, version: int = 3) -> list[int]:
    response = await client.ask(CreateAclsRequest(creations=list(entries)), version)
    return [each.error_code for each in response.results]


async def described(client: Client, version: int = 3, **changes: Any) -> list[tuple[Any, ...]]:
    """Return (type, name, pattern, principals) of what a filter finds."""
    response = await client.ask(DescribeAclsRequest(**{**ALL, **changes}), version)
    assert response.error_code == ErrorCode.NONE
    return [
        (each.resource_type, each.resource_name, each.pattern_type, [acl.principal for acl in each.acls])
        for each in response.resources
    ]


async def test_entries_are_added_found_and_removed(tmp_path: Path) -> None:
    async with running_node(tmp_path, GUARDED) as node, connected(node) as client:
        entries = [
            entry(),
            entry(principal="User:b"),
            entry(resource_name="te", resource_pattern_type=4),
            entry(resource_type=4),
            entry(principal="nobody"),
        ]
        assert await create(client, *entries) == [0, 0, 0, 42, 42]
        assert await create(client, entry()) == [0]
        found = [(2, "t", 3, ["User:a", "User:b"]), (2, "te", 4, ["User:a"])]
        assert await described(client) == found
        assert await described(client, resource_name_filter="test", pattern_type_filter=2) == found[1:]
        gone = DeleteAclsFilter(**{**ALL, "principal_filter": "User:a"})
        response = await client.ask(DeleteAclsRequest(filters=[gone, gone]), 3)
        for result in response.filter_results:
            assert result.error_code == 0
            assert [each.resource_name for each in result.matching_acls] == ["t", "te"]
        assert await described(client) == [(2, "t", 3, ["User:b"])]


async def test_version_0_knows_only_literal_patterns(tmp_path: Path) -> None:
    async with running_node(tmp_path, GUARDED) as node, connected(node) as client:
        assert await create(client, entry(), version=0) == [0]
        assert await create(client, entry(resource_pattern_type=4)) == [0]
        assert await described(client, version=0, pattern_type_filter=3) == [(2, "t", 3, ["User:a"])]


@pytest.mark.parametrize(
    "field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
@pytest.mark.parametrize("number", [0, 99])
async def test_a_filter_with_a_number_without_meaning_is_refused(
    tmp_path: Path, field: str, number: int
) -> None:
    async with running_node(tmp_path, GUARDED) as node, connected(node) as client:
        wrong = {**ALL, field: number}
        response = await client.ask(DescribeAclsRequest(**wrong), 3)
        assert response.error_code == (ErrorCode.NONE if number else ErrorCode.INVALID_REQUEST)
        assert response.resources == []
        removal = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**wrong)]), 3)
        assert [each.error_code for each in removal.filter_results] == [ErrorCode.INVALID_REQUEST]


async def test_without_an_authorizer_there_are_no_entries(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        assert await create(client, entry(), entry()) == [54, 54]
        assert (await client.ask(DescribeAclsRequest(**ALL), 3)).error_code == ErrorCode.SECURITY_DISABLED
        removal = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**ALL)]), 3)
        assert [each.error_code for each in removal.filter_results] == [ErrorCode.SECURITY_DISABLED]
        assert node.image.security == {}


READ_T = AclEntry(
    ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ANONYMOUS", "*", Operation.READ, PermissionType.ALLOW
)
CLOSED = {"authorizer.class.name": "standard", "super.users": "User:admin"}


async def test_a_fetch_session_is_checked_in_full_at_each_fetch(tmp_path: Path) -> None:
    async with running_node(tmp_path, CLOSED) as node, connected(node) as client:
        node.create_topic("t")
        node.controller.create_acls([READ_T])
        opened = await client.ask(fetch_request("t", session_epoch=0), 12)
        assert opened.session_id > 0
        assert fetched(opened).error_code == 0
        again = fetch_request("t", session_epoch=1, session_id=opened.session_id, min_bytes=0)
        again.topics = []
        assert (await client.ask(again, 12)).responses == []
        node.controller.delete_acls([AclFilter()])
        again.session_epoch = 2
        assert fetched(await client.ask(again, 12)).error_code == 29


async def test_a_parked_request_is_answered_as_it_was_allowed_when_it_came(tmp_path: Path) -> None:
    async with running_node(tmp_path, CLOSED) as node, connected(node) as client, connected(node) as other:
        node.create_topic("t")
        node.controller.create_acls([READ_T, READ_T._replace(operation=Operation.WRITE)])
        waiting = fetch_request("t", session_epoch=-1, max_wait_ms=60_000)
        await client.send(waiting, 12)
        await until(lambda: node.purgatory.parked == 1)
        node.controller.delete_acls([AclFilter(operation=Operation.READ)])
        assert produced(await other.ask(produce_request("t", batch(b"v")), 9)).error_code == 0
        _, response = await client.receive(1, 12)
        assert values(fetched(response)) == [(0, b"v")]
        assert fetched(await client.ask(waiting, 12)).error_code == 29


async def test_an_entry_acts_on_a_connection_that_is_open(tmp_path: Path) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    async with running_node(tmp_path, CLOSED) as node, connected(node) as client:
        node.create_topic("t")
        assert [each.error_code for each in (await client.ask(asked, 8)).topics] == [29]
        assert await create(client, entry()) == [31]
        assert node.authorizer is not None
        controller = node.controller
        controller.create_acls(
            [
                AclEntry(
                    ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ANONYMOUS", "127.0.0.1",
                    Operation.READ, PermissionType.ALLOW,
                )
            ]
        )  # fmt: skip
        assert [each.error_code for each in (await client.ask(asked, 8)).topics] == [0]
        denied = [(each.question.operation.name, each.api) for each in node.authorizer.audit.denials]
        assert denied == [("DESCRIBE", "Metadata"), ("ALTER", "CreateAcls")]
