"""Outbox: responses on their way to a client: bytes, and slices of log files, in order.

Small parts are joined and sent by one system call; a large slice goes from its file to the socket. If a file
was truncated below a slice, the connection is closed, because the client knows the size already.

A client that has closed its socket looks like one that only ends its side and still reads, until it is sent
something. `probe` sends what is known of a response before there is one: its first byte, which is 0 in sizes
below 16 MB. A client that reads waits for the rest; the system of one that is gone resets the connection.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from trio import ClosedResourceError
from trio.lowlevel import checkpoint

from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.transport import TURN_BYTES, NoReader
from kcli.storage.log.file_records import FileSlice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.network.transport import Transport

REST_PARTS, REST_BYTES = 8, 16 * 1024
"""A rest as small as this goes with the turn before it: three bytes follow the 1 MiB of most fetches."""
JOINED_BYTES = 256 * 1024
SENDFILE_FROM = 16 * 1024
"""From this size on `sendfile` is cheaper than to read and send."""
_MORE = getattr(socket, "MSG_MORE", 0)
_FIRST_BYTE = b"\x00"
"""The first byte of a frame of less than 16 MB."""


class Outbox:
    """What a connection has to send. `size_bytes` counts what was added since it was empty last.

    The connection appends small frames to `parts` itself, because every call counts there.
    """

    __slots__ = (
        "_file_sent",
        "_has_files",
        "_is_begun",
        "_is_closed",
        "_is_full",
        "_send",
        "_transport",
        "parts",
        "size_bytes",
    )

    def __init__(self, transport: Transport) -> None:
        self.parts: list[Any] = []
        self.size_bytes = 0
        self._transport: Transport | NoReader = transport
        self._send: Callable[..., int] = transport.send
        self._has_files = False
        # The bytes of the first part that are sent, if it is a slice.
        self._file_sent = 0
        # Whether the last send stopped at a full socket, and not at the end of a turn.
        self._is_full = False
        self._is_closed = False
        # Whether the first byte of the next frame is sent.
        self._is_begun = False

    def add(self, parts: Iterable[Any]) -> None:
        """Add a frame in parts, some of which may be `FileSlice`. Raises `CloseConnection`."""
        if self._is_begun:
            parts = self._rest_of(parts)
        for part in parts:
            self.parts.append(part)
            self.size_bytes += len(part)
            if type(part) is FileSlice:
                self._has_files = True

    def close(self) -> None:
        """Let `send` no longer wait for room: nothing would wake it."""
        self._is_closed = True

    def probe(self) -> None:
        """Send the first byte of the next frame, unless it is sent or others wait. Raises `OSError`."""
        if not self._is_begun and not self.parts:
            # If the socket is full, what the client has not read will reset the connection.
            with suppress(BlockingIOError):
                self._is_begun = self._send(_FIRST_BYTE) == len(_FIRST_BYTE)

    def discard(self) -> None:
        """Drop what is there and what will be added: the client is gone."""
        self._transport = transport = NoReader()
        self._send = transport.send

    def _rest_of(self, frame: Iterable[Any]) -> Iterable[Any]:
        """Return a frame without its first byte, which is sent."""
        parts = list(frame)
        if parts:
            if not parts[0].startswith(_FIRST_BYTE):
                raise CloseConnection("a response of 16 MB or more to a client that had closed its side")
            parts[0] = parts[0][len(_FIRST_BYTE) :]
            self._is_begun = False
        return parts

    async def send(self) -> None:
        """Send everything. Raises `OSError`, `CloseConnection` and, once closed, `ClosedResourceError`."""
        while not self.send_now():
            if self._is_closed:
                raise ClosedResourceError
            if self._is_full or not self._transport.is_flushed:
                await self._transport.writable()
            else:
                await checkpoint()

    def send_now(self) -> bool:
        """Send what the socket takes, up to one turn; return whether that was everything."""
        parts = self.parts
        if not parts:
            return self._transport.is_flushed or self._transport.flush()
        if self._has_files:
            return self._send_with_files()
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        try:
            sent = self._send(data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            self.size_bytes = 0
            return self._transport.is_flushed
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
        return self._transport.is_flushed

    def _ends_soon(self) -> bool:
        """Return whether the rest is so small that another turn would cost more than to send it."""
        parts = self.parts
        return len(parts) <= REST_PARTS and sum(map(len, parts)) - self._file_sent <= REST_BYTES

    def _send_file(self, part: FileSlice) -> int:
        """Send some of the first part; return how much. Raises `BlockingIOError`."""
        begin, left = part.position + self._file_sent, part.size - self._file_sent
        sent = self._transport.send_file(part, begin, min(left, TURN_BYTES))
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
                    # A head sent alone wakes the client, which sleeps again before the file comes. If parts
                    # follow the file, holding the head back was measured to be slower.
                    flags = _MORE if part is self.parts[-1] else 0
                    break
                data = part.read()
                if len(data) != part.size:
                    raise self._cut()
            joined.append(data)
            size += len(data)
        data = joined[0] if len(joined) == 1 else b"".join(joined)
        # Bytes read from files are kept if the socket does not take everything.
        self.parts[: len(joined)] = [data]
        sent = self._send(data, flags)
        if sent == size:
            del self.parts[0]
        else:
            self.parts[0] = memoryview(data)[sent:]
        return sent

    def _cut(self) -> CloseConnection:
        self.parts.clear()
        return CloseConnection("a log file was cut while it was being sent")
