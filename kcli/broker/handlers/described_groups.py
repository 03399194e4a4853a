"""Describing groups of either kind: each by its own shard, or with the error that stood in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.coordinator.effects import Now
    from kcli.broker.coordinator.group_coordinator import GroupCoordinator
    from kcli.broker.request_context import RequestContext

GROUP_OPERATIONS = 0b1101_0100_1000
"""Every operation on a group, as a bit field: nobody is refused anything without an authorizer."""


class Described(Protocol):
    """A group in an answer, whichever it is."""

    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)


def describe_each(
    context: RequestContext,
    group_ids: Iterable[str],
    *,
    describe: Callable[[GroupCoordinator, Now, str], D],
    refused: Callable[[str, KafkaError], D],
    with_operations: bool,
) -> list[D]:
    """Return each group as its shard describes it, or as `refused` says that it was not."""
    runtime = context.broker.groups
    groups: list[D] = []
    for group_id in group_ids:
        try:
            group = describe(runtime.shard(runtime.partition_for(group_id)), runtime.now(), group_id)
        except KafkaError as error:
            group = refused(group_id, error)
        if with_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        groups.append(group)
    return groups
