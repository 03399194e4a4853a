"""A cluster in virtual time: real nodes, logs, controller and links; no sockets, no threads.

Work of worker threads runs at once, so that the clock cannot jump meanwhile. Requests go into a node's engine
as frames. A dead node refuses them, a paused one does not answer, and the death of a node loses its
unanswered requests.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.network.apis import APIS
from kcli.broker.network.request_context import CloseConnection, RequestContext
from kcli.broker.network.responses import frame_of
from kcli.broker.node_context import NodeState
from kcli.broker.process.cluster import Cluster, ClusterOptions
from kcli.protocol.frames import RequestHeader, decode_response, encode_request
from kcli.protocol.schema.declaration import message_info

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from kcli.broker.controller.controller import Controller
    from kcli.broker.node.broker import Broker

_REACHABLE = (NodeState.RUNNING, NodeState.PAUSED, NodeState.STOPPING)
START_MS = 1_700_000_000_000
CORRELATION_ID = 7


class Lost(Exception):
    """A request without a response: its node was down, died, or took too long."""


@contextmanager
def no_threads() -> Iterator[None]:
    """Run the work of worker threads in the event loop."""

    async def run_sync(call: Callable[..., Any], *arguments: object, **_: object) -> Any:
        await trio.lowlevel.checkpoint()
        return call(*arguments)

    original = trio.to_thread.run_sync
    trio.to_thread.run_sync = run_sync  # type: ignore[assignment]
    try:
        yield
    finally:
        trio.to_thread.run_sync = original


class SimulatedCluster:
    """One process of the cluster, and the requests under way to its nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._under_way: dict[trio.CancelScope, Broker] = {}

    def node(self, node_id: int) -> Broker | None:
        """Return a running node."""
        node = self.cluster.nodes[node_id]
        return node.broker if node.state in _REACHABLE else None

    @property
    def controller(self) -> Controller:
        """The controller. Raises `KafkaError` without one."""
        return self.cluster.controller

    def reset_connections(self) -> None:
        """Lose the requests to nodes that run no longer."""
        for scope, broker in self._under_way.items():
            if self.node(broker.node_id) is not broker:
                scope.cancel()

    async def ask(self, node_id: int, request: object, version: int, *, seconds: float) -> Any:
        """Return a node's response. Raises `Lost`."""
        broker = self.node(node_id)
        if broker is None:
            raise Lost(f"node {node_id} is not there")
        with trio.move_on_after(seconds) as scope:
            self._under_way[scope] = broker
            try:
                return await _exchange(broker, request, version)
            except (CloseConnection, trio.ClosedResourceError) as error:
                raise Lost(f"node {node_id} closed the connection") from error
            finally:
                del self._under_way[scope]
        raise Lost(f"node {node_id} has not answered")


async def _exchange(broker: Broker, request: object, version: int) -> Any:
    info = message_info(type(request))
    await broker.until_awake()
    context = RequestContext(broker, broker.endpoints[0].name, "client", APIS)
    frame = bytearray(encode_request(RequestHeader(info.key, version, CORRELATION_ID, "client"), request))
    engine = broker._server._engine  # With the fault layers in front of it.
    parts = await frame_of(engine.feed(context, memoryview(frame), 4, len(frame)), broker.purgatory)
    if not parts:
        raise CloseConnection("no answer")
    answer = b"".join(
        part if isinstance(part, bytes | memoryview | bytearray) else part.read() for part in parts
    )
    if broker.is_paused:
        await broker.until_awake()
    return decode_response(info.key, version, memoryview(answer)[4:])[1]


@asynccontextmanager
async def simulated_cluster(
    data_dir: Path, *, nodes: int, properties: dict[str, str], kill: Callable[[], bool]
) -> AsyncIterator[SimulatedCluster]:
    """Run a process on `data_dir`; at the end kill it if `kill` is true, else stop it in order."""
    options = ClusterOptions(data_dir=data_dir, nodes=nodes, host="127.0.0.1", port=0, properties=properties)
    cluster = Cluster(options, wall_ms=lambda: START_MS + int(trio.current_time() * 1000))
    with no_threads():
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            yield SimulatedCluster(cluster)
            if kill():
                nursery.cancel_scope.cancel()
            else:
                cluster.stop()
                await cluster.stopped.wait()
