"""Connection: one connection to a broker; requests go out in order, and responses come back in that order.

Callers queue requests for the writer task, the only one that writes, so that a cancelled caller cannot leave
half a frame behind. At most `max.in.flight.requests.per.connection` are unanswered at a time. The reader task
matches each response with the oldest request and compares the correlation ids.

- The request of a cancelled caller stays in the queue: its response is read and dropped.
- A request without a response in time closes the connection; all its requests fail (`Disconnected`).
- A throttle time in a response delays further requests by that time (KIP-219).
- An idle connection closes after `connections.max.idle.ms`.

`run` first negotiates versions by ApiVersions (KIP-35, KIP-511). A broker that does not know our version of
ApiVersions answers error 35 in the layout of version 0. Then it logs in, if the client has SASL. It logs in
again before the session ends, with nothing in flight (KIP-368).
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from kcli import __version__
from kcli.client.network.bootstrap import NotKafka
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.frames import FrameError, FrameReader, RequestHeader, decode_response, encode_request
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.schema.declaration import DecodeError, message_info

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kcli.client.config import ClientConfig
    from kcli.client.network.sasl_login import Ask


class UnsupportedVersion(KcliError):
    """No version of an API is common to client and broker; nothing was sent."""


class NodeVersions(NamedTuple):
    """The API versions and features that a broker advertised.

    `ranges` maps an API key to its lowest and highest version; a feature is (name, lowest, highest).
    """

    ranges: Mapping[int, tuple[int, int]]
    supported_features: tuple[tuple[str, int, int], ...] = ()
    finalized_features: tuple[tuple[str, int, int], ...] = ()
    finalized_features_epoch: int = -1

    @classmethod
    def of(cls, response: ApiVersionsResponse) -> NodeVersions:
        return cls(
            {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys},
            tuple((item.name, item.min_version, item.max_version) for item in response.supported_features),
            tuple(
                (item.name, item.min_version_level, item.max_version_level)
                for item in response.finalized_features
            ),
            response.finalized_features_epoch,
        )

    def choose(
        self, request_class: type[Any], *, min_version: int = 0, max_version: int | None = None
    ) -> int:
        """Return the highest common version within the bounds; raise `UnsupportedVersion` without one."""
        info = message_info(request_class)
        low = max(info.min_version, min_version)
        high = info.max_version if max_version is None else min(info.max_version, max_version)
        theirs = self.ranges.get(info.key)
        if theirs is None:
            raise UnsupportedVersion(
                f"the broker does not support {info.name}", hint="a newer broker may be needed"
            )
        if max(low, theirs[0]) > min(high, theirs[1]):
            raise UnsupportedVersion(
                f"no common version of {info.name}: the broker has {theirs[0]} to {theirs[1]}, "
                f"needed is {low} to {high}",
                hint="a newer or older broker may be needed",
            )
        return min(high, theirs[1])

    def supports(self, request_class: type[Any], *, min_version: int = 0) -> bool:
        """Return whether there is a common version of at least `min_version`."""
        info = message_info(request_class)
        low, high = self.ranges.get(info.key, (1, 0))
        return max(low, info.min_version, min_version) <= min(high, info.max_version)


MAX_RESPONSE_BYTES = 100 * 1024 * 1024 + 1024
"""Larger frames cannot be responses to our requests: 100 MiB of data and the fields around it."""

READ_SIZE = 256 * 1024
QUEUE_SIZE = 64
_SASL_HANDSHAKE = 17


class Disconnected(KcliError):
    """The connection closed before the response arrived; the broker may have acted."""


class HungUp(Disconnected):
    """The broker ended the connection."""


class RequestTimedOut(Disconnected):
    """No response within the request timeout."""


class InFlightRequest:
    """A request: queued, in flight, then answered, failed or abandoned."""

    __slots__ = ("api_key", "api_version", "correlation_id", "deadline", "done", "error", "expects_response",
                 "frame", "is_abandoned", "response", "timeout")  # fmt: skip

    def __init__(self, api_key: int, api_version: int, frame: bytes, timeout: float, expects: bool) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = -1
        self.frame = frame
        self.timeout = timeout
        self.deadline = math.inf
        self.expects_response = expects
        self.is_abandoned = False
        self.done = trio.Event()
        self.response: Any = None
        self.error: KcliError | None = None

    async def wait(self) -> Any:  # noqa: ANN401  # the type follows from the request
        """Return the response, None if none is expected; raise the error that ended the connection."""
        try:
            await self.done.wait()
        finally:
            self.is_abandoned = True
        if self.error is not None:
            raise self.error
        return self.response


async def _as_it_is(error: KcliError) -> KcliError:
    return error


class Connection:
    """A connection over `stream`, usable once `run` has called `on_ready`.

    `explain_loss` returns the error of a broker that closes the connection at the first request.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        address: str,
        config: ClientConfig,
        *,
        explain_loss: Callable[[KcliError], Awaitable[KcliError]] = _as_it_is,
    ) -> None:
        self.address = address
        self.versions = NodeVersions({})
        self.close_reason: KcliError | None = None
        self._stream = stream
        self._config = config
        self._reader = FrameReader(MAX_RESPONSE_BYTES)
        self._correlation_id = 0
        self._max_in_flight = config.max_in_flight_requests_per_connection
        self._idle_seconds = config.connections_max_idle_ms / 1000
        if config.connections_max_idle_ms < 0:
            self._idle_seconds = math.inf
        self._queue_in, self._queue = trio.open_memory_channel[InFlightRequest](QUEUE_SIZE)
        self._queued = 0
        self._in_flight: deque[InFlightRequest] = deque()
        self._unsent: InFlightRequest | None = None
        self._room = trio.Event()
        self._throttled_until = -math.inf
        self._read_scope = trio.CancelScope()
        self._run_scope = trio.CancelScope()
        self._login_due = math.inf
        self._has_answered = False
        self._explain_loss = explain_loss

    @property
    def load(self) -> int:
        """Return the number of requests queued or in flight."""
        return self._queued + len(self._in_flight)

    @property
    def is_closed(self) -> bool:
        return self.close_reason is not None

    def close(self, reason: KcliError | None = None) -> None:
        """Close at once; all queued and unanswered requests fail with `reason`."""
        if self.close_reason is None:
            self.close_reason = reason or self._closed()
        self._run_scope.cancel()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Negotiate versions, log in, call `on_ready`, then carry requests until the connection closes.

        Raises `KcliError` if negotiation or login fails. Afterwards `close_reason` says why it ended.
        """
        try:
            with self._run_scope:
                await self._negotiate()
                await self._log_in(self._exchange_first)
                on_ready()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._read()
                    nursery.cancel_scope.cancel()
            reason = self.close_reason
            is_unanswered = not self._has_answered and _SASL_HANDSHAKE in self.versions.ranges
            if is_unanswered and isinstance(reason, HungUp):
                self.close_reason = await self._explain_loss(reason)
        finally:
            self._fail_everything()
            await trio.aclose_forcefully(self._stream)

    async def request(
        self,
        request: Any,  # noqa: ANN401  # any message class
        api_version: int,
        *,
        seconds: float | None = None,
        expects_response: bool = True,
    ) -> Any:  # noqa: ANN401  # the type follows from the request
        """Send a request and return its response. `seconds` None means `request.timeout.ms`."""
        call = await self.send(request, api_version, seconds=seconds, expects_response=expects_response)
        return await call.wait()

    async def send(
        self,
        request: Any,  # noqa: ANN401  # any message class
        api_version: int,
        *,
        seconds: float | None = None,
        expects_response: bool = True,
    ) -> InFlightRequest:
        """Queue a request for the writer, in order of the calls; the result waits for the response."""
        if self.close_reason is not None:
            raise self.close_reason
        call = self._new_call(request, api_version, seconds, expects_response)
        self._queued += 1
        try:
            await self._queue_in.send(call)
        except trio.BrokenResourceError:
            raise self.close_reason or self._closed() from None
        except BaseException:
            self._queued -= 1
            raise
        return call

    def _new_call(
        self,
        request: Any,  # noqa: ANN401  # any message class
        api_version: int,
        seconds: float | None = None,
        expects_response: bool = True,
    ) -> InFlightRequest:
        api_key = message_info(type(request)).key
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(api_key, api_version, self._correlation_id, self._config.client_id)
        if seconds is None:
            seconds = self._config.request_timeout_ms / 1000
        frame = encode_request(header, request)
        call = InFlightRequest(api_key, api_version, frame, seconds, expects_response)
        call.correlation_id = self._correlation_id
        return call

    async def _log_in(self, exchange: Callable[[Ask], Awaitable[Any]]) -> None:
        """Log in if the client has SASL; raise `LoginFailed`, or `Disconnected`."""
        security = self._config.security
        if security is None or not security.is_sasl:
            return
        from kcli.client.network.sasl_login import SaslLogin

        login = SaslLogin(security, self.address, self.versions.ranges)
        await login.run(exchange)
        self._login_due = trio.current_time() + login.renewal_seconds()

    async def _exchange_first(self, ask: Ask) -> Any:  # noqa: ANN401  # the type follows from the request
        """Send a part of the first login, before anything else, and return the response or token."""
        if ask.request is None:
            frame = len(ask.token).to_bytes(4, "big") + ask.token
        else:
            call = self._new_call(ask.request, ask.version)
            frame = call.frame
        try:
            await self._stream.send_all(frame)
            answer = await self._first_frame()
        except trio.BrokenResourceError as error:
            raise self._hung_up() from error
        if ask.request is None:
            return bytes(answer)
        try:
            correlation_id, response = decode_response(call.api_key, ask.version, answer)
        except DecodeError as error:
            raise self._misunderstood(error) from error
        if correlation_id != call.correlation_id:
            raise Disconnected(f"{self.address} answered out of order")
        return response

    async def _exchange_again(self, ask: Ask) -> Any:  # noqa: ANN401  # the type follows from the request
        """Send a part of a later login in its turn, from the writer task, and return the response."""
        call = self._new_call(ask.request, ask.version)
        await self._transmit(call)
        return await call.wait()

    async def _negotiate(self) -> None:
        version = message_info(ApiVersionsRequest).max_version
        response = await self._ask_versions(version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = {entry.api_key: entry.max_version for entry in response.api_keys}
            response = await self._ask_versions(min(version - 1, offered.get(18, 0)))
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), f"{self.address} refused ApiVersions")
        self.versions = NodeVersions.of(response)

    async def _ask_versions(self, version: int) -> ApiVersionsResponse:
        self._correlation_id += 1
        request = ApiVersionsRequest(client_software_name="kcli", client_software_version=__version__)
        header = RequestHeader(18, version, self._correlation_id, self._config.client_id)
        try:
            await self._stream.send_all(encode_request(header, request))
            frame = await self._first_frame()
        except trio.BrokenResourceError as error:
            raise self._hung_up() from error
        # The error code comes first in every version, and error 35 always has the layout of version 0.
        if frame[4:6] == b"\x00\x23":
            version = 0
        try:
            correlation_id, response = decode_response(18, version, frame)
        except DecodeError as error:
            raise self._not_kafka() from error
        if correlation_id != self._correlation_id or not isinstance(response, ApiVersionsResponse):
            raise self._not_kafka()
        return response

    async def _first_frame(self) -> bytearray:
        received = b""
        while True:
            for frame in self._reader:
                return frame
            data = await self._stream.receive_some(READ_SIZE)
            if not data:
                raise self._hung_up() if not received else self._not_kafka()
            received = received or bytes(data[:4])
            try:
                self._reader.feed(data)
            except FrameError as error:
                raise self._not_kafka(received) from error

    def _hung_up(self) -> KcliError:
        protocol = self._config.security_protocol.upper()
        return HungUp(
            f"{self.address} closed the connection without answering",
            hint=f"check that the port is a broker's {protocol} listener, and the broker's log",
        )

    def _not_kafka(self, received: bytes = b"") -> KcliError:
        # A TLS server answers plain bytes with an alert record: type 21, version 3.x.
        if received[:2] == b"\x15\x03":
            hint = "it speaks TLS: set `security.protocol` to SSL or SASL_SSL"
        else:
            hint = "check the port: a broker's default is 9092"
        return NotKafka(f"{self.address} does not speak the Kafka protocol", hint=hint)

    async def _write(self) -> None:
        async for call in self._queue:
            self._unsent = call
            await self._may_send(self._max_in_flight)
            if trio.current_time() >= self._login_due:
                await self._may_send(1)
                try:
                    await self._log_in(self._exchange_again)
                except KcliError as error:
                    self.close(error)
                    return
            self._unsent = None
            self._queued -= 1
            if not call.is_abandoned:
                await self._transmit(call)

    async def _transmit(self, call: InFlightRequest) -> None:
        """Send a request; close the connection if it cannot be sent in time."""
        call.deadline = trio.current_time() + call.timeout
        if call.expects_response:
            self._in_flight.append(call)
            self._set_read_deadline()
        try:
            with trio.move_on_at(call.deadline) as scope:
                await self._stream.send_all(call.frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.close(self._lost())
            return
        if scope.cancelled_caught:
            self.close(self._timed_out())
            return
        call.frame = b""
        if not call.expects_response:
            call.done.set()

    async def _may_send(self, most: int) -> None:
        """Wait until fewer than `most` requests are in flight, and a throttled time is over."""
        while True:
            if len(self._in_flight) >= most:
                self._room = trio.Event()
                await self._room.wait()
            elif self._throttled_until > trio.current_time():
                await trio.sleep_until(self._throttled_until)
            else:
                return

    async def _read(self) -> None:
        self._set_read_deadline()
        with self._read_scope:
            while self.close_reason is None:
                for frame in self._reader:
                    if not self._deliver(frame):
                        return
                try:
                    data = await self._stream.receive_some(READ_SIZE)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    data = b""
                if not data:
                    self.close(self._lost())
                    return
                try:
                    self._reader.feed(data)
                except FrameError as error:
                    self.close(self._misunderstood(error))
                    return
        if self._read_scope.cancelled_caught:
            self.close(self._timed_out() if self._in_flight else None)

    def _deliver(self, frame: bytearray) -> bool:
        """Give a response to the oldest request; return False if the connection cannot go on."""
        if not self._in_flight:
            self.close(Disconnected(f"{self.address} sent an unexpected response"))
            return False
        call = self._in_flight[0]
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != call.correlation_id:
            wrong = f"{correlation_id}, not {call.correlation_id}"
            self.close(Disconnected(f"{self.address} answered out of order: {wrong}"))
            return False
        if not call.is_abandoned:
            try:
                _, call.response = decode_response(call.api_key, call.api_version, frame)
            except DecodeError as error:
                self.close(self._misunderstood(error))
                return False
            throttle_ms = getattr(call.response, "throttle_time_ms", 0)
            if throttle_ms > 0:
                self._throttled_until = trio.current_time() + throttle_ms / 1000
        self._in_flight.popleft()
        self._has_answered = True
        call.done.set()
        self._room.set()
        self._set_read_deadline()
        return True

    def _set_read_deadline(self) -> None:
        if self._in_flight:
            self._read_scope.deadline = min(call.deadline for call in self._in_flight)
        else:
            self._read_scope.deadline = trio.current_time() + self._idle_seconds

    def _closed(self) -> KcliError:
        return Disconnected(f"the connection to {self.address} was closed")

    def _misunderstood(self, error: KcliError) -> KcliError:
        return Disconnected(f"{self.address} sent an invalid response: {error.message}")

    def _lost(self) -> KcliError:
        return HungUp(f"the connection to {self.address} was lost")

    def _timed_out(self) -> KcliError:
        return RequestTimedOut(f"{self.address} did not answer in time")

    def _fail_everything(self) -> None:
        reason = self.close_reason = self.close_reason or self._closed()
        calls = list(self._in_flight)
        if self._unsent is not None:
            calls.append(self._unsent)
        self._in_flight.clear()
        while True:
            try:
                calls.append(self._queue.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                break
        self._queue.close()
        self._queued = 0
        for call in calls:
            call.error = reason
            call.done.set()
