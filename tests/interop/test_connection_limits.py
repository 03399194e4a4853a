"""How many connections a broker has, from one address and in all, and how long it keeps idle ones."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.records import fetch_request
from tests.support.producing import create_topic
from tests.support.raw_client import RawClient, request_frame
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop


def is_served(client: RawClient) -> bool:
    """Whether the broker answers, rather than having closed the connection."""
    try:
        client.send(request_frame(ApiVersionsRequest(), 0))
        return client.receive_frame() is not None
    except (BrokenPipeError, ConnectionResetError):
        return False


def test_an_address_has_so_many_connections(new_kcli_broker: Callable[..., KcliBroker]) -> None:
    broker = new_kcli_broker({"max.connections.per.ip": "5"}).start()
    clients = [RawClient(broker.bootstrap) for _ in range(5)]
    assert all(map(is_served, clients))
    for _ in range(3):
        with RawClient(broker.bootstrap) as sixth:
            assert not is_served(sixth)
    clients.pop().close()

    def another_is_served() -> bool:
        with RawClient(broker.bootstrap) as again:
            return is_served(again)

    eventually(another_is_served, "the place of a closed connection is free")
    assert all(map(is_served, clients))
    for client in clients:
        client.close()


def test_a_broker_has_so_many_connections(new_kcli_broker: Callable[..., KcliBroker]) -> None:
    """One more closes the one used least recently."""
    broker = new_kcli_broker({"max.connections": "5"}).start()
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.bootstrap)) for _ in range(5)]
        assert all(map(is_served, clients))
        newest = stack.enter_context(RawClient(broker.bootstrap))
        assert is_served(newest)
        assert sum(map(is_served, clients)) == 4


def test_idle_connections_are_closed(new_kcli_broker: Callable[..., KcliBroker]) -> None:
    """Neither too early nor too late; one that waits for records is not idle."""
    broker = new_kcli_broker({"connections.max.idle.ms": "2000"}).start()
    create_topic(broker.bootstrap, "silent")
    with ExitStack() as stack:
        waiting = stack.enter_context(RawClient(broker.bootstrap, timeout=60))
        waiting.send(request_frame(fetch_request("silent", max_wait_ms=11_000), 11))
        started = time.monotonic()
        client = stack.enter_context(RawClient(broker.bootstrap))
        assert is_served(client)
        assert client.is_closed()
        assert time.monotonic() - started > 1.9
        assert waiting.receive_frame() is not None
