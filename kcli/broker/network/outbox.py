"""Outbox: answers on their way to a client: bytes, and slices of log files, in order.

Small parts are joined and sent by one system call; a large slice goes from its file to the socket. A file
that was cut below a slice ends the connection: the client was told a size.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from trio import ClosedResourceError
from trio.lowlevel import checkpoint, wait_writable

from kcli.broker.network.request_context import CloseConnection
from kcli.storage.log.file_records import FileSlice

if TYPE_CHECKING:
    from collections.abc import Iterable

TURN_BYTES = 1024 * 1024
"""How much of files is sent before other connections have their turn."""
REST_PARTS, REST_BYTES = 8, 16 * 1024
"""So little goes with the turn before it: behind the 1 MiB that most clients ask for come three bytes."""
JOINED_BYTES = 256 * 1024
SENDFILE_FROM = 16 * 1024
"""From this size on `sendfile` is cheaper than reading and sending."""
_MORE = getattr(socket, "MSG_MORE", 0)


class Outbox:
    """What is to be sent on a socket. `size_bytes` counts what was added since it was empty last.

    A caller for whom every call counts may append bytes to `parts` itself.
    """

    __slots__ = ("_file_sent", "_has_files", "_is_closed", "_is_full", "_socket", "parts", "size_bytes")

    def __init__(self, sock: socket.socket) -> None:
        self.parts: list[Any] = []
        self.size_bytes = 0
        self._socket = sock
        self._has_files = False
        # How much of the first part, a file's, is sent.
        self._file_sent = 0
        # Whether the socket, and not a turn's end, stopped the last sending.
        self._is_full = False
        self._is_closed = False

    def add(self, parts: Iterable[Any]) -> None:
        """Add a frame in parts, some of which may be `FileSlice`."""
        for part in parts:
            self.parts.append(part)
            self.size_bytes += len(part)
            if type(part) is FileSlice:
                self._has_files = True

    def close(self) -> None:
        """Have `send` wait no more: who closes the socket wakes nobody who waits for room from now on."""
        self._is_closed = True

    async def send(self) -> None:
        """Send everything. Raises `OSError`, `CloseConnection` and, once closed, `ClosedResourceError`."""
        while not self.send_now():
            if self._is_closed:
                raise ClosedResourceError
            if self._is_full:
                await wait_writable(self._socket)
            else:
                await checkpoint()

    def send_now(self) -> bool:
        """Send what the socket takes, up to a turn's worth; return whether that was everything."""
        parts = self.parts
        if not parts:
            return True
        if self._has_files:
            return self._send_with_files()
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            self.size_bytes = 0
            return True
        parts.append(memoryview(data)[sent:])
        self._is_full = True
        return False

    def _send_with_files(self) -> bool:
        parts = self.parts
        turn_bytes = 0
        while parts:
            if turn_bytes >= TURN_BYTES and not self._ends_soon():
                self._is_full = False
                return False
            first = parts[0]
            try:
                if type(first) is FileSlice and first.size >= SENDFILE_FROM:
                    turn_bytes += self._send_file(first)
                else:
                    turn_bytes += self._send_joined()
            except BlockingIOError:
                self._is_full = True
                return False
        self._has_files = False
        self.size_bytes = 0
        return True

    def _ends_soon(self) -> bool:
        """Whether so little is left that a turn of its own would cost more than sending it."""
        parts = self.parts
        return len(parts) <= REST_PARTS and sum(map(len, parts)) - self._file_sent <= REST_BYTES

    def _send_file(self, part: FileSlice) -> int:
        """Send some of the first part; return how much. Raises `BlockingIOError`."""
        begin, left = part.position + self._file_sent, part.size - self._file_sent
        sent = os.sendfile(self._socket.fileno(), part.fileno(), begin, min(left, TURN_BYTES))
        if sent == 0:
            raise self._cut()
        if sent == left:
            del self.parts[0]
            self._file_sent = 0
        else:
            self._file_sent += sent
        return sent

    def _send_joined(self) -> int:
        """Send the parts up to the next large slice; return how much. Raises `BlockingIOError`."""
        joined: list[Any] = []
        size = flags = 0
        for part in self.parts:
            data = part
            if type(part) is FileSlice:
                if part.size >= SENDFILE_FROM or size > JOINED_BYTES:
                    # Sent alone, a head wakes the client, which sleeps again before the file comes. To hold
                    # it back was measured to be slower where something comes behind the file as well.
                    flags = _MORE if part is self.parts[-1] else 0
                    break
                data = part.read()
                if len(data) != part.size:
                    raise self._cut()
            joined.append(data)
            size += len(data)
        data = joined[0] if len(joined) == 1 else b"".join(joined)
        # What was read from files is kept, if not everything can be sent.
        self.parts[: len(joined)] = [data]
        sent = self._socket.send(data, flags)
        if sent == size:
            del self.parts[0]
        else:
            self.parts[0] = memoryview(data)[sent:]
        return sent

    def _cut(self) -> CloseConnection:
        self.parts.clear()
        return CloseConnection("a log file was cut while it was being sent")
