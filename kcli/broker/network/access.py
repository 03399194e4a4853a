"""Access: what an authorizer allows on one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kcli.security.acl import Operation, ResourceType


class Access(Protocol):
    """What an authorizer allows the principal of one connection."""

    def may(self, operation: Operation, type: ResourceType, name: str) -> bool:
        """Return whether the principal may do this with the resource."""
        ...

    def may_any(self, operation: Operation, type: ResourceType) -> bool:
        """Return whether the principal may do this with at least one resource of the type."""
        ...
