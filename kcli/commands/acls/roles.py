"""Roles: the entries that `add` and `remove` mean, by operation or by what clients need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.acls.options import Principals, Resources, check_operation, operations
from kcli.errors import UsageError
from kcli.security.acl import CLUSTER_NAME, AclEntry, Operation, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PRODUCER_OPERATIONS = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
CONSUMER_OPERATIONS = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}

Producer = Annotated[
    bool,
    typer.Option(
        "--producer",
        help="What a producer needs: Write, Describe and Create on the topics, Write and Describe on "
        "transactional ids",
    ),
]
Consumer = Annotated[
    bool,
    typer.Option(
        "--consumer", help="What a consumer needs: Read and Describe on the topics, Read on the groups"
    ),
]
Idempotent = Annotated[
    bool, typer.Option("--idempotent", help="With --producer: IdempotentWrite on the cluster, too")
]


class Roles(NamedTuple):
    """Whether the entries shall be those that a producer or a consumer needs."""

    producer: Producer = False
    consumer: Consumer = False
    idempotent: Idempotent = False

    @property
    def are_given(self) -> bool:
        return self.producer or self.consumer

    def entries(
        self,
        operation: Sequence[str] | None,
        principals: Principals,
        resources: Resources,
        pattern: PatternType,
    ) -> list[AclEntry]:
        """Return the entries that the options mean; raise `UsageError`."""
        named = resources.some()
        if self.are_given:
            option = "--producer" if self.producer else "--consumer"
            if operation:
                raise UsageError(f"`{option}` and `--operation` exclude each other")
            principals.check(only_allows=option)
            self._check(option, {type for type, _ in named})
            found = self._of_clients(principals, named, pattern)
        else:
            if self.idempotent:
                raise UsageError("`--idempotent` needs `--producer`")
            principals.check()
            wanted = operations(operation)
            for type, _ in named:
                for each in wanted:
                    check_operation(type, each)
            found = (entry for each in named for entry in principals.entries(each, pattern, wanted))
        return list(dict.fromkeys(found))

    def _check(self, option: str, types: set[ResourceType]) -> None:
        if ResourceType.TOPIC not in types:
            raise UsageError(f"`{option}` needs `--topic`")
        if self.consumer and ResourceType.GROUP not in types:
            raise UsageError("`--consumer` needs `--group`")
        known = set(PRODUCER_OPERATIONS) if self.producer else set()
        known |= set(CONSUMER_OPERATIONS) if self.consumer else set()
        if types - known:
            raise UsageError(
                "`--producer` is about topics and transactional ids, `--consumer` about topics and groups"
            )

    def _of_clients(
        self, principals: Principals, named: Sequence[tuple[ResourceType, str]], pattern: PatternType
    ) -> Iterator[AclEntry]:
        for resource in named:
            for is_wanted, needed in (
                (self.producer, PRODUCER_OPERATIONS),
                (self.consumer, CONSUMER_OPERATIONS),
            ):
                if is_wanted:
                    yield from principals.entries(resource, pattern, needed.get(resource[0], ()))
        if self.producer and self.idempotent:
            cluster = ResourceType.CLUSTER, CLUSTER_NAME
            yield from principals.entries(cluster, PatternType.LITERAL, [Operation.IDEMPOTENT_WRITE])
