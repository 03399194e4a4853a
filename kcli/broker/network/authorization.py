"""The checks that handlers and short paths make right after they have read the names in a request.

Without an authorizer `context.access` is None: everything is allowed, at the cost of that test.

What is denied is noted in the node's log of denials, once for each name with the number of times that the
request has it. What a request does not need (`is_alternative`, `hides`) is not noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.network.request_context import NONE_DENIED
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.security.acl import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.network.request_context import RequestContext

NOT_ASKED_FOR = -(2**31)
"""The authorized operations in a response if the request does not ask for them."""

_OPERATIONS = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8, 15),
}
_ALL_OPERATIONS = {type: sum(1 << number for number in numbers) for type, numbers in _OPERATIONS.items()}


def authorize_topics(
    context: RequestContext,
    operation: Operation,
    names: Iterable[str],
    *,
    cluster: Operation | None = None,
    hides: bool = False,
) -> frozenset[str]:
    """Return the topics among `names` for which the operation is denied.

    A principal that may do the operation `cluster` with the cluster may do this with every topic. With
    `hides` the names are not the client's, and those denied are only left out of the response.
    """
    if cluster is not None and is_cluster_authorized(context, cluster, is_alternative=True):
        return NONE_DENIED
    return context.denied(operation, ResourceType.TOPIC, names, hides=hides)


def authorize_groups(
    context: RequestContext, operation: Operation, names: Iterable[str], *, hides: bool = False
) -> frozenset[str]:
    """Return the groups among `names` for which the operation is denied; `hides` as for topics."""
    return context.denied(operation, ResourceType.GROUP, names, hides=hides)


def authorize_group(context: RequestContext, operation: Operation, name: str) -> None:
    """Raise `KafkaError` GROUP_AUTHORIZATION_FAILED if the operation on a group is denied."""
    if context.denied(operation, ResourceType.GROUP, (name,)):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def authorize_transactional_id(context: RequestContext, operation: Operation, name: str) -> None:
    """Raise `KafkaError` TRANSACTIONAL_ID_AUTHORIZATION_FAILED if the operation is denied."""
    if not is_transactional_id_authorized(context, operation, name):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def is_transactional_id_authorized(context: RequestContext, operation: Operation, name: str) -> bool:
    """Return whether an operation on a transactional id is allowed."""
    return not context.denied(operation, ResourceType.TRANSACTIONAL_ID, (name,))


def authorize_cluster(context: RequestContext, operation: Operation) -> None:
    """Raise `KafkaError` CLUSTER_AUTHORIZATION_FAILED if the operation on the cluster is denied."""
    if not is_cluster_authorized(context, operation):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def is_cluster_authorized(
    context: RequestContext, operation: Operation, *, is_alternative: bool = False
) -> bool:
    """Return whether an operation on the cluster is allowed.

    It `is_alternative` if other permissions would do as well.
    """
    return not context.denied(operation, ResourceType.CLUSTER, (CLUSTER_NAME,), hides=is_alternative)


def is_any_topic_authorized(context: RequestContext, operation: Operation) -> bool:
    """Return whether an operation is allowed on at least one topic."""
    access = context.access
    return access is None or access.may_any(operation, ResourceType.TOPIC)


def authorized_operations(context: RequestContext, type: ResourceType, name: str) -> int:
    """Return the operations that are allowed on a resource, as a bit field (KIP-430)."""
    access = context.access
    if access is None:
        return _ALL_OPERATIONS[type]
    return sum(1 << number for number in _OPERATIONS[type] if access.may(Operation(number), type, name))


def cluster_operations(context: RequestContext) -> int:
    """Return the operations that are allowed on the cluster, as a bit field; 0 without DESCRIBE."""
    if not is_cluster_authorized(context, Operation.DESCRIBE):
        return 0
    return authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
