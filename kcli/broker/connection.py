"""Connection: one client's socket: frames in, answers out, in the order of the requests.

Receive, handle every complete request, send all answers at once, wait. At most one request is unfinished;
what the client sent behind it waits in memory (up to one receive) or in the socket. That is Kafka's ordering
guarantee. What takes no waiting is done by `on_readable`, which the reactor calls; the connection's task goes
on where that had to stop, and sleeps as long as nothing needs it.

Raw non-blocking sockets and `trio.lowlevel`: at this rate each trio operation and each system call counts
(class `Processor` of Kafka plays this part). Bounds that keep one connection from delaying the others:

* one receive, and one turn of the outbox, moves at most `TURN_BYTES`;
* after `TURN_ROUNDS` receives, `TURN_BYTES` bytes or `TURN_SECONDS` without waiting it lets others run;
* unsent answers are flushed at `FLUSH_BYTES`, and a client that does not read is not served.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING

import trio
from trio.lowlevel import checkpoint, wait_readable

from kcli.broker.inbox import CARRY_BYTES, Inbox, read_size
from kcli.broker.outbox import TURN_BYTES, Outbox
from kcli.broker.pause_gate import PauseGate
from kcli.broker.purgatory import DelayedOperation
from kcli.broker.request_context import CloseConnection

if TYPE_CHECKING:
    import socket

    from kcli.broker.purgatory import Purgatory
    from kcli.broker.reactor import Reactor
    from kcli.broker.receive_buffers import ReceiveBuffers
    from kcli.broker.request_context import RequestContext
    from kcli.broker.request_engine import Answer, Engine

TURN_ROUNDS = 16
TURN_SECONDS = 0.002
TIMED_ANSWERS = 4
"""After so many small answers the clock is looked at."""
SHOWN_CHARACTERS = 300
FLUSH_BYTES = 256 * 1024

_Stop = tuple["Answer", memoryview, int, int]
"""An answer that is not there at once (None: others should run first), and the requests behind it."""
_log = logging.getLogger(__name__)


class Connection:
    """A socket, and what is unfinished on it."""

    __slots__ = (
        "_closing",
        "_context",
        "_engine",
        "_error",
        "_gate",
        "_hung_up",
        "_in",
        "_more",
        "_operation",
        "_out",
        "_purgatory",
        "_reactor",
        "_socket",
        "_stop",
        "_task",
        "active",
        "address",
        "idle_since",
    )

    def __init__(
        self,
        sock: socket.socket,
        *,
        engine: Engine,
        context: RequestContext,
        purgatory: Purgatory,
        buffers: ReceiveBuffers,
        max_request_bytes: int,
        reactor: Reactor | None = None,
        gate: PauseGate | None = None,
    ) -> None:
        self._gate = gate or PauseGate()
        self._socket = sock
        self._engine = engine
        self._context = context
        self._purgatory = purgatory
        self._in = Inbox(sock, buffers, max_request_bytes)
        self._out = Outbox(sock)
        self._operation: DelayedOperation | None = None
        self._closing = False
        self._reactor = reactor
        # The task, while it sleeps.
        self._task: trio.lowlevel.Task | None = None
        # Whether there may be more to receive: after a hang-up, until the end of the stream was seen.
        self._more = self._hung_up = False
        # What `on_readable` leaves to the task.
        self._stop: _Stop | None = None
        self._error: Exception | None = None
        self.address = context.peer_address
        self.active = True
        """Set by traffic, cleared by the sweep for idle connections, which keeps `idle_since`."""
        self.idle_since = 0.0

    async def run(self) -> None:
        """Serve until the client or the broker closes the connection; never raises but `trio.Cancelled`."""
        try:
            try:
                if self._reactor is not None:
                    self._reactor.add(self)
                await self._serve()
            except CloseConnection as error:
                _log.warning("closed the connection from %s: %s", self.address, _shown(error.message))
            except (OSError, trio.ClosedResourceError):
                raise
            except Exception:
                _log.exception("closed the connection from %s", self.address)
            # What was asked before that is answered.
            await self._out.send()
        except (OSError, trio.ClosedResourceError, CloseConnection) as error:
            _log.debug("the connection from %s ended: %s", self.address, error)
        finally:
            self._closing = True
            if self._reactor is not None:
                self._reactor.remove(self)
            self._socket.close()
            if self._in.frame is not None:
                self._in.drop_frame()

    def close(self) -> None:
        """Make `run` end soon; what is unfinished is given up."""
        if self._closing:
            return
        self._closing = True
        if self._operation is not None:
            self._purgatory.interrupt(self._operation)
        self._wake()
        trio.lowlevel.notify_closing(self._socket)

    def use(self, engine: Engine) -> None:
        """Feed another engine, from the next request on."""
        self._engine = engine

    @property
    def is_parked(self) -> bool:
        """Whether a request waits for something to happen."""
        return self._operation is not None

    def fileno(self) -> int:
        """Return the socket's descriptor, -1 when it is closed."""
        return self._socket.fileno()

    # --- receiving -------------------------------------------------------------------------------

    def on_readable(self, *, hung_up: bool) -> None:
        """Serve what has come if that takes no waiting; else leave the rest to the task."""
        if hung_up:
            self._hung_up = True
        if self._task is None:
            self._more = True
            return
        try:
            if self._serve_now():
                return
        except Exception as error:
            self._error = error  # The task raises it.
        self._wake()

    def _serve_now(self) -> bool:
        """Receive once and answer; return whether that was all there is to do."""
        inbox = self._in
        if inbox.frame is not None or self._hung_up:
            self._more = True
            return False
        try:
            count = inbox.receive()
        except BlockingIOError:
            return True
        if count == 0:
            self._hung_up = True
            return False
        self.active = True
        scratch = inbox.buffers.scratch
        # Before anything else: the kernel tells once only, and a full buffer may have left something behind.
        self._more = count >= len(scratch) - CARRY_BYTES
        self._stop = self._handle_now(scratch, 0, len(inbox.carry) + count)
        self._more = self._more or inbox.frame is not None
        if self._stop is not None or not self._out.send_now():
            return False
        return not self._more

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def _serve(self) -> None:
        inbox = self._in
        rounds = turn_bytes = 0
        while not self._closing:
            if self._gate.is_closed:
                await self._gate.passed()
            if not (self._more or self._hung_up):
                await self._idle()
                rounds = turn_bytes = 0
                continue
            self._more = False
            try:
                count = inbox.receive()
            except BlockingIOError:
                self._hung_up = False
                continue
            if count == 0:
                return
            self.active = True
            if inbox.frame is None:
                scratch = inbox.buffers.scratch
                self._more = count >= len(scratch) - CARRY_BYTES
                await self._go_on(self._handle_now(scratch, 0, len(inbox.carry) + count))
            else:
                self._more = True
                if inbox.filled(count):
                    await self._handle_frame(inbox.frame)
            await self._out.send()
            rounds += 1
            turn_bytes += count
            self._more = self._more or inbox.frame is not None
            if self._more and (rounds >= TURN_ROUNDS or turn_bytes >= TURN_BYTES):
                await checkpoint()
                rounds = turn_bytes = 0

    async def _idle(self) -> None:
        """Return when there is something to receive, after finishing what `on_readable` could not."""
        if self._reactor is None:
            await wait_readable(self._socket)
            self._more = True
            return

        def abort(_raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)
        error, self._error = self._error, None
        if error is not None:
            raise error
        stop, self._stop = self._stop, None
        await self._go_on(stop)
        await self._out.send()

    async def _go_on(self, stop: _Stop | None) -> None:
        """Wait for what handling stopped at, and handle what is behind it."""
        while stop is not None:
            answer, view, position, end = stop
            if answer is None:
                await self._out.send()
                await checkpoint()
            else:
                await self._deliver(answer)
            stop = self._handle_now(view, position, end)

    def _handle_now(self, view: memoryview, position: int, end: int) -> _Stop | None:
        """Handle the complete requests in `view[position:end]` and keep the rest for the next receive.

        Stop at an answer that is not there at once, and where others should run first.
        """
        inbox, out = self._in, self._out
        inbox.carry = b""
        feed, context = self._engine.feed, self._context
        parts = out.parts
        started = 0.0
        while end - position >= 4:
            size = read_size(view, position)[0]
            if not 0 <= size <= inbox.max_request_bytes:
                raise inbox.bad_size(size)
            stop = position + 4 + size
            if stop > end:
                break
            answer = feed(context, view, position + 4, stop)
            position = stop
            if type(answer) is bytes:
                parts.append(answer)
                if position == end:
                    return None
                out.size_bytes += len(answer)
                if len(parts) % TIMED_ANSWERS:
                    continue
            elif type(answer) is list:
                out.add(answer)
                if position == end:
                    return None
            elif answer is not None:
                # From here on others may receive into the scratch.
                return answer, *inbox.own(view, position, end)
            else:
                continue
            now = perf_counter()
            if started == 0.0:
                started = now
            if out.size_bytes > FLUSH_BYTES or now - started > TURN_SECONDS:
                return None, *inbox.own(view, position, end)
        if position < end:
            inbox.keep(view, position, end)
        return None

    async def _handle_frame(self, frame: memoryview) -> None:
        """Handle the request that has filled a buffer of its own."""
        inbox = self._in
        answer = self._engine.feed(self._context, frame, 4, inbox.need)
        if isinstance(answer, Coroutine):
            # It may read the buffer until it ends; if it raises, a thread may do so even longer.
            await self._deliver(answer)
            inbox.drop_frame()
            inbox.buffers.give_back(frame)
            return
        inbox.drop_frame()
        inbox.buffers.give_back(frame)
        if answer is not None:
            await self._deliver(answer)

    # --- answering -------------------------------------------------------------------------------

    async def _deliver(self, answer: Answer) -> None:
        """Send an answer when it is there; those before it go first."""
        if answer is not None and not isinstance(answer, (bytes, list, DelayedOperation)):
            try:
                await self._out.send()
            except BaseException:
                answer.close()
                raise
            answer = await answer
        if isinstance(answer, DelayedOperation):
            answer = await self._wait(answer)
            if type(answer) is CoroutineType:
                answer = await answer
        if self._gate.is_closed:
            await self._gate.passed()
        self.active = True
        if type(answer) is bytes:
            self._out.parts.append(answer)
        elif answer is not None:
            assert isinstance(answer, list)
            self._out.add(answer)
            await self._out.send()

    async def _wait(self, operation: DelayedOperation) -> Answer:
        if not operation.ended:
            try:
                await self._out.send()
            except BaseException:
                self._purgatory.drop(operation)
                raise
            self._operation = operation
            await self._purgatory.wait(operation)
            self._operation = None
        return self._engine.finish(self._context, operation)


def _shown(message: str) -> str:
    """Return a message as it goes into the log: what a client sent must not look like lines of it."""
    text = message.encode("unicode_escape").decode()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
