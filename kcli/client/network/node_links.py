"""NodeLinks: the connections of a client, one NodeLink for every (node, purpose), made on first use.

A purpose has its own link because a broker answers the requests of a connection in order: a long fetch must
not delay other requests. Links follow the metadata: a broker that moved or left loses its links. Bootstrap
addresses are nodes with negative ids; the first metadata says which brokers they are, and those brokers take
over their links.
"""

from __future__ import annotations

import math
import random
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

import trio

from kcli.client.network.backoff import Backoff
from kcli.client.network.bootstrap import (
    AuthenticationFailed,
    NotKafka,
    UnknownHost,
    no_answer,
    no_broker_answers,
)
from kcli.client.network.connection import Connection, Disconnected
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.client.config import ClientConfig
    from kcli.client.network.bootstrap import OpenStream
    from kcli.client.network.connection_failures import FirstFailure
    from kcli.client.network.metadata import MetadataCache, Node


class LinkState(Enum):
    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    READY = "ready"


class NodeLink:
    """The connection to a node for one purpose, made again whenever it is needed.

    | state        | event                       | next                                                  |
    |--------------|-----------------------------|-------------------------------------------------------|
    | DISCONNECTED | `start` after the backoff   | CONNECTING: open the stream, negotiate versions       |
    | CONNECTING   | negotiated                  | READY: the backoff is reset                           |
    | CONNECTING   | refused, silent, not Kafka  | DISCONNECTED: `last_error`, the backoff doubles       |
    | READY        | closed by either side       | DISCONNECTED: one backoff                             |
    | any          | `close`                     | DISCONNECTED for good                                 |
    """

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
        self._was_ready = False
        self._was_looked_at = False

    @property
    def is_ready(self) -> bool:
        return self.connection is not None and not self.connection.is_closed

    @property
    def is_failing(self) -> bool:
        return self.state is LinkState.DISCONNECTED and self.last_error is not None

    def start(self) -> None:
        """Start to connect if disconnected and not backing off."""
        now = trio.current_time()
        if self.state is LinkState.DISCONNECTED and not self._is_closed and now >= self.retry_at:
            self.state = LinkState.CONNECTING
            self.last_attempt = now
            self._scope = trio.CancelScope()
            self._nursery.start_soon(self._run)

    async def ready(self) -> Connection:
        """Return the open connection; try once at most, after the backoff, and raise the error."""
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
        """Close for good; requests in flight fail."""
        self._is_closed = True
        if self.connection is not None:
            self.connection.close()
        self._scope.cancel()

    async def _run(self) -> None:
        # The time for connecting and negotiating doubles with each failure.
        first = self._config.socket_connection_setup_timeout_ms
        longest = max(first, self._config.socket_connection_setup_timeout_max_ms)
        setup_seconds = min(first << min(self._setup_failures, 16), longest) / 1000
        setup = trio.CancelScope(deadline=trio.current_time() + setup_seconds)
        try:
            with self._scope, setup:
                await self._connect(setup)
            if setup.cancelled_caught:
                self._failed(no_answer(self.node.address, setup_seconds))
        except KcliError as error:
            self._failed(error)
        finally:
            self.connection = None
            self._become(LinkState.DISCONNECTED)
        if not self._is_closed:
            self._on_lost()

    async def _connect(self, setup: trio.CancelScope) -> None:
        """Connect, and carry requests until the connection closes; raise `KcliError` if it never is ready."""
        stream = await self._open_stream(self.node, self._config)
        is_first = not self._setup_failures and not self._was_ready
        try:
            security = self._config.security
            if security is not None and security.is_tls:
                from kcli.client.network.secure_stream import secured

                stream = await secured(stream, self.node, security.tls_context())
            connection = Connection(
                stream, self.node.address, self._config, explain_loss=self._explained_loss
            )
            await connection.run(lambda: self._became_ready(connection, setup))
        except KcliError as error:
            if not is_first:
                raise
            setup.deadline = math.inf
            explained = await self._first_failure().explained(error)
            if explained is error:
                raise
            raise explained from error

    async def _explained_loss(self, error: KcliError) -> KcliError:
        """Return the error of a broker that answered nothing but ApiVersions; it is looked at once."""
        if self._was_looked_at:
            return error
        self._was_looked_at = True
        return await self._first_failure().explained_loss(error)

    def _first_failure(self) -> FirstFailure:
        # Imported here: most connections succeed.
        from kcli.client.network.connection_failures import FirstFailure

        return FirstFailure(self.node, self._config, self._open_stream)

    def _became_ready(self, connection: Connection, setup: trio.CancelScope) -> None:
        setup.deadline = math.inf
        self.connection = connection
        self.last_error = None
        self._was_ready = True
        self._setup_failures = 0
        self._backoff.reset()
        # If it is lost, one backoff passes before the next try.
        self.retry_at = trio.current_time() + self._backoff.next_delay()
        self._become(LinkState.READY)

    def _failed(self, error: KcliError) -> None:
        self.last_error = error
        self._setup_failures += 1
        self.retry_at = trio.current_time() + self._backoff.next_delay()

    def _become(self, state: LinkState) -> None:
        self.state = state
        self._changed.set()
        self._changed = trio.Event()


