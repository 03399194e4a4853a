"""The control socket: commands send operations through it to the broker process of a data directory.

A request to `<data-dir>/control.sock` is one line of JSON,
``{"operation": "node.stop", "arguments": {"node": 2}}``, and so is its response, ``{"result": …}`` or
``{"error": message, "hint": hint, "exit_code": number}``. The socket exists while the process runs, and only
the user of the process may open it. A long operation, such as `requests.measure`, ends with the result so far
when the client shuts down its side or is gone, and when the process stops in order. If the request says
``"progress": true``, lines ``{"progress": …}`` may come before the response to a long operation.

A socket's name has at most a hundred bytes: a longer path is reached through the directory's descriptor.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError, UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SOCKET_NAME = "control.sock"
MAX_LINE_BYTES = 1 << 20

_MAX_NAME_BYTES = 100
_CONNECT_SECONDS = 5.0
_RECEIVE_BYTES = 65536
_PROGRESS = b'{"progress": '
_PEER = struct.Struct("3i")
"""Process id, user id and group id."""

SILENT_SECONDS = 2.0
"""How long to wait for a response before checking whether the process is stopped."""


@contextmanager
def socket_name(data_dir: Path) -> Iterator[str]:
    """Yield a name for binding or connecting to the socket of a directory. Raises `OSError`."""
    path = str(data_dir / SOCKET_NAME)
    if len(os.fsencode(path)) <= _MAX_NAME_BYTES:
        yield path
        return
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def ask(
    data_dir: Path,
    operation: str,
    *,
    timeout_seconds: float,
    on_progress: Callable[[Mapping[str, Any]], None] | None = None,
    **arguments: object,
) -> Any:  # noqa: ANN401 - JSON
    """Send an operation to the process of a data directory and return its result, a JSON value.

    `on_progress` gets what the process tells until then.

    Raises `KcliError` if no process listens there, if it is stopped or refuses, or if the time is over.
    """
    with _connected(data_dir) as running:
        running.send(operation, arguments, with_progress=on_progress is not None)
        return running.result(timeout_seconds=timeout_seconds, on_progress=on_progress)


@contextmanager
def running_operation(data_dir: Path, operation: str, **arguments: object) -> Iterator[RunningOperation]:
    """Start a long operation, which ends at the latest with the block.

    Raises `KcliError` if no process listens there, or if it is stopped.
    """
    with _connected(data_dir) as running:
        running.send(operation, arguments)
        yield running


@contextmanager
def _connected(data_dir: Path) -> Iterator[RunningOperation]:
    with _connect(data_dir) as connection:
        refuse_stopped(_peer(connection))  # It would run the operation later, when no client waits for it.
        yield RunningOperation(connection, data_dir)


class RunningOperation:
    """One operation sent to a process, and its response."""

    def __init__(self, connection: socket.socket, data_dir: Path) -> None:
        self._connection = connection
        self._data_dir = data_dir

    def fileno(self) -> int:
        """Return the descriptor, which is readable when the response or the end of the connection arrives."""
        return self._connection.fileno()

    def send(self, operation: str, arguments: Mapping[str, object], *, with_progress: bool = False) -> None:
        """Send the operation. Raises `KcliError`."""
        request: dict[str, object] = {"operation": operation, "arguments": arguments}
        if with_progress:
            request["progress"] = True
        try:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._went_away(error) from error

    def finish(self) -> None:
        """Make a long operation end now with the result so far. Raises `KcliError`."""
        try:
            self._connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._went_away(error) from error

    def result(
        self, *, timeout_seconds: float, on_progress: Callable[[Mapping[str, Any]], None] | None = None
    ) -> Any:  # noqa: ANN401 - JSON
        """Return the result. Raises `KcliError` if the operation is refused or the time is over."""
        end, received = time.monotonic() + timeout_seconds, bytearray()
        try:
            line = _receive_line(self._connection, end, received)
            while on_progress is not None and line.startswith(_PROGRESS):
                on_progress(json.loads(line)["progress"])
                line = _receive_line(self._connection, end, received)
        except TimeoutError as error:
            raise KcliError(
                f"the broker did not finish within {timeout_seconds:g} s",
                hint="it may still finish: run the command again",
            ) from error
        except OSError as error:
            raise self._went_away(error) from error
        return _result(line, self._data_dir)

    def _went_away(self, error: OSError) -> KcliError:
        return KcliError(f"the broker in `{self._data_dir}` went away: {reason_of(error)}")


def no_broker(data_dir: Path) -> KcliError:
    """Return the error that no broker runs in a directory."""
    hint = "name its directory with `--data-dir`, or start one with `kcli broker start`"
    return KcliError(f"no broker runs in `{data_dir}`", hint=hint)


def _connect(data_dir: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_SECONDS)
    try:
        with socket_name(data_dir) as name:
            connection.connect(name)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        connection.close()
        raise no_broker(data_dir) from error
    except BaseException:
        connection.close()
        raise
    return connection


def refuse_stopped(process_id: int) -> None:
    """Raise `KcliError` if a process is stopped by a signal; without /proc do nothing."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_bytes().rpartition(b") ")[2]
    except OSError:
        return
    if state.startswith(b"T"):
        raise KcliError(
            f"the broker does not answer: process {process_id} is stopped",
            hint=f"`kill -CONT {process_id}` lets it go on",
        )


def _receive_line(connection: socket.socket, end: float, received: bytearray) -> bytes:
    """Take the next line, or what comes before the end of the connection, from what is received."""
    while b"\n" not in received:
        connection.settimeout(max(0.001, min(SILENT_SECONDS, end - time.monotonic())))
        try:
            data = connection.recv(_RECEIVE_BYTES)
        except TimeoutError:
            refuse_stopped(_peer(connection))
            if time.monotonic() >= end:
                raise
            continue
        if not data:
            break
        received += data
    line = bytes(received[: received.find(b"\n") + 1 or None])
    del received[: len(line)]
    return line


def _peer(connection: socket.socket) -> int:
    """Return the id of the listening process, 0 if the system does not provide it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(credentials)[0])


def _result(line: bytes, data_dir: Path) -> Any:  # noqa: ANN401 - JSON
    if not line:
        raise KcliError(f"the broker in `{data_dir}` ended before it answered")
    response: Mapping[str, Any] = json.loads(line)
    if "error" not in response:
        return response["result"]
    kind = UsageError if response.get("exit_code") == UsageError.exit_code else KcliError
    raise kind(response["error"], hint=response.get("hint"))
