"""A node as the client sees it over time: disconnected, connecting or ready, with backoff between attempts.

| state        | event                       | next                                                      |
|--------------|-----------------------------|-----------------------------------------------------------|
| DISCONNECTED | `start` after the backoff   | CONNECTING: open the stream, negotiate versions           |
| CONNECTING   | negotiated                  | READY: the backoff is reset                               |
| CONNECTING   | refused, silent, not Kafka  | DISCONNECTED: `last_error`, the backoff doubles           |
| READY        | closed by either side       | DISCONNECTED: one backoff                                 |
| any          | `close`                     | DISCONNECTED for good                                     |

There is one link per (node, purpose): a long-polling fetch must not delay other requests to the same node,
because a broker answers one request of a connection at a time.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING

import trio

from kcli.client.backoff import Backoff
from kcli.client.bootstrap import no_answer
from kcli.client.connection import Connection, Disconnected
from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.client.bootstrap import OpenStream
    from kcli.client.config import ClientConfig
    from kcli.client.metadata import Node


class LinkState(Enum):
    """Where a link is in its table of states."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    READY = "ready"


class NodeLink:
    """The one connection to a node for one purpose, made again whenever it is needed."""

    def __init__(
        self,
        node: Node,
        config: ClientConfig,
        *,
        nursery: trio.Nursery,
        open_stream: OpenStream,
        on_lost: Callable[[], None],
    ) -> None:
        self.node = node
        self.state = LinkState.DISCONNECTED
        self.connection: Connection | None = None
        self.last_error: KcliError | None = None
        self.last_attempt = float("-inf")
        self.retry_at = float("-inf")
        self._config = config
        self._nursery = nursery
        self._open_stream = open_stream
        self._on_lost = on_lost
        self._backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        self._setup_failures = 0
        self._changed = trio.Event()
        self._scope = trio.CancelScope()
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """Return whether requests can be sent now."""
        return self.connection is not None and not self.connection.is_closed

    @property
    def is_failing(self) -> bool:
        """Return whether the last attempt failed and none is under way."""
        return self.state is LinkState.DISCONNECTED and self.last_error is not None

    def start(self) -> None:
        """Begin to connect if disconnected and not backing off."""
        now = trio.current_time()
        if self.state is LinkState.DISCONNECTED and not self._is_closed and now >= self.retry_at:
            self.state = LinkState.CONNECTING
            self.last_attempt = now
            self._scope = trio.CancelScope()
            self._nursery.start_soon(self._run)

    async def ready(self) -> Connection:
        """Return the open connection, connecting if need be; raise why the attempt failed.

        One attempt at most: a caller that wants more calls again, and then waits for the backoff.
        """
        if self.connection is not None and not self.connection.is_closed:
            return self.connection
        while self.state is LinkState.READY:
            await self._changed.wait()
        if self.state is LinkState.DISCONNECTED:
            await trio.sleep_until(self.retry_at)
            if self._is_closed:
                raise Disconnected(f"the connection to {self.node.address} was closed")
            self.start()
        while self.state is LinkState.CONNECTING:
            await self._changed.wait()
        if self.connection is not None:
            return self.connection
        raise self.last_error or Disconnected(f"the connection to {self.node.address} was lost")

    def close(self) -> None:
        """Close for good; what is in flight fails."""
        self._is_closed = True
        if self.connection is not None:
            self.connection.close()
        self._scope.cancel()

    async def _run(self) -> None:
        setup_seconds = self._setup_seconds()
        setup = trio.CancelScope(deadline=trio.current_time() + setup_seconds)
        try:
            with self._scope, setup:
                stream = await self._open_stream(self.node, self._config)
                connection = Connection(stream, self.node.address, self._config)
                await connection.run(lambda: self._became_ready(connection, setup))
            if setup.cancelled_caught:
                self._failed(no_answer(self.node.address, setup_seconds))
        except KcliError as error:
            self._failed(error)
        finally:
            self.connection = None
            self._become(LinkState.DISCONNECTED)
        if not self._is_closed:
            self._on_lost()

    def _became_ready(self, connection: Connection, setup: trio.CancelScope) -> None:
        setup.deadline = math.inf
        self.connection = connection
        self.last_error = None
        self._setup_failures = 0
        self._backoff.reset()
        # Should it be lost, one backoff passes before the next attempt.
        self.retry_at = trio.current_time() + self._backoff.next_delay()
        self._become(LinkState.READY)

    def _setup_seconds(self) -> float:
        """Return the limit for connecting and negotiating: doubles with each failure, up to a maximum."""
        first, longest = (
            self._config.socket_connection_setup_timeout_ms,
            self._config.socket_connection_setup_timeout_max_ms,
        )
        return min(first << min(self._setup_failures, 16), max(first, longest)) / 1000

    def _failed(self, error: KcliError) -> None:
        self.last_error = error
        self._setup_failures += 1
        self.retry_at = trio.current_time() + self._backoff.next_delay()

    def _become(self, state: LinkState) -> None:
        self.state = state
        self._changed.set()
        self._changed = trio.Event()
