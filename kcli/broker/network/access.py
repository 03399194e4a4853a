"""Principals, operations and resources, and what an authorizer allows on one connection.

The numbers are those of `AclOperation` and `ResourceType` in Kafka.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol


class Principal(NamedTuple):
    """The user that a connection has proved to be, and whether by a delegation token."""

    type: str
    name: str
    is_token: bool = False


ANONYMOUS = Principal("User", "ANONYMOUS")
"""The principal of a connection that proves nothing."""


class Operation(IntEnum):
    """What a principal may do with a resource."""

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
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """A kind of resource."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Access(Protocol):
    """What an authorizer allows the principal of one connection."""

    def may(self, operation: Operation, type: ResourceType, name: str) -> bool:
        """Return whether the principal may do this with the resource."""
        ...

    def may_any(self, operation: Operation, type: ResourceType) -> bool:
        """Return whether the principal may do this with at least one resource of the type."""
        ...
