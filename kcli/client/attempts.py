"""Attempts: the tries of one request, from the first to the one that is answered or the end of its time.

attempts = Attempts(client, node_id, seconds)
while True:
    try:
        connection = await attempts.connection()
        ...
    except (Disconnected, Unreachable) as error:
        attempts.failed(error)
    await attempts.wait()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.client.backoff import Backoff
from kcli.client.connection import Disconnected, RequestTimedOut
from kcli.client.routing import ANY, CONTROLLER

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.client.connection import Connection
    from kcli.client.node_link import NodeLink
    from kcli.client.routing import Target
    from kcli.errors import KcliError


class Attempts:
    """Where one request goes, how long it may take, and when its next try is due."""

    def __init__(self, client: Client, target: Target, seconds: float) -> None:
        now = trio.current_time()
        config = client.config
        self.deadline = now + seconds
        # Whoever cannot be reached at all is given up earlier than whoever answers slowly.
        self._unreachable_at = min(self.deadline, now + config.socket_connection_setup_timeout_ms / 1000)
        self._client = client
        self._target = target
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._last_error: KcliError | None = None
        self._was_connected = False

    async def connection(self) -> Connection:
        """Return an open connection to the target."""
        connection = await self._link().ready()
        self._was_connected = True
        return connection

    def request_seconds(self) -> float:
        """Return the timeout for one attempt."""
        remaining = self.deadline - trio.current_time()
        return min(self._client.config.request_timeout_ms / 1000, max(remaining, 0.001))

    def failed(self, error: KcliError) -> None:
        """Note an error; raise it if the time is up."""
        self._last_error = error
        self._client.request_metadata_update()
        now = trio.current_time()
        if now >= self.deadline or (not self._was_connected and now >= self._unreachable_at):
            raise error

    async def wait(self) -> None:
        """Sleep the backoff, and no longer than there is time."""
        delay = self._backoff.next_delay()
        await trio.sleep(min(delay, max(0.0, self.deadline - trio.current_time())))

    def timed_out(self) -> KcliError:
        """Return the error for a request that got no answer within its whole time."""
        if self._last_error is not None:
            return self._last_error
        return RequestTimedOut("the broker did not answer in time")

    def _link(self) -> NodeLink:
        target, links = self._target, self._client.links
        cluster = self._client.cluster
        if target is CONTROLLER:
            target = cluster.controller_id if cluster.controller_id in cluster.nodes else ANY
        if isinstance(target, int) and not cluster.nodes:
            raise Disconnected("no broker of the cluster is known at the moment")
        return links.get(target) if isinstance(target, int) else links.least_loaded()
