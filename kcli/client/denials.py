"""What a broker has denied: the operation and the resource behind an authorization error.

The error's code names the kind of resource alone. The request that was answered says the rest, with the table
of what each API needs.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.schema.declaration import message_info
from kcli.security.acl import Operation, ResourceType, spelled
from kcli.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kcli.client.config import ClientConfig
    from kcli.errors import KcliError

RESOURCES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (ResourceType.TOPIC, "topic", "--topic"),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (ResourceType.GROUP, "group", "--group"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (ResourceType.CLUSTER, "the cluster", "--cluster"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        ResourceType.TRANSACTIONAL_ID, "transactional id", "--transactional-id",
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        ResourceType.DELEGATION_TOKEN, "delegation token", "--delegation-token",
    ),
}  # fmt: skip
"""What each code is about: the type, how messages say it, and the option of `kcli acls`."""

_NAMES = ("name", "topic", "topic_name", "group_id", "group", "key", "resource_name", "transactional_id")


class Wanted(NamedTuple):
    """What a command is about to do with a resource."""

    type: ResourceType
    operation: Operation
    name: str


class Denial(NamedTuple):
    """Who may not do what."""

    principal: str
    operation: Operation
    code: ErrorCode
    name: str

    @property
    def message(self) -> str:
        """Return it as a sentence without its end."""
        kind, noun, _ = RESOURCES[self.code]
        who = self.principal or "the user of the token"
        thing = noun if kind is ResourceType.CLUSTER or not self.name else f"{noun} `{self.name}`"
        return f"{who} may not {spelled(self.operation)} {thing}"

    @property
    def hint(self) -> str:
        """Return the command that explains it."""
        kind, _, option = RESOURCES[self.code]
        words = ["kcli", "acls", "explain", "--principal", self.principal or "User:NAME"]
        words += ["--operation", spelled(self.operation), option]
        if kind is not ResourceType.CLUSTER:
            words.append(self.name or "NAME")
        return f"`{shlex.join(words)}` tells why"


def denial_of(
    error: KcliError,
    config: ClientConfig,
    exchanges: Iterable[tuple[Any, Any]],
    wanted: Sequence[Wanted] = (),
) -> Denial | None:
    """Return what was denied by the last request that failed as `error`; None for other errors.

    `exchanges` are requests with their responses. What is `wanted` wins: an earlier request may have asked
    for less.
    """
    code = getattr(error, "code", None)
    if code not in RESOURCES or error.hint:
        return None
    kind = RESOURCES[code][0]
    principal = config.security.principal if config.security is not None else str(ANONYMOUS)
    for each in wanted:
        if each.type is kind:
            return Denial(principal, each.operation, code, each.name)
    for request, response in reversed(list(exchanges)):
        denied = [names for found, names in _errors(response, ()) if found == code]
        if denied:
            name = next(iter((*denied[0], *_own_names(request))), "")
            return Denial(principal, _operation(message_info(type(request)).name, kind), code, name)
    return None


def _operation(api: str, kind: ResourceType) -> Operation:
    """Return what an API needs of a kind of resource."""
    from kcli.security.api_access import API_ACCESS

    for need in API_ACCESS.get(api, ()):
        for permission in (need.permission, *need.instead):
            if permission.type is kind:
                return permission.operation
    return Operation.DESCRIBE


def _errors(part: Any, around: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:  # noqa: ANN401  # any message
    """Yield the error codes in a response, each with the names beside it and around it, the nearest first."""
    names = (*_own_names(part), *around)
    code = getattr(part, "error_code", 0)
    if code:
        yield code, names
    for field in getattr(part, "__slots__", ()):
        value = getattr(part, field, None)
        for each in value if isinstance(value, list) else ():
            if hasattr(each, "__slots__"):
                yield from _errors(each, names)


def _own_names(part: Any) -> tuple[str, ...]:  # noqa: ANN401  # any message
    found = [getattr(part, field, None) for field in _NAMES]
    keys = getattr(part, "coordinator_keys", None) or ()
    return tuple(name for name in (*found, *keys) if isinstance(name, str) and name)
