"""Many connections to a broker, and who is connected to one, from Linux's tables."""

from __future__ import annotations

import os
import resource
import socket
import struct
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.raw_client import request_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = Path("/proc/net/tcp")
SPARE_FILES = 500


@contextmanager
def many_files() -> Iterator[int]:
    """As many open files as this process may have; how many connections that allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield hard - SPARE_FILES
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def open_connections(bootstrap: str, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that the broker has accepted: each has had an answer."""
    host, _, port = bootstrap.rpartition(":")
    frame = request_frame(ApiVersionsRequest(), 0)
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            connection.sendall(frame)
            (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            assert len(connection.recv(size, socket.MSG_WAITALL)) == size
            connections.append(connection)
        yield connections


def unread_bytes(port: int) -> int:
    """How much waits to be read in the sockets of a server on the loopback interface."""
    server = f"0100007F:{port:04X}"
    rows = (line.split() for line in TABLE.read_text().splitlines()[1:])
    established = (row[4] for row in rows if (row[1], row[3]) == (server, "01"))
    return sum(int(queues.partition(":")[2], 16) for queues in established)


def connections_of(client: int, broker: int) -> set[int]:
    """Return the broker's sockets whose other ends are the client's; both are process ids."""
    ours, theirs = sockets(client), sockets(broker)
    rows = [line.split() for line in TABLE.read_text().splitlines()[1:]]
    ends = {row[1] for row in rows if int(row[9]) in ours}
    return {int(row[9]) for row in rows if int(row[9]) in theirs and row[2] in ends}


def sockets(pid: int) -> set[int]:
    """Return the inodes of a process's sockets."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            kind, _, inode = os.readlink(descriptor).rstrip("]").partition(":[")
        except FileNotFoundError:
            continue  # closed meanwhile
        if kind == "socket":
            found.add(int(inode))
    return found
