"""The control socket: how a command acts on the broker process of a data directory.

`<data-dir>/control.sock` takes one JSON object a line, as
``{"operation": "node.stop", "arguments": {"node": 2}}``, and answers each with one line:
``{"result": …}``, or ``{"error": message, "hint": hint, "exit_code": number}``.
It exists while the process runs; only the user who started that may open it. An operation that lasts, such
as `requests.measure`, ends with what it has when the client shuts down its side, or has gone, and when the
process ends in order.

The name of a socket has room for a hundred bytes: a longer one is reached through the directory's descriptor.
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
    from collections.abc import Iterator, Mapping

SOCKET_NAME = "control.sock"
MAX_LINE_BYTES = 1 << 20

_MAX_NAME_BYTES = 100
_CONNECT_SECONDS = 5.0
_RECEIVE_BYTES = 65536
_PEER = struct.Struct("3i")
"""The id of a process, and its user and group."""

SILENT_SECONDS = 2.0
"""Who has not answered for so long is looked at: a stopped process never does."""


@contextmanager
def socket_name(data_dir: Path) -> Iterator[str]:
    """Give the name under which the socket of a directory can be bound or connected to. Raises `OSError`."""
    path = str(data_dir / SOCKET_NAME)
    if len(os.fsencode(path)) <= _MAX_NAME_BYTES:
        yield path
        return
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def ask(data_dir: Path, operation: str, *, timeout_seconds: float, **arguments: object) -> Any:  # noqa: ANN401 - JSON
    """Have the process of a data directory perform an operation; return its result, which is JSON's.

    Raises `KcliError` if no process listens there, if it is stopped or refuses, or if it takes longer.
    """
    with asking(data_dir, operation, **arguments) as question:
        return question.answer(timeout_seconds=timeout_seconds)


@contextmanager
def asking(data_dir: Path, operation: str, **arguments: object) -> Iterator[Question]:
    """Ask for an operation that lasts, and let go of it at the end of the block.

    Raises `KcliError` if no process listens there, or one that is stopped.
    """
    with _connect(data_dir) as connection:
        refuse_stopped(_peer(connection))  # It would do later what nobody waits for.
        question = Question(connection, data_dir)
        question.ask(operation, arguments)
        yield question


class Question:
    """What a process has been asked for and has yet to answer."""

    def __init__(self, connection: socket.socket, data_dir: Path) -> None:
        self._connection = connection
        self._data_dir = data_dir

    def fileno(self) -> int:
        """Return the descriptor that can be read once there is an answer, or none to come."""
        return self._connection.fileno()

    def ask(self, operation: str, arguments: Mapping[str, object]) -> None:
        """Send the question. Raises `KcliError`."""
        request = {"operation": operation, "arguments": arguments}
        try:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._went_away(error) from error

    def hurry(self) -> None:
        """Have an operation that lasts be over: its answer is what there is by now. Raises `KcliError`."""
        try:
            self._connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._went_away(error) from error

    def answer(self, *, timeout_seconds: float) -> Any:  # noqa: ANN401 - JSON
        """Return the result. Raises `KcliError` if it is refused, or does not come in time."""
        try:
            line = _receive_line(self._connection, timeout_seconds)
        except TimeoutError as error:
            raise KcliError(
                f"the broker has not done it within {timeout_seconds:g} s",
                hint="it may still do it: ask again",
            ) from error
        except OSError as error:
            raise self._went_away(error) from error
        return _result(line, self._data_dir)

    def _went_away(self, error: OSError) -> KcliError:
        return KcliError(f"the broker in `{self._data_dir}` went away: {reason_of(error)}")


def _connect(data_dir: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_SECONDS)
    try:
        with socket_name(data_dir) as name:
            connection.connect(name)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        connection.close()
        raise KcliError(
            f"no broker runs in `{data_dir}`", hint="name its directory with `--data-dir`"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def refuse_stopped(process_id: int) -> None:
    """Raise `KcliError` for a process that a signal has stopped, where the system tells of that."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_bytes().rpartition(b") ")[2]
    except OSError:
        return
    if state.startswith(b"T"):
        raise KcliError(
            f"the broker does not answer: process {process_id} is stopped",
            hint=f"`kill -CONT {process_id}` lets it go on",
        )


def _receive_line(connection: socket.socket, timeout_seconds: float) -> bytes:
    received = bytearray()
    end = time.monotonic() + timeout_seconds
    while not received.endswith(b"\n"):
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
    return bytes(received)


def _peer(connection: socket.socket) -> int:
    """Return the id of the process that listens, 0 where the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    process_id: int = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[
        0
    ]
    return process_id


def _result(line: bytes, data_dir: Path) -> Any:  # noqa: ANN401 - whatever the operation returns
    if not line:
        raise KcliError(f"the broker in `{data_dir}` ended before it answered")
    answer: Mapping[str, Any] = json.loads(line)
    if "error" not in answer:
        return answer["result"]
    kind = UsageError if answer.get("exit_code") == UsageError.exit_code else KcliError
    raise kind(answer["error"], hint=answer.get("hint"))
