"""Admin calls about access control entries (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.driver import check, error_of
from kcli.client.network.metadata import ANY
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kcli.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kcli.security.acl import AclEntry, Operation, PatternType, PermissionType, ResourceType, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError
    from kcli.security.acl import AclFilter


async def describe_acls(
    client: Client, wanted: AclFilter, *, timeout_ms: int | None = None
) -> list[AclEntry]:
    """Return the entries that a filter finds, sorted. Raises `KafkaError`."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response: DescribeAclsResponse = await client.request(ANY, request, timeout_ms=timeout_ms)
    check(response.error_code, response.error_message)
    return sorted(
        AclEntry(
            number(ResourceType, resource.resource_type),
            resource.resource_name,
            number(PatternType, resource.pattern_type),
            each.principal,
            each.host,
            number(Operation, each.operation),
            number(PermissionType, each.permission_type),
        )
        for resource in response.resources
        for each in resource.acls
    )


async def create_acls(
    client: Client, entries: Sequence[AclEntry], *, timeout_ms: int | None = None
) -> dict[AclEntry, KafkaError | None]:
    """Add entries; one that exists is no error."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in entries
        ]
    )
    response: CreateAclsResponse = await client.request(ANY, request, timeout_ms=timeout_ms)
    results = (error_of(each.error_code, each.error_message) for each in response.results)
    return dict(zip(entries, results, strict=True))


async def delete_acls(
    client: Client, filters: Sequence[AclFilter], *, timeout_ms: int | None = None
) -> dict[AclFilter, list[AclEntry] | KafkaError]:
    """Remove the entries that filters find, and return them by filter."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )
    response: DeleteAclsResponse = await client.request(ANY, request, timeout_ms=timeout_ms)
    found: dict[AclFilter, list[AclEntry] | KafkaError] = {}
    for wanted, result in zip(filters, response.filter_results, strict=True):
        errors = [error_of(result.error_code, result.error_message)]
        errors += [error_of(each.error_code, each.error_message) for each in result.matching_acls]
        refused = next(filter(None, errors), None)
        found[wanted] = refused or sorted(
            AclEntry(
                number(ResourceType, each.resource_type),
                each.resource_name,
                number(PatternType, each.pattern_type),
                each.principal,
                each.host,
                number(Operation, each.operation),
                number(PermissionType, each.permission_type),
            )
            for each in result.matching_acls
        )
    return found
