"""The physical limit: `python -m tests.benchmarks.drain` sends or takes bytes over loopback, and no more.

A request is one letter and an int64: b"S", and so many bytes of a file in the page cache come by `sendfile`;
b"R", and so many bytes are received, then answered by one. One connection at a time.
"""

from __future__ import annotations

import os
import socket
import tempfile
from struct import Struct

CHUNK_BYTES = 1024 * 1024
_REQUEST = Struct(">cq")


def serve(sock: socket.socket, file: int, scratch: memoryview) -> None:
    """Do what one client asks for until it leaves."""
    while request := sock.recv(_REQUEST.size, socket.MSG_WAITALL):
        kind, left = _REQUEST.unpack(request)
        while left:
            part = min(left, CHUNK_BYTES)
            left -= os.sendfile(sock.fileno(), file, 0, part) if kind == b"S" else _take(sock, scratch[:part])
        if kind == b"R":
            sock.sendall(b".")


def _take(sock: socket.socket, scratch: memoryview) -> int:
    count = sock.recv_into(scratch)
    if not count:
        raise ConnectionError("the client left early")
    return count


def main() -> None:
    """Listen for ever."""
    with tempfile.TemporaryFile() as file, socket.create_server(("127.0.0.1", 0)) as listening:
        file.write(os.urandom(CHUNK_BYTES))
        file.flush()
        print(f"ready: 127.0.0.1:{listening.getsockname()[1]}", flush=True)
        scratch = memoryview(bytearray(CHUNK_BYTES))
        while True:
            sock, _ = listening.accept()
            with sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                serve(sock, file.fileno(), scratch)


if __name__ == "__main__":
    main()
