"""SocketServer: addresses to listen on, and accepts that fail."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.network.socket_server import open_listening_sockets
from kcli.errors import KcliError
from kcli.protocol.messages.metadata import MetadataRequest
from tests.broker.single_node import LISTENER, connected, running_node

if TYPE_CHECKING:
    from pathlib import Path


def closed(sockets: list[socket.socket]) -> list[tuple[str, int]]:
    addresses = [sock.getsockname()[:2] for sock in sockets]
    for sock in sockets:
        sock.close()
    return addresses


def test_a_name_may_stand_for_several_addresses_on_one_port() -> None:
    addresses = closed(open_listening_sockets("localhost", 0))
    assert {host for host, _ in addresses} <= {"127.0.0.1", "::1"}
    assert len({port for _, port in addresses}) == 1


def test_an_empty_host_is_every_address() -> None:
    (listening,) = open_listening_sockets("", 0)
    with listening, socket.create_connection(("127.0.0.1", listening.getsockname()[1])):
        pass


def test_a_port_that_is_taken_is_an_error_with_a_hint() -> None:
    (listening,) = open_listening_sockets("127.0.0.1", 0)
    with listening:
        port = listening.getsockname()[1]
        with pytest.raises(KcliError, match=rf"cannot listen on 127\.0\.0\.1:{port}") as caught:
            open_listening_sockets("127.0.0.1", port)
        assert caught.value.hint is not None


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(KcliError, match="cannot listen on"):
        open_listening_sockets("192.0.2.1", 0)


class FailingSocket:
    """A listening socket of which some accepts fail."""

    def __init__(self, listening: socket.socket, failures: list[OSError]) -> None:
        self._listening = listening
        self._failures = failures

    def accept(self) -> Any:
        # Only where there is a connection to accept, as the real call does.
        accepted = self._listening.accept()
        if self._failures:
            accepted[0].close()
            raise self._failures.pop(0)
        return accepted

    def fileno(self) -> int:
        return self._listening.fileno()

    def close(self) -> None:
        self._listening.close()


async def test_a_failing_accept_does_not_end_the_listener(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_node(tmp_path) as node, trio.open_nursery() as nursery:
        (listening,) = open_listening_sockets("127.0.0.1", 0)
        node.port = listening.getsockname()[1]
        failures = [OSError(errno.ECONNABORTED, "gone"), OSError(errno.EMFILE, "too many open files")]
        failing = FailingSocket(listening, failures)
        await nursery.start(node.server.serve, LISTENER, failing)
        for _ in range(2):
            async with connected(node) as client:
                assert await client.is_closed()
        async with connected(node) as client:
            assert (await client.ask(MetadataRequest(topics=None), 1)).topics == []
        assert failures == []
        nursery.cancel_scope.cancel()
    assert caplog.text.count("no connections are accepted until others end") == 1


async def test_a_connection_that_breaks_at_once_is_nobody_elses_trouble(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        for number in range(100):
            sock = socket.create_connection(("127.0.0.1", node.port))
            if number % 3 == 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            sock.close()
        async with connected(node) as client:
            assert (await client.ask(MetadataRequest(topics=None), 1)).topics == []
        with trio.fail_after(30):
            while node.server.connections:
                await trio.lowlevel.checkpoint()
