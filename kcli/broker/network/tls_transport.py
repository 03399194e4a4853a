"""TlsTransport: a connection over TLS, on the server's side.

TLS works on memory (`ssl.SSLObject` between two `MemoryBIO`), and the transport alone touches the socket:
with edge-triggered events it must know whether the socket is drained, which an `SSLSocket` hides. So bytes
are in one of four places:

| place | who notices them |
|---|---|
| the socket | the reactor, once |
| `_incoming`, and the record that TLS has read | `more` |
| `_outgoing`, always emptied at once | |
| `_unsent`, for which the socket had no room | `is_flushed` |

Until a client has sent its first record whole, it costs those bytes alone, and no TLS session.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kcli.broker.network.tls_failures import NoTlsClient
from kcli.broker.network.transport import Transport

if TYPE_CHECKING:
    import socket
    import ssl

    from kcli.protocol.corruption import Buffer
    from kcli.storage.log.file_records import FileSlice

RECEIVE_BYTES = 128 * 1024
"""The ciphertext received by one system call."""
RECORD_BYTES = 16 * 1024
"""The most plaintext of a record (RFC 8446, 5.1)."""
_RECORD_HEAD = 5
_MAX_RECORD_BYTES = _RECORD_HEAD + RECORD_BYTES + 2048
_OVERHEAD_BYTES = 1024
"""Room for the heads and tags of the records that carry `RECEIVE_BYTES`."""
ENCRYPT_BYTES = 64 * 1024
"""The plaintext encrypted before the socket is offered it. Twice as much took a quarter longer."""
STEPS = 128
"""Bounds the records that one call decrypts, so that small ones do not hold up other connections."""
_NOTHING = memoryview(b"")
_HANDSHAKE, _SSL2_HELLO = 22, 0x80
_PROTOCOL_VERSION_ALERT = bytes.fromhex("15030100020246")
"""What tells a client that speaks no TLS to go away; OpenSSL says nothing to it."""
_HTTP_METHODS = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")


class TlsListener:
    """What the connections of one TLS listener share; who assigns `context` changes that of new ones."""

    __slots__ = ("context", "name", "received", "to_send")

    def __init__(self, name: str, context: ssl.SSLContext) -> None:
        self.name = name
        self.context = context
        self.received = memoryview(bytearray(RECEIVE_BYTES))
        """Ciphertext on its way from a socket, valid until the next await."""
        self.to_send = memoryview(bytearray(ENCRYPT_BYTES))
        """Bytes of files on their way to a socket, valid until the next await."""


class TlsTransport(Transport):
    """Sends and receives records of TLS; `advance` makes the handshake, which comes first.

    Errors are `OSError`: those of the socket, and `ssl.SSLError` for what TLS refuses. An error of `advance`
    leaves an alert to send: `flush` and `close` do.
    """

    __slots__ = (
        "_has_ended",
        "_hello",
        "_incoming",
        "_listener",
        "_outgoing",
        "_tls",
        "_unsent",
        "_want_read",
        "is_flushed",
        "is_open",
        "more",
    )

    def __init__(self, sock: socket.socket, listener: TlsListener) -> None:
        import ssl

        # The methods here stand in for those of the socket, so nothing is bound to attributes.
        self._socket = sock
        self._listener = listener
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._want_read = ssl.SSLWantReadError
        self._tls: ssl.SSLObject | None = None
        self._hello = b""
        self._unsent: list[Buffer] = []
        self.is_open = self._has_ended = False
        self.more = False
        self.is_flushed = True

    @property
    def version(self) -> str:
        """The version of TLS, as in ``TLSv1.3``; "" before the handshake is over."""
        return (self._tls.version() or "") if self._tls is not None and self.is_open else ""

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate as DER, None if it has sent none."""
        return None if self._tls is None else self._tls.getpeercert(binary_form=True)

    # --- handshake -------------------------------------------------------------------------------

    def advance(self) -> bool:
        if self.is_open:
            return True
        if self._tls is None and not self._take_hello():
            return False
        assert self._tls is not None
        is_drained = False
        while True:
            try:
                self._tls.do_handshake()
                break
            except self._want_read:
                # Nobody waits for the socket to drain: what it has no room for leaves with the next step.
                self.flush()
            if is_drained:
                return False
            received, is_drained = self._receive_records()
            self._incoming.write(received)
            if self._has_ended:
                raise ConnectionResetError("the client left during the handshake")
        self.is_open = True
        self.more = True
        self.flush()
        return True

    def _take_hello(self) -> bool:
        """Receive up to a whole record; return whether it is there and the session is made."""
        received = self._listener.received
        limit = _MAX_RECORD_BYTES - len(self._hello)
        try:
            count = self._socket.recv_into(received[:limit])
        except BlockingIOError:
            return False
        if count == 0:
            raise ConnectionResetError("the client left before it began")
        self._hello += received[:count]
        hello = self._hello
        self._check_is_tls(hello)
        if hello[0] == _HANDSHAKE and len(hello) < _MAX_RECORD_BYTES:
            if len(hello) < _RECORD_HEAD:
                return False
            if len(hello) < _RECORD_HEAD + int.from_bytes(hello[3:5]):
                return False
        self._incoming.write(hello)
        self._hello = b""
        self._tls = self._listener.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        return True

    def _check_is_tls(self, hello: bytes) -> None:
        first = hello[0]
        if first == _HANDSHAKE or first & _SSL2_HELLO:
            return  # OpenSSL knows what it does not want.
        self._unsent.append(_PROTOCOL_VERSION_ALERT)
        if hello[:4] in _HTTP_METHODS:
            raise NoTlsClient("the client speaks HTTP, not TLS")
        if first == 0:
            raise NoTlsClient("the client speaks Kafka's protocol without TLS")
        raise NoTlsClient("the client does not speak TLS")

    # --- receiving -------------------------------------------------------------------------------

    def receive_into(self, view: memoryview) -> int:
        """Decrypt into `view`; return the number of bytes, 0 at the end. Raises `BlockingIOError`."""
        assert self._tls is not None
        read, want_read = self._tls.read, self._want_read
        filled, size = 0, len(view)
        received, is_drained = _NOTHING, self._has_ended
        self.more = True
        for _ in range(STEPS):
            try:
                # With a buffer it returns a number, which the type of the library does not say.
                count: Any = read(size - filled, view[filled:])
            except want_read:
                if received:
                    self._incoming.write(received[:RECORD_BYTES])
                    received = received[RECORD_BYTES:]
                elif not is_drained:
                    received, is_drained = self._receive_records(size - filled)
                else:
                    self.more = self._has_ended
                    break
                continue
            if count == 0:
                self._has_ended = True  # The client has said that it ends.
                break
            filled += count
            if filled == size:
                break
        if received:
            self._incoming.write(received)
        if self._outgoing.pending:
            self.flush()
        if filled == 0 and not self._has_ended:
            if self.more:
                raise ConnectionAbortedError("the client sends records without data")
            raise BlockingIOError
        return filled

    def _receive_records(self, room: int = 0) -> tuple[memoryview, bool]:
        """Receive ciphertext for about `room` bytes, a whole record at least.

        TLS gets as much as a record has. Return the rest, and whether the socket has no more.
        """
        received = self._listener.received[: max(room, RECORD_BYTES) + _OVERHEAD_BYTES]
        try:
            count = self._socket.recv_into(received)
        except BlockingIOError:
            return _NOTHING, True
        if count == 0:
            self._has_ended = True
            return _NOTHING, True
        self._incoming.write(received[: min(count, RECORD_BYTES)])
        return received[RECORD_BYTES:count], count < len(received)

    # --- sending ---------------------------------------------------------------------------------

    def send(self, data: Buffer, flags: int = 0) -> int:
        """Encrypt and send; return the bytes taken, some of which `flush` may have to send."""
        if not self.is_flushed and not self.flush():
            raise BlockingIOError
        size = len(data)
        if size <= RECORD_BYTES:
            return self._send_record(data, flags)
        view = memoryview(data)
        taken = 0
        while taken < size:
            piece = view[taken : taken + ENCRYPT_BYTES]
            self._encrypt(piece)
            taken += len(piece)
            if not self.flush(flags):
                break
        return taken

    def _send_record(self, data: Buffer, flags: int) -> int:
        """Encrypt and send what fits into one record, with nothing before it: most responses are as small."""
        assert self._tls is not None
        size = self._tls.write(data)
        record = self._outgoing.read()
        try:
            sent = self._socket.send(record, flags)
        except BlockingIOError:
            sent = 0
        if sent < len(record):
            self._unsent.append(memoryview(record)[sent:])
            self.is_flushed = False
        return size

    def send_file(self, part: FileSlice, position: int, count: int) -> int:
        if not self.is_flushed and not self.flush():
            raise BlockingIOError
        buffer = self._listener.to_send
        taken = 0
        while taken < count and self.is_flushed:
            room = buffer[: count - taken]
            got = os.preadv(part.fileno(), [room], position + taken)
            if got == 0:
                break
            self._encrypt(room[:got])
            taken += got
            self.flush()
        return taken

    def _encrypt(self, data: memoryview) -> None:
        """Encrypt a record at a time: the memory between TLS and the socket keeps the size of the largest."""
        assert self._tls is not None
        write, read, keep = self._tls.write, self._outgoing.read, self._unsent.append
        for start in range(0, len(data), RECORD_BYTES):
            write(data[start : start + RECORD_BYTES])
            keep(read())

    def flush(self, flags: int = 0) -> bool:
        """Send the ciphertext that is there; return whether the socket took all of it."""
        unsent = self._unsent
        if self._outgoing.pending:
            unsent.append(self._outgoing.read())
        if unsent:
            try:
                sent = self._socket.sendmsg(unsent, (), flags)
            except BlockingIOError:
                self.is_flushed = False
                return False
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent[0])
                del unsent[0]
            if unsent:
                unsent[0] = memoryview(unsent[0])[sent:]
                self.is_flushed = False
                return False
        self.is_flushed = True
        return True

    # --- the end ---------------------------------------------------------------------------------

    def end(self) -> None:
        """Send the alert that tells why the handshake failed, and nothing after it."""
        with suppress(OSError):
            self.flush()
        super().end()

    def close(self) -> None:
        """Tell the client that nothing more comes, if the socket has room for that, and close it."""
        if self._tls is not None and self.is_open and self.is_flushed:
            # It waits for the client's word, or has failed: then an alert is there instead.
            with suppress(OSError):
                self._tls.unwrap()
        with suppress(OSError):
            self.flush()
        self._socket.close()
