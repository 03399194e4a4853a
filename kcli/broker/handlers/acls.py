"""DescribeAcls, CreateAcls, DeleteAcls: the access control entries of the cluster (KIP-140).

* Without an authorizer each is SECURITY_DISABLED.
* Version 0 knows only LITERAL patterns; ANY in its filters means them (KIP-290).
* A number without a meaning is INVALID_REQUEST in an entry, and in a filter of DeleteAcls. In a filter of
  DescribeAcls it finds nothing, but for 0. Kafka closes the connection of a client that sends a 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.network.authorization import authorize_cluster
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.create_acls import AclCreationResult, CreateAclsResponse
from kcli.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kcli.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kcli.security.acl import (
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    number,
)

if TYPE_CHECKING:
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
    from kcli.protocol.messages.delete_acls import DeleteAclsRequest
    from kcli.protocol.messages.describe_acls import DescribeAclsRequest
    from kcli.security.access import Authorizer


def describe_acls(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """Return the entries that a filter finds, by resource."""
    authorize_cluster(context, Operation.DESCRIBE)
    authorizer = _authorizer(context)
    wanted = _filter(request, context.api_version)
    numbers = request.resource_type_filter, request.pattern_type_filter, request.operation
    if 0 in (*numbers, request.permission_type):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a filter has the number 0, which has no meaning")
    found: dict[tuple[ResourceType, str, PatternType], list[AclEntry]] = {}
    for entry in sorted(filter(wanted.matches, authorizer.rules)):
        found.setdefault(entry[:3], []).append(entry)
    if context.api_version == 0 and any(pattern is not PatternType.LITERAL for _, _, pattern in found):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "version 0 knows only LITERAL patterns")
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=type,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(
                        principal=each.principal,
                        host=each.host,
                        operation=each.operation,
                        permission_type=each.permission,
                    )
                    for each in entries
                ],
            )
            for (type, name, pattern), entries in found.items()
        ]
    )


def failed_describe_acls(request: DescribeAclsRequest, error: KafkaError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.message, resources=[])


def create_acls(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Add entries; those that exist are added, too."""
    authorize_cluster(context, Operation.ALTER)
    _authorizer(context)
    entries = [_entry(each) for each in request.creations]
    if context.api_version == 0 and any(each.pattern_type is not PatternType.LITERAL for each in entries):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "version 0 knows only LITERAL patterns")
    return CreateAclsResponse(
        results=[
            AclCreationResult()
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.message)
            for error in context.node.controller.create_acls(entries)
        ]
    )


def failed_create_acls(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=error.code, error_message=error.message) for _ in request.creations
        ]
    )


def delete_acls(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Remove the entries that filters find, and return them."""
    authorize_cluster(context, Operation.ALTER)
    _authorizer(context)
    filters = [_filter(each, context.api_version) for each in request.filters]
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=found.code, error_message=found.message, matching_acls=[])
            if isinstance(found, KafkaError)
            else DeleteAclsFilterResult(matching_acls=[_removed(entry) for entry in found])
            for found in context.node.controller.delete_acls(filters)
        ]
    )


def failed_delete_acls(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=[])
            for _ in request.filters
        ]
    )


def _authorizer(context: RequestContext) -> Authorizer:
    """Return the node's authorizer. Raises `KafkaError` SECURITY_DISABLED without one."""
    authorizer: Authorizer | None = context.node.authorizer
    if authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "no authorizer is configured on the broker")
    return authorizer


def _filter(request: Any, version: int) -> AclFilter:  # noqa: ANN401 - of DescribeAcls or DeleteAcls
    """Return the filter that a request describes; numbers without a meaning become UNKNOWN."""
    pattern = number(PatternType, request.pattern_type_filter)
    if version == 0 and pattern is PatternType.ANY:
        pattern = PatternType.LITERAL
    return AclFilter(
        number(ResourceType, request.resource_type_filter),
        request.resource_name_filter,
        pattern,
        request.principal_filter,
        request.host_filter,
        number(Operation, request.operation),
        number(PermissionType, request.permission_type),
    )


def _entry(creation: AclCreation) -> AclEntry:
    return AclEntry(
        number(ResourceType, creation.resource_type),
        creation.resource_name,
        number(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        number(Operation, creation.operation),
        number(PermissionType, creation.permission_type),
    )


def _removed(entry: AclEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
