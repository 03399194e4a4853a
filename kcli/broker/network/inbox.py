"""Requests on their way in: the bytes a connection has received and not handled, and the memory for them.

All connections share one scratch buffer. It belongs to the connection that received last, until the next
await, so what is incomplete in it is carried to the next receive. A larger request gets a buffer of its own
as soon as its size is known, and is received straight into it. Those come from a small pool of power-of-two
sizes. They are anonymous private mappings: the kernel provides memory page by page as bytes arrive, so a
client that announces 100 MB and sends nothing costs address space only, and a pooled buffer saves the zeroing
and the page faults of a new one.

`held_limit` bounds the bytes of all unfinished requests together: a connection that would exceed it is
closed. So receiving takes at most that, the pool and the scratch buffer, however many connections there are.
"""

from __future__ import annotations

import mmap
from struct import Struct
from typing import TYPE_CHECKING

from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.transport import TURN_BYTES

if TYPE_CHECKING:
    from kcli.broker.network.transport import Transport


SCRATCH_BYTES = 256 * 1024
MIN_CLASS_BYTES = 16 * 1024
MAX_POOLED_CLASS_BYTES = 16 * 1024 * 1024
POOLED_BYTES = 32 * 1024 * 1024
POOLED_PER_CLASS = 4
HELD_LIMIT_BYTES = 1024 * 1024 * 1024


class ReceiveBuffers:
    """The scratch buffer and the pool of larger ones."""

    __slots__ = ("_free", "held_bytes", "held_limit", "pooled_bytes", "scratch")

    def __init__(self, held_limit: int = HELD_LIMIT_BYTES) -> None:
        self.held_limit = held_limit
        self.held_bytes = 0
        """The bytes of all unfinished requests."""
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._free: dict[int, list[memoryview]] = {}
        self.pooled_bytes = 0
        """The bytes of the buffers in the pool."""

    def take(self, size: int) -> memoryview:
        """Return a buffer of at least `size` bytes; its contents are undefined."""
        class_bytes = MIN_CLASS_BYTES
        while class_bytes < size:
            class_bytes *= 2
        free = self._free.get(class_bytes)
        if free:
            self.pooled_bytes -= class_bytes
            return free.pop()
        if class_bytes > MAX_POOLED_CLASS_BYTES:
            class_bytes = size
        return memoryview(mmap.mmap(-1, class_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def give_back(self, buffer: memoryview) -> None:
        """Put a buffer into the pool; slices of it must not be used again."""
        class_bytes = len(buffer)
        if class_bytes > MAX_POOLED_CLASS_BYTES or self.pooled_bytes + class_bytes > POOLED_BYTES:
            return
        free = self._free.setdefault(class_bytes, [])
        if len(free) < POOLED_PER_CLASS:
            free.append(buffer)
            self.pooled_bytes += class_bytes


CARRY_BYTES = 4096
"""An incomplete request up to this size is carried to the next receive; a larger one gets a buffer."""

_SIZE = Struct(">i")
_TLS_HELLO = 0x1603
"""What the first record of TLS begins with, taken for the upper half of a size."""
read_size = _SIZE.unpack_from


class Inbox:
    """The incomplete request of a connection: `carry`, or `frame` with `received` of `need` bytes."""

    __slots__ = (
        "_receive_into",
        "_transport",
        "buffers",
        "carry",
        "frame",
        "max_request_bytes",
        "may_be_more",
        "need",
        "received",
    )

    def __init__(self, transport: Transport, buffers: ReceiveBuffers, max_request_bytes: int) -> None:
        self._transport = transport
        self._receive_into = transport.receive_into
        self.buffers = buffers
        self.max_request_bytes = max_request_bytes
        self.carry = b""
        self.frame: memoryview | None = None
        self.need = 0
        self.received = 0
        self.may_be_more = False
        """Whether the last receive may have left bytes behind."""

    def receive(self) -> int:
        """Receive into the frame, or into the scratch buffer behind `carry`; return the number of bytes.

        Raises `OSError`, usually `BlockingIOError`.
        """
        frame = self.frame
        if frame is not None:
            received = self.received
            room = frame[received : min(self.need, received + TURN_BYTES)]
        else:
            room = self.buffers.scratch
            if self.carry:
                carried = len(self.carry)
                room[:carried] = self.carry
                room = room[carried:]
        count = self._receive_into(room)
        self.may_be_more = count == len(room) or self._transport.more
        return count

    def filled(self, count: int) -> bool:
        """Count bytes received into the frame; return whether it is complete.

        Raises `CloseConnection` if all unfinished requests together exceed the limit.
        """
        buffers = self.buffers
        self.received += count
        buffers.held_bytes += count
        if buffers.held_bytes > buffers.held_limit:
            raise CloseConnection(f"unfinished requests hold {buffers.held_bytes} bytes")
        return self.received == self.need

    def keep(self, view: memoryview, position: int, end: int) -> None:
        """Keep an incomplete request for the next receive."""
        count = end - position
        need = 4 + read_size(view, position)[0] if count >= 4 else 4
        if need <= CARRY_BYTES:
            self.carry = bytes(view[position:end])
            return
        frame = self.buffers.take(need)
        frame[:count] = view[position:end]
        self.frame, self.received, self.need = frame, count, need
        self.buffers.held_bytes += count

    def drop_frame(self) -> None:
        """Forget the frame; its memory stays valid for those who read it."""
        self.frame = None
        self.buffers.held_bytes -= self.received

    def give_back_frame(self) -> None:
        """Forget the frame and reuse its memory."""
        frame = self.frame
        if frame is not None:
            self.drop_frame()
            self.buffers.give_back(frame)

    def own(self, view: memoryview, position: int, end: int) -> tuple[memoryview, int, int]:
        """Return the rest of `view` in memory that no other connection receives into."""
        if view is not self.buffers.scratch:
            return view, position, end
        return memoryview(bytearray(view[position:end])), 0, end - position

    def bad_size(self, size: int) -> CloseConnection:
        """Return the error for a request of an impossible size."""
        limit = self.max_request_bytes
        if size >> 16 == _TLS_HELLO:
            return CloseConnection("the client speaks TLS, which this listener does not")
        if size < 0:
            return CloseConnection(f"a request announces {size} bytes")
        return CloseConnection(f"a request announces {size} bytes, {limit} are allowed")
