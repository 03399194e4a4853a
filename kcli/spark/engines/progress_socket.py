"""Progress of running tasks: their processes send datagrams to a socket of the driver.

A datagram, big-endian: token (8 bytes, against datagrams of strangers), number of the split (4), rows (8),
bytes (8). Rows and bytes are totals of the split so far, so a lost or late datagram does no harm.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

_DATAGRAM = struct.Struct(">8sIQQ")


class ProgressAddress(NamedTuple):
    """Where the driver listens; plain data, so that it travels to the tasks."""

    host: str
    port: int
    token: bytes


class SplitProgress(NamedTuple):
    split: int
    rows: int
    size_bytes: int


class ProgressSender:
    """A task's end. Sending never waits and never fails: a task does not depend on it."""

    def __init__(self, address: ProgressAddress, split: int) -> None:
        self._address = address
        self._split = split
        self._rows = self._bytes = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def add(self, rows: int, size_bytes: int) -> None:
        self._rows += rows
        self._bytes += size_bytes
        host, port, token = self._address
        # The driver may be gone or its buffer full; the next datagram holds newer totals.
        with suppress(OSError):
            self._socket.sendto(_DATAGRAM.pack(token, self._split, self._rows, self._bytes), (host, port))

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProgressReceiver:
    """The driver's end, open until `close`."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.setblocking(False)
        self.address = ProgressAddress(host, self._socket.getsockname()[1], os.urandom(8))

    def received(self) -> Iterator[SplitProgress]:
        """Yield what has arrived since the last call, without waiting."""
        while True:
            try:
                datagram = self._socket.recv(_DATAGRAM.size + 1)
            except BlockingIOError:
                return
            if len(datagram) == _DATAGRAM.size:
                token, split, rows, size_bytes = _DATAGRAM.unpack(datagram)
                if token == self.address.token:
                    yield SplitProgress(split, rows, size_bytes)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
