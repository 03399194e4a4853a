"""ControlServer: the socket through which commands act on this process; its protocol: `kcli.control_socket`.

An operation is a function of the cluster and the arguments; its result is encoded as JSON. Operations of
different clients run at the same time, so each checks the state again. A long one returns a `LongOperation`;
`finish` ends these when the process ends, and lets their answers leave.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from kcli.control_socket import MAX_LINE_BYTES, SOCKET_NAME, socket_name
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster

    Operation = Callable[["Cluster", Mapping[str, Any]], Awaitable[object]]

FINISH_SECONDS = 1.0
"""The time for clients to take their answers in `finish`."""

TELL_SECONDS = 0.25
"""How often a client is told the progress."""

_RECEIVE_BYTES = 65536
_log = logging.getLogger(__name__)


class LongOperation(NamedTuple):
    """An operation that runs while its client stays: `until` returns the result.

    It gets an event that is set when the client closes its side or the process ends. `progress` returns how
    far it is, as JSON values, for clients that want to be told.
    """

    until: Callable[[trio.Event], Awaitable[object]]
    progress: Callable[[], object] | None = None


class _Waiting:
    """A client that waits for an answer: `left` ends its operation, `answered` follows the answer."""

    def __init__(self) -> None:
        self.left, self.answered = trio.Event(), trio.Event()


class ControlServer:
    """The control socket of one process; `operations` returns them by name."""

    def __init__(
        self, cluster: Cluster, data_dir: Path, *, operations: Callable[[], Mapping[str, Operation]]
    ) -> None:
        self._cluster = cluster
        self._data_dir = data_dir
        self._operations = operations
        self._waiting: set[_Waiting] = set()
        """The clients that wait for a long operation."""

    async def finish(self) -> None:
        """End all long operations, and let their answers leave."""
        for client in self._waiting:
            client.left.set()
        with trio.move_on_after(FINISH_SECONDS):
            for client in tuple(self._waiting):
                await client.answered.wait()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, then remove the socket. Without a socket the process goes on."""
        path = self._data_dir / SOCKET_NAME
        try:
            listening = self._open(path)
        except OSError as error:
            _log.warning("`kcli broker node` will not work: cannot make `%s`: %s", path, error.strerror)
            task_status.started()
            return
        ours = os.stat(path)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(trio.serve_listeners, self._serve, [trio.SocketListener(listening)])
                task_status.started()
        finally:
            # The next process may use the directory as soon as the nodes have released it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), ours):
                    path.unlink()

    def _open(self, path: Path) -> trio.socket.SocketType:
        """Return a listening socket. An old file is a killed process's, because this one holds the lock."""
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(listening.fileno(), 0o600)  # On Linux the name is made with this mode.
            with socket_name(self._data_dir) as name:
                listening.bind(name)
            os.chmod(path, 0o600)
            listening.listen()
        except BaseException:
            listening.close()
            raise
        return trio.socket.from_stdlib_socket(listening)

    async def _serve(self, stream: trio.SocketStream) -> None:
        try:
            received = bytearray()
            while (line := await _next_line(stream, received)) is not None:
                client = _Waiting()
                try:
                    answer = await self._answer(line, client, stream, received)
                    await stream.send_all(json.dumps(answer).encode() + b"\n")
                finally:
                    self._waiting.discard(client)
                    client.answered.set()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            _log.debug("a control connection ended: %s", error)

    async def _answer(
        self, line: bytes, client: _Waiting, stream: trio.SocketStream, received: bytearray
    ) -> dict[str, Any]:
        try:
            request = _parse(line)
            operation = self._operations().get(request["operation"])
            if operation is None:
                raise UsageError(f"there is no operation `{request['operation']}`")
            result = await operation(self._cluster, request["arguments"])
            if isinstance(result, LongOperation):
                self._waiting.add(client)
                has_left = partial(_has_left, stream, received)
                tell = partial(_tell, stream, result.progress if request["progress"] else None)
                result = await _last(result, client.left, has_left, tell)
            return {"result": result}
        except KcliError as error:
            return {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
        except Exception as error:
            _log.exception("an operation failed")
            return {"error": f"unexpected {type(error).__name__}: {error}", "hint": None, "exit_code": 1}


async def _last(
    operation: LongOperation,
    left: trio.Event,
    has_left: Callable[[trio.Event], Awaitable[None]],
    tell: Callable[[trio.Event], Awaitable[None]],
) -> object:
    """Return the result of an operation that ends with its client at the latest."""
    refusal, result = None, None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(has_left, left)
        # `tell` is not cancelled: half a line must not stand before the answer.
        async with trio.open_nursery() as telling:
            over = trio.Event()
            telling.start_soon(tell, over)
            try:
                result = await operation.until(left)
            except KcliError as error:
                refusal = error  # Not raised here: the nursery would wrap it in a group.
            over.set()
        nursery.cancel_scope.cancel()
    if refusal is not None:
        raise refusal
    return result


async def _tell(stream: trio.SocketStream, progress: Callable[[], object] | None, over: trio.Event) -> None:
    """Send the progress of an operation, if there is any, until it is over or its client is gone."""
    try:
        while progress is not None:
            with trio.move_on_after(TELL_SECONDS):
                await over.wait()
                return
            await stream.send_all(json.dumps({"progress": progress()}).encode() + b"\n")
    except trio.BrokenResourceError as error:
        _log.debug("a control connection ended: %s", error)


async def _has_left(stream: trio.SocketStream, received: bytearray, left: trio.Event) -> None:
    """Set `left` when a client sends nothing more; keep what it sends until then."""
    try:
        while len(received) <= MAX_LINE_BYTES and (data := await stream.receive_some(_RECEIVE_BYTES)):
            received += data
    except trio.BrokenResourceError as error:
        _log.debug("a control connection ended: %s", error)
    left.set()


async def _next_line(stream: trio.SocketStream, received: bytearray) -> bytes | None:
    """Take the next received line; return None at the end of the stream, or for a line that is too long."""
    while (end := received.find(b"\n")) < 0:
        data = await stream.receive_some(_RECEIVE_BYTES)
        if not data or len(received) > MAX_LINE_BYTES:
            return None
        received += data
    line = bytes(received[:end])
    del received[: end + 1]
    return line


def _parse(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
        operation, arguments = request["operation"], request.get("arguments", {})
        progress = request.get("progress", False)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError("a request is an object with `operation` and `arguments`") from error
    if not isinstance(operation, str) or not isinstance(arguments, dict):
        raise UsageError("a request is an object with `operation` and `arguments`")
    return {"operation": operation, "arguments": arguments, "progress": progress}
