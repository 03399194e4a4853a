"""Access: what an authorizer allows on one connection. Authorizer: what others see of the node's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kcli.security.acl import Operation, ResourceType
    from kcli.security.acl_rules import AclRules
    from kcli.security.principal import Principal


class Access(Protocol):
    """What an authorizer allows the principal of one connection."""

    def may(self, operation: Operation, type: ResourceType, name: str) -> bool:
        """Return whether the principal may do this with the resource."""
        ...

    def may_any(self, operation: Operation, type: ResourceType) -> bool:
        """Return whether the principal may do this with at least one resource of the type."""
        ...

    @property
    def notes_allowances(self) -> bool:
        """Whether `note` wants to know what is allowed, too."""
        ...

    def note(self, api_key: int, operation: Operation, type: ResourceType, name: str, count: int) -> None:
        """Note the verdict about a resource that a request names `count` times."""
        ...


class Authorizer(Protocol):
    """The authorizer of a node."""

    @property
    def rules(self) -> AclRules:
        """The entries that it decides by; another object after each change of them."""
        ...

    def access_for(self, principal: Principal, host: str) -> Access:
        """Return what a principal at an IP address may do from now on."""
        ...
