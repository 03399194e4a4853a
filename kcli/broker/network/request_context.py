"""RequestContext: what a handler knows besides the request itself.

A connection has at most one request in a handler, so it owns one context and fills it anew for each. A
handler may use it until its response is made, and must not keep it.
"""

from __future__ import annotations

from collections import Counter
from struct import Struct
from typing import TYPE_CHECKING

from kcli.broker.waiting.timer import monotonic_ms
from kcli.errors import KcliError
from kcli.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.network.apis import Api
    from kcli.broker.network.client_quotas import Allowance
    from kcli.broker.node_context import NodeContext
    from kcli.security.access import Access
    from kcli.security.acl import Operation, ResourceType
    from kcli.security.principal import Principal


EMPTY_HEADER = Struct(">ii2s")
"""API key and version, taken as one number; correlation id; the size of a client id without bytes."""


NONE_DENIED: frozenset[str] = frozenset()


class CloseConnection(KcliError):
    """The connection has to be closed; the message says why, for the log.

    The client gets no response, or the frame `last` before the end.
    """

    def __init__(self, message: str, last: bytes = b"") -> None:
        super().__init__(message)
        self.last = last


class RequestContext:
    """The header of the request, and who sent it on which listener.

    `client_id` is "" if the header has null. Responses hold the addresses of the listener `listener_name`.
    """

    __slots__ = (
        "access",
        "allowance",
        "api_key",
        "api_version",
        "apis",
        "client_id",
        "correlation_id",
        "header_size",
        "listener_name",
        "mute_until_ms",
        "node",
        "peer_address",
        "principal",
        "raw_client_id",
        "read_header",
        "security_protocol",
        "session_ends_ms",
    )

    def __init__(
        self, node: NodeContext, listener_name: str, peer_address: str, apis: tuple[Api, ...] = ()
    ) -> None:
        self.node = node
        self.apis = apis
        self.listener_name = listener_name
        self.peer_address = peer_address
        self.api_key = -1
        self.api_version = -1
        self.correlation_id = 0
        self.client_id = ""
        self.raw_client_id: bytes | None = None
        """The client id and its size as the last header had them: most requests of a connection agree."""
        self.header_size = EMPTY_HEADER.size
        self.read_header: Callable[[memoryview, int], tuple[int, int, bytes]] = EMPTY_HEADER.unpack_from
        """Reads a header with a client id as long as the last one."""
        self.principal = ANONYMOUS
        self.security_protocol = "PLAINTEXT"
        self.access: Access | None = None
        """What the principal may do; None without an authorizer."""
        self.session_ends_ms = 0
        """When the principal has to authenticate again, 0 for never."""
        self.allowance: Allowance | None = None
        """The quota for reading of the client, if it has one; set while a Fetch is handled."""
        self.mute_until_ms = 0
        """When the pause that a quota demands is over, on trio's clock."""

    def denied(
        self, operation: Operation, type: ResourceType, names: Iterable[str], *, hides: bool = False
    ) -> frozenset[str]:
        """Return those of some resources for which an operation is denied, and note the denials.

        With `hides` the denied ones are only left out of a response, which is not worth a note.
        """
        access = self.access
        if access is None:
            return NONE_DENIED
        asked = list(names)
        denied = frozenset(name for name in dict.fromkeys(asked) if not access.may(operation, type, name))
        noted = NONE_DENIED if hides else denied
        if noted or access.notes_allowances:
            for name, count in Counter(asked).items():
                if name in noted or (name not in denied and access.notes_allowances):
                    access.note(self.api_key, operation, type, name, count)
        return denied

    def is_plainly_allowed(self, operation: Operation, type: ResourceType, name: str) -> bool:
        """Return whether a short path may go on: the operation is allowed, and nothing has to be noted."""
        access = self.access
        return access is None or (access.may(operation, type, name) and not access.notes_allowances)

    @property
    def is_mute(self) -> bool:
        """Whether the connection pauses because of a quota."""
        return self.mute_until_ms > 0 and self.mute_until_ms > monotonic_ms()

    def admit(self, principal: Principal, *, ends_ms: int = 0) -> None:
        """Let the client act as `principal`, until `ends_ms` if that is not 0."""
        self.principal = principal
        self.session_ends_ms = ends_ms
        if self.node.authorizer is not None:
            self.access = self.node.authorizer.access_for(principal, self.peer_address)

    def mute(self, pause_ms: int, now_ms: int) -> None:
        """Make the connection pause: `QuotaEngine` holds back its next requests."""
        self.mute_until_ms = max(self.mute_until_ms, now_ms + pause_ms)
