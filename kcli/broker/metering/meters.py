"""Meters: who measures the requests to the nodes of a cluster, each for a time of its own.

    with cluster.meters.reading(node_id=1) as meter:
        ...
    meter.times[1].by_api

Only meanwhile a `TimingEngine` stands before the nodes' engines: nobody who does not ask pays for it.

TimingEngine: stands before a node's engine while somebody measures its requests.

A request that waits carries its times along: an operation in a slot of its own, what is awaited in the
coroutine around it. So nothing is kept here of requests whose client leaves before the answer, and those that
began to wait before anybody measured are let through uncounted. One that closes its connection is counted;
what a bug ends is only in the log.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

import trio
from trio import current_time

from kcli.broker.metering.request_times import FETCH, FETCH_CONSUMER, FETCH_FOLLOWER, RequestTimes
from kcli.broker.network.apis import APIS
from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.request_engine import Layer
from kcli.broker.network.responses import then
from kcli.protocol.frames import parse_request_header
from kcli.protocol.schema.declaration import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine, RequestEngine
    from kcli.broker.network.responses import Frame, Response
    from kcli.broker.node.broker import Broker


UNKNOWN = "unknown"
"""What has no header, or is of an API that there is not."""

_NAMES = {api.key: api.name for api in APIS}
_FETCH_KEY = next(api.key for api in APIS if api.name == FETCH)
_read_key = Struct(">h").unpack_from
_read_replica = Struct(">i").unpack_from
_REPLICA_IN_TAG_FROM = 15
_REPLICA_TAG = b"\x01\x0d"
"""How the only tag of a follower's fetch begins, from version 15 on: replica and epoch, 13 bytes."""


class TimingEngine:
    """What connections of one node feed while its requests are measured, each for all `times`.

    `reader` tells what is in a request.
    """

    def __init__(self, engine: Engine, *, reader: RequestEngine, times: Sequence[RequestTimes]) -> None:
        self._engine = engine
        self._reader = reader
        self._times = times

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        """Handle the request in `buffer[start:end]`. Raises `CloseConnection`."""
        name = self._name(context, buffer, start, end)
        began = current_time()
        try:
            response = self._engine.feed(context, buffer, start, end)
        except CloseConnection:
            self._count(name, began, current_time())
            raise
        handled = current_time()

        def count(frame: Frame) -> Frame:
            self._count(name, began, handled)
            return frame

        return then(response, count, partial(self._count, name, began, handled))

    def _count(self, name: str, began: float, handled: float) -> None:
        answered = current_time()
        local_ns, total_ns = int((handled - began) * 1e9), int((answered - began) * 1e9)
        for times in self._times:
            if began >= times.since:
                times.add(name, local_ns=local_ns, total_ns=total_ns)

    # --- which API -----------------------------------------------------------------------------------

    def _name(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> str:
        """Return what a request counts as. The context tells only of those that could be read."""
        key = _read_key(buffer, start)[0] if end - start >= 2 else -1
        if key == _FETCH_KEY:
            return FETCH_FOLLOWER if self._is_follower(context, buffer, start, end) else FETCH_CONSUMER
        return _NAMES.get(key, UNKNOWN)

    def _is_follower(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> bool:
        """Return whether a fetch is that of a broker; one that cannot be read is not."""
        try:
            header, size = parse_request_header(buffer[start:end])
            if header.api_version < _REPLICA_IN_TAG_FROM:
                body = start + size
                return end - body >= 4 and _read_replica(buffer, body)[0] >= 0
            # Most are those of consumers, and show it without being decoded.
            if bytes(buffer[max(start, end - 15) : end - 13]) != _REPLICA_TAG:
                return False
            read = self._reader.read(context, buffer, start, end)
        except DecodeError:
            return False
        # Version 15 and above have it there only.
        request: Any = None if read is None else read[1]
        return request is not None and request.replica_state.replica_id >= 0


class Nodes(Protocol):
    """The nodes whose requests are measured."""

    @property
    def brokers(self) -> Sequence[Broker]: ...


class Meter:
    """What one who measures has read: the times of one node, or of all. A node that starts again goes on."""

    def __init__(self, node_id: int | None) -> None:
        self._node_id = node_id
        self.since = trio.current_time()
        self.times: dict[int, RequestTimes] = {}
        """By node."""

    def of(self, node_id: int) -> RequestTimes | None:
        """Return what the requests to a node are added to; None if nobody wants to know."""
        if self._node_id not in (None, node_id):
            return None
        return self.times.setdefault(node_id, RequestTimes(self.since))


class Meters:
    """The meters of one cluster that are running."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._running: list[Meter] = []

    @property
    def running(self) -> int:
        """How many measure at this moment."""
        return len(self._running)

    @contextmanager
    def reading(self, node_id: int | None = None) -> Iterator[Meter]:
        """Measure the requests to a node, or to all, until the end of the block."""
        meter = Meter(node_id)
        self._running.append(meter)
        self._take_effect()
        try:
            yield meter
        finally:
            self._running.remove(meter)
            self._take_effect()

    def attend(self, broker: Broker) -> None:
        """Measure a node that was just made, if anybody wants it."""
        found = [meter.of(broker.node_id) for meter in self._running]
        times = [each for each in found if each is not None]
        make = partial(TimingEngine, reader=broker.engine, times=times) if times else None
        broker.engine_layers.put(Layer.TIMES, make)

    def _take_effect(self) -> None:
        for broker in self._nodes.brokers:
            self.attend(broker)
