"""Meters: the running measurements of the requests to the nodes of a cluster.

    with cluster.meters.reading(node_id=1) as meter:
        ...
    meter.times[1].by_api

Only while a meter runs, a `TimingEngine` stands before the engines of the nodes. The times of a pending
request are part of its response. So nothing is kept of a request whose client leaves first, and a request
that was parked before the first meter started is not counted. A request that closes its connection is
counted; one that ends with a bug is only in the log.
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
from kcli.broker.network.responses import PendingResponse
from kcli.protocol.frames import parse_request_header
from kcli.protocol.schema.declaration import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine, RequestEngine
    from kcli.broker.network.responses import Frame, Response
    from kcli.broker.node.broker import Broker


UNKNOWN = "unknown"
"""The name of requests without a header or with an unknown API."""

_NAMES = {api.key: api.name for api in APIS}
_FETCH_KEY = next(api.key for api in APIS if api.name == FETCH)
_read_key = Struct(">h").unpack_from
_read_replica = Struct(">i").unpack_from
_REPLICA_IN_TAG_FROM = 15
_REPLICA_TAG = b"\x01\x0d"
"""The start of the only tag in a follower's fetch from version 15 on: replica and epoch, 13 bytes."""


class TimingEngine:
    """Measures the requests of one node for all `times`, and passes them to `engine`.

    `reader` decodes a request without handling it.
    """

    def __init__(self, engine: Engine, *, reader: RequestEngine, times: Sequence[RequestTimes]) -> None:
        self._engine = engine
        self._reader = reader
        self._times = times

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        name = self._name(context, buffer, start, end)
        began = current_time()
        try:
            response = self._engine.feed(context, buffer, start, end)
        except CloseConnection:
            now = current_time()
            self._count(name, began, now, answered=now)
            raise
        handled = current_time()
        if isinstance(response, PendingResponse):

            def count(frame: Frame) -> Frame:
                self._count(name, began, handled, answered=current_time())
                return frame

            def count_closed() -> None:
                self._count(name, began, handled, answered=current_time())

            return response.then(count, count_closed)
        self._count(name, began, handled, answered=handled)
        return response

    def _count(self, name: str, began: float, handled: float, *, answered: float) -> None:
        local_ns, total_ns = int((handled - began) * 1e9), int((answered - began) * 1e9)
        for times in self._times:
            if began >= times.since and not times.is_complete:
                times.add(name, local_ns=local_ns, total_ns=total_ns)

    def _name(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> str:
        """Return the name that a request counts under; the context may be that of an earlier request."""
        key = _read_key(buffer, start)[0] if end - start >= 2 else -1
        if key == _FETCH_KEY:
            return FETCH_FOLLOWER if self._is_follower(context, buffer, start, end) else FETCH_CONSUMER
        return _NAMES.get(key, UNKNOWN)

    def _is_follower(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> bool:
        """Return whether a fetch is that of a broker; a malformed one is not."""
        try:
            header, size = parse_request_header(buffer[start:end])
            if header.api_version < _REPLICA_IN_TAG_FROM:
                body = start + size
                return end - body >= 4 and _read_replica(buffer, body)[0] >= 0
            # Most fetches are those of consumers, which this shows without decoding them.
            if bytes(buffer[max(start, end - 15) : end - 13]) != _REPLICA_TAG:
                return False
            read = self._reader.read(context, buffer, start, end)
        except DecodeError:
            return False
        # From version 15 on the replica id is only there.
        request: Any = None if read is None else read[1]
        return request is not None and request.replica_state.replica_id >= 0


class Nodes(Protocol):
    """The nodes of a cluster."""

    @property
    def brokers(self) -> Sequence[Broker]: ...


class Meter:
    """One measurement: the times of one node, or of all. It goes on when a node restarts."""

    def __init__(self, node_id: int | None) -> None:
        self._node_id = node_id
        self.since = trio.current_time()
        self.times: dict[int, RequestTimes] = {}
        """By node."""

    def of(self, node_id: int) -> RequestTimes | None:
        """Return the times to add the requests to a node to, None if the node is not measured."""
        if self._node_id not in (None, node_id):
            return None
        return self.times.setdefault(node_id, RequestTimes(self.since))

    def complete(self) -> None:
        """End the measurement: requests that are still parked no longer count."""
        for times in self.times.values():
            times.is_complete = True


class Meters:
    """The running meters of one cluster."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._running: list[Meter] = []

    @property
    def running(self) -> int:
        """The number of running meters."""
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
            meter.complete()
            self._take_effect()

    def attend(self, broker: Broker) -> None:
        """Measure a node for the meters that are running."""
        found = [meter.of(broker.node_id) for meter in self._running]
        times = [each for each in found if each is not None]
        make = partial(TimingEngine, reader=broker.engine, times=times) if times else None
        broker.engine_layers.put(Layer.TIMES, make)

    def _take_effect(self) -> None:
        for broker in self._nodes.brokers:
            self.attend(broker)
