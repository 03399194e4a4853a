"""Operations, resources and access control entries.

The numbers are those of `AclOperation`, `ResourceType`, `PatternType` and `AclPermissionType` in Kafka, on
the wire and in records.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.internal.security_records import AccessControlEntryRecord

N = TypeVar("N", bound=IntEnum)

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type `CLUSTER`."""
WILDCARD = "*"
"""As a name in a LITERAL pattern: every resource of the type. As a host: every host."""


class Operation(IntEnum):
    """What a principal may do with a resource. `ANY` is for filters, `ALL` for entries."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """A kind of resource. `ANY` is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a pattern is meant (KIP-290). `ANY` and `MATCH` are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether an entry allows or denies. `ANY` is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS_OF: Mapping[ResourceType, frozenset[Operation]] = MappingProxyType(
    {
        ResourceType.TOPIC: frozenset(map(Operation, (3, 4, 5, 6, 7, 8, 10, 11))),
        ResourceType.GROUP: frozenset(map(Operation, (3, 6, 8, 10, 11))),
        ResourceType.CLUSTER: frozenset(map(Operation, (5, 7, 8, 9, 10, 11, 12))),
        ResourceType.TRANSACTIONAL_ID: frozenset(map(Operation, (4, 8, 15))),
        ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
        ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
    }
)
"""The operations that there are on resources of a type (Kafka method `AclEntry.supportedOperations`)."""


class AclEntry(NamedTuple):
    """One access control entry: `principal` from `host` is allowed or denied an operation on resources.

    `principal` is `Type:name`, `User:*` for everybody; `host` is an IP address as text, or `*`.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: PermissionType

    @classmethod
    def from_record(cls, record: AccessControlEntryRecord) -> AclEntry:
        """Return the entry of a record; numbers of a newer Kafka become UNKNOWN."""
        return cls(
            number(ResourceType, record.resource_type),
            record.resource_name,
            number(PatternType, record.pattern_type),
            record.principal,
            record.host,
            number(Operation, record.operation),
            number(PermissionType, record.permission_type),
        )


class AclFilter(NamedTuple):
    """What finds entries: None and the numbers ANY match everything (Kafka class `AclBindingFilter`)."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: PermissionType = PermissionType.ANY

    def matches(self, entry: AclEntry) -> bool:
        """Return whether the filter finds an entry."""
        return (
            self.resource_type in (ResourceType.ANY, entry.resource_type)
            and self._matches_name(entry)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (PermissionType.ANY, entry.permission)
        )

    def _matches_name(self, entry: AclEntry) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, entry.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.resource_name == entry.resource_name
        if entry.pattern_type is PatternType.PREFIXED:
            return self.resource_name.startswith(entry.resource_name)
        return entry.resource_name in (self.resource_name, WILDCARD)


def number(kind: type[N], value: int) -> N:
    """Return the member with a number that came from outside, UNKNOWN (0) without one."""
    try:
        return kind(value)
    except ValueError:
        return kind(0)


def spelled(member: IntEnum) -> str:
    """Return the name of a number as the options of Kafka's tools have it, such as `DescribeConfigs`."""
    return member.name.title().replace("_", "")
