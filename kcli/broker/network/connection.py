"""Connection: one client's socket: requests in, responses out, in the order of the requests.

Receive, handle every complete request, send all responses at once, wait (class `Processor` of Kafka).
Requests are handled one after the other: bytes behind an unfinished one wait in memory (up to one receive) or
in the socket. Only if a request has been carried out and merely lacks its response, such as a write that
waits for its replicas, the next requests of the same API are handled, so that their batches are copied
together.

A client that closes its side may still read, and gets the responses to all that it has asked for, as from
Kafka. If it turns out to be gone, its parked requests are dropped at once; those behind them are carried out.
Nothing tells of that while the window of the socket is full of unread requests.

`on_readable`, which the reactor calls, and `_send_ended`, which the timer calls when operations end, do
everything that takes no waiting. The task of the connection goes on where those have to stop, and sleeps
otherwise.

At this rate each trio operation and each system call counts, so sockets are non-blocking and used through
`trio.lowlevel`. Bounds keep one connection from delaying the others:

* one receive, and one turn of the outbox, moves at most `TURN_BYTES`;
* after `TURN_BYTES` bytes or `TURN_SECONDS` without waiting, the connection lets others run;
* unsent responses are flushed at `FLUSH_BYTES`, and a client that does not read is not served.
"""

from __future__ import annotations

import logging
import math
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import trio
from trio.lowlevel import checkpoint

from kcli.broker.network.inbox import Inbox, read_size
from kcli.broker.network.outbox import Outbox
from kcli.broker.network.reactor import GONE, READABLE
from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.responses import ResponseQueue
from kcli.broker.network.transport import TURN_BYTES
from kcli.broker.waiting.pause_gate import Sleeper

if TYPE_CHECKING:
    from kcli.broker.network.handshakes import Handshakes
    from kcli.broker.network.inbox import ReceiveBuffers
    from kcli.broker.network.listener_security import ListenerSecurity
    from kcli.broker.network.reactor import Reactor
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.network.responses import AwaitedResponse
    from kcli.broker.network.transport import Transport
    from kcli.broker.waiting.pause_gate import PauseGate
    from kcli.broker.waiting.purgatory import Purgatory

TURN_SECONDS = 0.002
MAX_LOGIN_SECONDS = 30
"""From accepting a connection to the end of its handshake and login; Kafka has only its idle limit."""
TIMED_RESPONSES = 4
"""After so many small responses the connection looks at the clock."""
FLUSH_BYTES = 256 * 1024

_NO_BYTES = memoryview(b"")
_log = logging.getLogger(__name__)


class Listener(NamedTuple):
    """What the connections of one listener share."""

    name: str
    purgatory: Purgatory
    buffers: ReceiveBuffers
    max_request_bytes: int
    gate: PauseGate
    reactor: Reactor | None
    security: ListenerSecurity
    handshakes: Handshakes


class _Stop(NamedTuple):
    """Where handling stopped: at a response that has to be awaited, if any, and the requests behind it."""

    pending: AwaitedResponse | None
    view: memoryview
    position: int
    end: int


