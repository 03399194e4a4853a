"""Transport: how a connection receives and sends bytes. This one is plain; others derive from it.

A transport must not wait: it raises `BlockingIOError` as a non-blocking socket does.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from trio.lowlevel import notify_closing, wait_readable, wait_writable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.corruption import Buffer
    from kcli.storage.log.file_records import FileSlice

TURN_BYTES = 1024 * 1024
"""The bytes a connection moves at most before other connections have their turn."""

DISCARD_BYTES = 64 * 1024


class Transport:
    """Sends and receives on a non-blocking socket.

    `receive_into(view)` returns the number of bytes received, 0 at the end of the stream; `send(data, flags)`
    the number of bytes taken. Both are the methods of the socket, so they cost no call of their own.
    """

    __slots__ = ("_socket", "receive_into", "send")

    is_open = True
    """Whether the handshake, if there is one, is over."""
    more = False
    """True if received bytes may be left of which the socket gives no new sign."""
    is_flushed = True
    """True unless bytes that `send` has taken wait for room in the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.receive_into: Callable[[memoryview], int] = sock.recv_into
        self.send: Callable[..., int] = sock.send

    def send_file(self, part: FileSlice, position: int, count: int) -> int:
        """Send bytes of a file from `position` on; return how many, 0 if the file ends there."""
        return os.sendfile(self._socket.fileno(), part.fileno(), position, count)

    def advance(self) -> bool:
        """Do the next step of the handshake; return whether it is over."""
        return True

    def flush(self, flags: int = 0) -> bool:
        """Send bytes that wait for room in the socket; return whether none is left."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the socket, -1 once it is closed."""
        return self._socket.fileno()

    async def readable(self) -> None:
        """Return when there may be something to receive."""
        await wait_readable(self._socket)

    async def writable(self) -> None:
        """Return when there may be room to send."""
        await wait_writable(self._socket)

    def interrupt(self) -> None:
        """Raise `ClosedResourceError` in the task that waits in `readable` or `writable`."""
        notify_closing(self._socket)

    def end(self) -> None:
        """Send no more; the client sees the end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def discard(self) -> bool:
        """Receive and forget what has come; return whether more may come."""
        try:
            while self._socket.recv(DISCARD_BYTES):
                pass
        except BlockingIOError:
            return True
        except OSError:
            return False  # The client is gone.
        return False

    def close(self) -> None:
        self._socket.close()


class NoReader:
    """Where responses go whose client is gone: takes everything."""

    is_flushed = True

    def flush(self, _flags: int = 0) -> bool:
        return True

    def send(self, data: Buffer, _flags: int = 0) -> int:
        return len(data)

    def send_file(self, _part: FileSlice, _position: int, count: int) -> int:
        return count

    async def writable(self) -> None:
        """Return at once."""