REFUSED_SECONDS = 2.0
"""How long `reach_bootstrap` retries addresses that refuse: a broker may be starting."""

STAGGER_SECONDS = 0.25
"""The head start that one bootstrap address has over the next."""


class NodeLinks:
    """The links to the brokers in `cache`, or to the bootstrap addresses while it has none."""

    def __init__(
        self,
        bootstrap: list[Node],
        cache: MetadataCache,
        *,
        config: ClientConfig,
        nursery: trio.Nursery,
        open_stream: OpenStream,
        on_lost: Callable[[], None],
    ) -> None:
        self._bootstrap = bootstrap
        self._cache = cache
        self._new_link = partial(
            NodeLink, config=config, nursery=nursery, open_stream=open_stream, on_lost=on_lost
        )
        self._links: dict[tuple[int, str], NodeLink] = {}
        self._random = random.Random()

    def get(self, node_id: int, purpose: str = "") -> NodeLink:
        """Return the link to a known broker for one purpose; raise `KafkaError` 8 for an unknown broker."""
        node = self._cache.cluster.nodes.get(node_id)
        if node is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not in the cluster")
        return self._link(node, purpose)

    def drop(self, node_id: int, purpose: str) -> None:
        """Close a link for good, if there is one; its requests in flight fail."""
        link = self._links.pop((node_id, purpose), None)
        if link is not None:
            link.close()

    def least_loaded(self) -> NodeLink:
        """Return the link for requests that any broker answers.

        Starting at a random node: a ready link with nothing in flight, else the ready one with least; else
        one that is connecting; else the one tried longest ago, those not backing off first.
        """
        nodes = list(self._cache.cluster.nodes.values()) or self._bootstrap
        start = self._random.randrange(len(nodes))
        links = [self._link(node) for node in nodes[start:] + nodes[:start]]
        ready = [link for link in links if link.is_ready]
        if ready:
            return min(ready, key=lambda link: link.connection.load if link.connection else 0)
        connecting = [link for link in links if link.state is LinkState.CONNECTING]
        if connecting:
            return connecting[0]
        now = trio.current_time()
        return min(links, key=lambda link: (max(0.0, link.retry_at - now), link.last_attempt))

    def finalized_level(self, feature: str) -> int:
        """Return the finalized level of a feature, as the connected broker with the newest features says it.

        0 if it is not finalized, or no connected broker tells. A connection keeps what it was told at first.
        """
        told = [
            link.connection.versions
            for link in self._links.values()
            if link.connection is not None and not link.connection.is_closed
        ]
        if not told:
            return 0
        newest = max(told, key=lambda versions: versions.finalized_features_epoch)
        return {name: highest for name, _, highest in newest.finalized_features}.get(feature, 0)

    @property
    def all_failing(self) -> bool:
        """Whether there are brokers, and the last try to reach each of them failed."""
        nodes = self._cache.cluster.nodes.values()
        return bool(nodes) and all(self._link(node).is_failing for node in nodes)

    def replace_moved(self) -> None:
        """Drop links to brokers that moved or left; bootstrap links become those of their brokers."""
        nodes = self._cache.cluster.nodes
        if not nodes:
            return
        by_address = {node.address: node for node in nodes.values()}
        for (node_id, purpose), link in list(self._links.items()):
            node = nodes.get(node_id)
            if node is not None and node.address == link.node.address:
                continue
            del self._links[node_id, purpose]
            owner = by_address.get(link.node.address) if node_id < 0 and link.is_ready else None
            if owner is not None and (owner.node_id, purpose) not in self._links:
                link.node = owner
                self._links[owner.node_id, purpose] = link
            else:
                link.close()

    async def reach_bootstrap(self, seconds: float) -> None:
        """Try the bootstrap addresses, staggered, until one is ready; raise `KcliError` if none is."""
        give_up_at = trio.current_time() + REFUSED_SECONDS
        errors: dict[int, KcliError] = {}
        reached = False

        async def attempt(index: int, node: Node, scope: trio.CancelScope) -> None:
            nonlocal reached
            await trio.sleep(index * STAGGER_SECONDS)
            link = self._link(node)
            while True:
                try:
                    await link.ready()
                except KcliError as error:
                    errors[node.node_id] = error
                    hopeless = isinstance(error, (AuthenticationFailed, UnknownHost, NotKafka))
                    if hopeless or link.retry_at >= give_up_at:
                        return
                else:
                    # It may be lost again by now: the next request connects anew.
                    reached = True
                    scope.cancel()
                    return

        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for index, node in enumerate(self._bootstrap):
                    nursery.start_soon(attempt, index, node, nursery.cancel_scope)
        if not reached:
            # An address that refused keeps its own error.
            silent = {node.node_id: no_answer(node.address, seconds) for node in self._bootstrap}
            raise no_broker_answers(self._bootstrap, silent | errors)

    def _link(self, node: Node, purpose: str = "") -> NodeLink:
        link = self._links.get((node.node_id, purpose))
        if link is None:
            link = self._links[node.node_id, purpose] = self._new_link(node)
        return link