class Connection:
    """One client: its transport, and the requests and responses that are unfinished."""

    __slots__ = (
        "_context",
        "_engine",
        "_gate",
        "_hung_up",
        "_in",
        "_is_gone",
        "_listener",
        "_login",
        "_more",
        "_out",
        "_sleeper",
        "_stop",
        "_transport",
        "_unanswered",
        "active",
        "address",
        "idle_since",
        "is_closing",
        "known_by",
    )

    def __init__(
        self, transport: Transport, context: RequestContext, engine: Engine, listener: Listener
    ) -> None:
        self._transport = transport
        self._context = context
        self._engine = engine
        self._listener = listener
        self._gate = listener.gate
        self._login = login = listener.security.login(self, engine)
        """What stands before the engine: always, while the client is not known."""
        self.known_by = math.inf
        """When the client must be known, in trio's time."""
        if login is not None:
            self._engine = login
        if login is not None or not transport.is_open:
            self.known_by = trio.current_time() + MAX_LOGIN_SECONDS
        self._in = Inbox(transport, listener.buffers, listener.max_request_bytes)
        if login is not None:
            self._in.max_request_bytes = login.max_request_bytes
        self._out = Outbox(transport)
        self._unanswered = ResponseQueue(self._out, self._note_ended)
        self.is_closing = False
        self._sleeper = Sleeper()
        # Whether there may be more to receive: after a hang-up, until the end of the stream was seen.
        self._more = self._hung_up = False
        # Whether the client does not read any more, either.
        self._is_gone = False
        # What `on_readable` leaves to the task.
        self._stop: _Stop | None = None
        self.address = context.peer_address
        self.active = True
        """Set by traffic, cleared by `sweep`, which keeps `idle_since`."""
        self.idle_since = trio.current_time()

    async def run(self) -> None:
        """Serve until the client or the broker closes the connection. Raises only `trio.Cancelled`."""
        reactor = self._listener.reactor
        last = b""
        try:
            try:
                if not self._transport.is_open and not await self._shake_hands():
                    return
                if reactor is not None:
                    reactor.add(self)
                await self._serve()
            except CloseConnection as error:
                _log.warning("closed the connection from %s: %s", self.address, error.message)
                last = error.last
            except (OSError, trio.ClosedResourceError):
                raise
            except Exception:
                _log.exception("closed the connection from %s", self.address)
            # The client gets the responses to the requests before that.
            await self._drain()
            if last:
                self._out.add((last,))
            await self._out.send()
        except (OSError, trio.ClosedResourceError, CloseConnection) as error:
            _log.debug("the connection from %s ended: %s", self.address, error)
        finally:
            self.is_closing = True
            if reactor is not None:
                reactor.remove(self)
            self._transport.close()
            if self._login is not None:  # It refers to the connection, which shall be freed at once.
                self._engine, self._login = self._login.behind, None
            self._unanswered.give_up(self._listener.purgatory)
            if self._stop is not None and self._stop.pending is not None:
                self._stop.pending.give_up(self._listener.purgatory)
            if self._in.frame is not None:
                self._in.drop_frame()

    async def _shake_hands(self) -> bool:
        """Make the handshake of TLS, without the reactor; return whether it succeeded."""
        transport, handshakes = self._transport, self._listener.handshakes
        try:
            while not await handshakes.step(transport):
                if self.is_closing:
                    return False
                if transport.is_flushed:
                    await transport.readable()
                else:
                    await transport.writable()
        except OSError as error:
            await handshakes.failed(error, transport, self._listener.name, self.address)
            return False
        self._listener.security.authenticated(self._context, transport)
        if self._login is None:
            self.known_by = math.inf
        # Requests may have come along with the end of the handshake.
        self._more = True
        return True

    def close(self) -> None:
        """Make `run` end soon; unfinished requests are given up."""
        if self.is_closing:
            return
        self.is_closing = True
        self._out.close()
        self._sleeper.wake()
        self._transport.interrupt()

    def use(self, engine: Engine) -> None:
        """Feed another engine from the next request on, or have the login feed it."""
        if self._login is None:
            self._engine = engine
        else:
            self._login.behind = engine

    def let_in(self, *, keeps_login: bool) -> None:
        """Serve requests up to the usual size; with `keeps_login` the login goes on to get them first."""
        self.known_by = math.inf
        self._in.max_request_bytes = self._listener.max_request_bytes
        if self._login is not None and not keeps_login:
            self._engine, self._login = self._login.behind, None

    @property
    def is_parked(self) -> bool:
        """Whether a request waits for something to happen."""
        return bool(self._unanswered.waiting)

    def sweep(self, now: float, max_idle_ms: int) -> bool:
        """Close the connection if it was idle too long at `now`, in trio's time.

        Return whether a request is parked whose client may have left without a reactor to tell: such a
        connection is not idle.
        """
        if now > self.known_by:
            if self._listener.handshakes.may_log():
                _log.warning("closed the connection from %s: it did not log in in time", self.address)
            self.close()
        elif self.active:
            self.active = False
            self.idle_since = now
        elif self.is_parked:
            return self._listener.reactor is None
        elif self._context.is_mute:
            self.idle_since = now
        elif 0 <= max_idle_ms < (now - self.idle_since) * 1000:
            _log.debug("closed the idle connection from %s", self.address)
            self.close()
        return False

    @property
    def last_used(self) -> tuple[bool, float]:
        """A key that orders connections by their last use."""
        return self.active, self.idle_since

    def fileno(self) -> int:
        return self._transport.fileno()

    def on_readable(self, events: int) -> None:
        """Serve what has come; leave to the task what takes waiting."""
        if events != READABLE:
            self._on_hang_up(is_gone=bool(events & GONE))
        if self._sleeper.task is None or self._unanswered.holds_back:
            self._more = True
            return
        try:
            if not self._serve_now():
                self._sleeper.wake()
        except Exception as error:
            self._sleeper.fail(error)

    def _on_hang_up(self, *, is_gone: bool) -> None:
        """Note that the client has closed its side, and drop what is parked if it `is_gone`."""
        self._hung_up = True
        if is_gone:
            self._note_gone()
        if self._sleeper.task is not None and self._unanswered.waiting:
            self._look_after_hang_up()
            if self._is_gone:
                self._sleeper.wake()

    def _look_after_hang_up(self) -> None:
        """Drop the responses that wait if the client is gone; else have the reactor tell when it is."""
        if not self._is_gone and self._unanswered.awaits_frame:
            try:
                self._out.probe()
            except OSError:
                self._note_gone()
        if self._is_gone:
            self._unanswered.give_up_responses(self._listener.purgatory)

    def _note_gone(self) -> None:
        self._is_gone = True
        self._out.discard()

    def _serve_now(self) -> bool:
        """Receive and answer; return whether nothing is left to do.

        The kernel reports arrived bytes only once, so none may stay in the socket unnoticed.
        """
        inbox = self._in
        room, turn_ends = TURN_BYTES, 0.0
        while not self._hung_up:
            try:
                count = inbox.receive()
            except BlockingIOError:
                return True
            if count == 0:
                self._hung_up = True
                return False
            self.active = True
            self._more = inbox.may_be_more
            self._handle_received(count)
            if self._stop is not None or not self._out.send_now():
                return False
            if not self._more or self._unanswered.holds_back:
                return True
            room -= count
            # Only here, so that a request that comes alone costs no look at the clock.
            now = perf_counter()
            turn_ends = turn_ends or now + TURN_SECONDS
            if room <= 0 or now > turn_ends:
                return False
        self._more = True
        return False

    async def _serve(self) -> None:
        """Do what `on_readable` leaves to the task, until the client closes its side."""
        inbox = self._in
        turn_bytes, turn_ends = 0, perf_counter() + TURN_SECONDS
        while not self.is_closing:
            if self._gate.is_closed:
                await self._gate.passed()
            self._take_ended()
            await self._go_on()
            await self._out.send()
            if self.is_closing or self._unanswered.has_ended:
                continue
            if self._unanswered.holds_back or not (self._more or self._hung_up):
                await self._idle()
                turn_bytes, turn_ends = 0, perf_counter() + TURN_SECONDS
                continue
            try:
                count = inbox.receive()
            except BlockingIOError:
                self._more = self._hung_up = False
                continue
            if count == 0:
                await self._drain()
                return
            self.active = True
            self._more = inbox.may_be_more
            self._handle_received(count)
            turn_bytes += count
            if self._more and (turn_bytes >= TURN_BYTES or perf_counter() > turn_ends):
                await self._out.send()
                await checkpoint()
                turn_bytes, turn_ends = 0, perf_counter() + TURN_SECONDS

    async def _idle(self) -> None:
        """Return when there is something to receive or to do."""
        if self._listener.reactor is None and not self._unanswered.waiting:
            await self._transport.readable()
            self._more = True
        else:
            await self._sleep()

    async def _sleep(self) -> None:
        """Sleep until woken, unless the client is gone and nothing is left to wait for."""
        if self._hung_up:
            self._look_after_hang_up()
            if self._is_gone and not self._unanswered.waiting:
                return
        await self._sleeper.sleep()

    def _handle_received(self, count: int) -> None:
        """Handle the requests that `count` more bytes complete."""
        inbox = self._in
        if inbox.frame is None:
            self._handle(inbox.buffers.scratch, 0, len(inbox.carry) + count)
        elif inbox.filled(count):
            self._handle(inbox.frame, 0, inbox.need)

    def _handle(self, view: memoryview, position: int, end: int) -> None:
        self._stop = self._handle_now(view, position, end)
        if self._stop is None and view is self._in.frame:
            self._in.give_back_frame()

    def _handle_now(self, view: memoryview, position: int, end: int) -> _Stop | None:
        """Handle the complete requests in `view[position:end]` and keep the rest for the next receive.

        Stop at a response that has to be awaited, and where others should run first.
        """
        inbox, out, waiting = self._in, self._out, self._unanswered.waiting
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
            if waiting and not self._unanswered.may_pass(view, position + 4, size):
                self._unanswered.hold_back()
                return _Stop(None, *inbox.own(view, position, end))
            response = feed(context, view, position + 4, stop)
            position = stop
            if type(response) is tuple and not waiting and len(response) == 1:
                parts += response
                if position == end:
                    return None
                out.size_bytes += len(response[0])
                if len(parts) % TIMED_RESPONSES:
                    continue
            elif not response:
                continue
            else:
                pending = self._unanswered.take(response, context.api_key)
                if pending is not None:
                    return _Stop(pending, *inbox.own(view, position, end))
                if position == end:
                    return None
            now = perf_counter()
            if started == 0.0:
                started = now
            if out.size_bytes > FLUSH_BYTES or now - started > TURN_SECONDS:
                return _Stop(None, *inbox.own(view, position, end))
        if position < end:
            inbox.keep(view, position, end)
        return None

    async def _go_on(self) -> None:
        """Await what handling stopped at, and handle the requests behind it."""
        while self._stop is not None:
            if self._stop.pending is not None or self._unanswered.holds_back:
                await self._drain()
            if self.is_closing:
                return
            await self._out.send()
            (pending, view, position, end), self._stop = self._stop, None
            if pending is not None:
                await self._deliver(pending)
            else:
                await checkpoint()
            # With nothing behind it, the incomplete request has been kept already.
            if view is not _NO_BYTES:
                self._handle(view, position, end)

    def _note_ended(self) -> None:
        """Have `_send_ended` called soon, outside of the change that ended an operation."""
        self._listener.purgatory.timer.call_soon(self._send_ended)

    async def _send_ended(self) -> None:
        """Send the responses that are there, unless the task is awake, which does so before it sleeps."""
        if self._sleeper.task is None:
            return
        try:
            if not self._gate.is_closed:
                self.active = True
                self._take_ended()
                is_sent = self._out.send_now()
                has_more = (
                    self._more or self._hung_up or self._stop is not None or self._listener.reactor is None
                )
                if is_sent and (self._unanswered.waiting or not has_more):
                    return
        except Exception as error:
            self._sleeper.fail(error)
            return
        self._sleeper.wake()

    def _take_ended(self) -> None:
        """Move the responses that are there to the outbox."""
        pending = self._unanswered.settle()
        if pending is not None:
            rest = (_NO_BYTES, 0, 0) if self._stop is None else self._stop[1:]
            self._stop = _Stop(pending, *rest)

    async def _drain(self) -> None:
        """Return when every request before `_stop` has its response."""
        unanswered = self._unanswered
        unanswered.hold_back()
        while unanswered.waiting and not self.is_closing:
            if self._gate.is_closed:
                await self._gate.passed()
            self._take_ended()
            await self._out.send()
            if unanswered.waiting and not unanswered.has_ended:
                self._more = True  # So that the last response wakes the task.
                await self._sleep()

    async def _deliver(self, response: AwaitedResponse) -> None:
        """Await a response and take it, now that those before it are sent."""
        pending: AwaitedResponse | None = response
        # The result may be another one: a request that was held back, and is then handled in turns.
        while pending is not None:
            pending = self._unanswered.take(await pending, self._context.api_key)
        if self._gate.is_closed:
            await self._gate.passed()
        self.active = True
