"""Ports of the loopback interface for the servers that tests start: no two test processes name the same one.

A server binds its port long after it was chosen, and lets go of it while it is down; nobody else may choose
it meanwhile. So each process takes blocks of ports, by binding a name in the kernel's abstract namespace: it
is known wherever the ports are, and goes with the process. Of its blocks it gives out each port once.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from random import SystemRandom

# Below the ports that systems give to connections: one of those may take a port while its server starts anew.
_PORTS = range(10_000, 32_000)
_BLOCK = 100


class PortBlocks:
    """The ports of one process."""

    def __init__(self) -> None:
        self._names: list[int] = []
        self._free = range(0)

    def take(self, count: int) -> list[int]:
        """Ports, one after another, that nothing listens on now and that nobody else is given."""
        assert count <= _BLOCK
        while True:
            if len(self._free) < count:
                self._free = self._next_block()
            ports, self._free = self._free[:count], self._free[count:]
            if _are_unbound(ports):
                return list(ports)

    def _next_block(self) -> range:
        blocks = [range(first, first + _BLOCK) for first in _PORTS[::_BLOCK]]
        SystemRandom().shuffle(blocks)
        for block in blocks:
            name = socket.socket(socket.AF_UNIX)
            try:
                name.bind(f"\0kcli-tests-ports-{block.start}")
            except OSError:
                name.close()
                continue
            self._names.append(name.detach())
            return block
        raise AssertionError("all ports are taken by tests")

    def close(self) -> None:
        """Leave the blocks to others."""
        while self._names:
            os.close(self._names.pop())
        self._free = range(0)


def _are_unbound(ports: range) -> bool:
    with ExitStack() as probes:
        try:
            for port in ports:
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_blocks = PortBlocks()


def free_port() -> int:
    """A port of the loopback interface for this caller alone."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface, one after another, for this caller alone."""
    return _blocks.take(count)
