"""Ports for the servers that tests start: nobody is given a port that is somebody else's."""

from __future__ import annotations

import socket
from contextlib import closing

from tests.support.ports import PortBlocks


def test_no_port_is_given_out_twice() -> None:
    with closing(PortBlocks()) as one, closing(PortBlocks()) as other:
        given = [port for blocks in (one, other) for _ in range(5) for port in blocks.take(30)]
    assert len(set(given)) == len(given) == 300


def test_ports_that_are_asked_for_together_follow_one_another() -> None:
    with closing(PortBlocks()) as blocks:
        first, *rest = blocks.take(7)
    assert rest == list(range(first + 1, first + 7))


def test_what_somebody_listens_on_is_passed_over() -> None:
    with closing(PortBlocks()) as blocks, socket.socket() as server:
        (port,) = blocks.take(1)
        server.bind(("127.0.0.1", port + 2))
        assert port + 2 not in blocks.take(3)
