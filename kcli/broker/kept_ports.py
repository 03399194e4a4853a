"""KeptPorts: the ports that the system chose for a node, kept for it while it is down.

A node that starts again has the port that clients know. Until then the system would give it to anybody who
wants any. A socket that is bound and does not listen is in the way of that, and of nothing else on Linux:
whoever connects is refused as where nothing is, and who asks for the port by its number may listen there.
"""

from __future__ import annotations

import socket
import sys


class KeptPorts:
    """What keeps the ports of one node."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def keep(self, bound: socket.socket) -> None:
        """Keep the port of a socket that does not listen yet. Raises `OSError`."""
        if sys.platform != "linux":
            return  # Elsewhere two sockets cannot be bound to one port.
        keeper = socket.socket(bound.family, bound.type)
        self._sockets.append(keeper)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            only = bound.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            keeper.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        keeper.bind(bound.getsockname())

    def close(self) -> None:
        """Keep nothing any more."""
        for keeper in self._sockets:
            keeper.close()
        self._sockets.clear()
