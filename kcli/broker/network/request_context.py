"""RequestContext: what a handler knows besides the request itself.

A connection has at most one unfinished request, so it owns one context and fills it anew for each. A
handler may use it until its answer is made, and must not keep it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.waiting.timer import monotonic_ms
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.broker.network.apis import Api
    from kcli.broker.network.client_quotas import Allowance
    from kcli.broker.node_context import NodeContext


SHOWN_CHARACTERS = 300


class CloseConnection(KcliError):
    """The only answer is to close the connection; the message says why, for the log."""

    @property
    def shown(self) -> str:
        """The message as it goes into the log: what a client sent must not look like lines of it."""
        text = self.message.encode("unicode_escape").decode()
        return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


class RequestContext:
    """The request's header and where it came from.

    `client_id` is "" when the header has null. `listener_name` is the listener that the connection came in
    on: answers that hold addresses give those of this listener.
    """

    __slots__ = (
        "allowance",
        "api_key",
        "api_version",
        "apis",
        "client_id",
        "correlation_id",
        "listener_name",
        "mute_until_ms",
        "node",
        "peer_address",
        "told_no_coordinator",
    )

    def __init__(
        self, node: NodeContext, listener_name: str, peer_address: str, apis: tuple[Api, ...] = ()
    ) -> None:
        self.node = node
        self.apis = apis
        self.listener_name = listener_name
        self.peer_address = peer_address
        self.told_no_coordinator = False
        """Whether this connection's wish for a coordinator is in the log."""
        self.api_key = -1
        self.api_version = -1
        self.correlation_id = 0
        self.client_id = ""
        self.allowance: Allowance | None = None
        """What the client may read, if that is limited; set while a Fetch is fed."""
        self.mute_until_ms = 0
        """On trio's clock, when the connection has paused enough for what its client wrote or read."""

    @property
    def is_mute(self) -> bool:
        """Whether the connection pauses because of a quota."""
        return self.mute_until_ms > 0 and self.mute_until_ms > monotonic_ms()

    def mute(self, pause_ms: int, now_ms: int) -> None:
        """Have what comes next wait, as `QuotaEngine` does."""
        self.mute_until_ms = max(self.mute_until_ms, now_ms + pause_ms)
