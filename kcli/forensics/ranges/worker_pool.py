"""WorkerPool: processes that do parts of a command's work, as many as there are processors to run on.

They are forked, which takes a millisecond, and know what their parent knew then. Each does the tasks that it
is given in their order, and sends messages meanwhile. It ignores Ctrl-C, which reaches the whole group: the
parent ends it. It ends by itself when the parent has gone.

Through a pipe goes, of each message: its kind, uint8 (0 an object, pickled; 1 bytes), its length, uint64, and
the message. Bytes arrive as a `Piece`, to be read, or spliced into another pipe, before what follows.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from kcli.errors import KcliError

MESSAGE_BYTES = 1024 * 1024
"""What bytes are cut into; so much may wait for its reader in a pipe, where the system allows it."""
MOST_PROCESSES = 4

GONE = "a process ended before its work was done"

_HEAD = Struct("=BQ")
_OBJECT, _BYTES = range(2)

Send = Callable[[object], None]
Work = Callable[..., None]
"""Takes a task and a function that sends messages."""


class WorkerGone(KcliError):
    """A process ended before its work was done."""


class Piece(NamedTuple):
    """Bytes that stand in a pipe."""

    descriptor: int
    length: int

    def read(self) -> bytearray:
        """Return the bytes. Raises `WorkerGone`."""
        try:
            return _read(self.descriptor, self.length)
        except EOFError as error:
            raise WorkerGone(GONE) from error


class WorkerPool:
    """The processes, numbered from 0 on. Use it as a context manager, before there are threads."""

    def __init__(self, work: Work, count: int) -> None:
        self.count = count
        self._work = work
        self._tasks: list[int] = []
        self._messages: list[int] = []
        self._pids: list[int] = []

    def __enter__(self) -> WorkerPool:
        try:
            for _ in range(self.count):
                self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (*self._tasks, *self._messages):
            os.close(descriptor)
        for pid in self._pids:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)

    def _start(self) -> None:
        task_reader, task_writer = os.pipe()
        message_reader, message_writer = os.pipe()
        _widen(message_reader)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                for descriptor in (*self._tasks, *self._messages, task_writer, message_reader):
                    os.close(descriptor)
                _serve(self._work, task_reader, message_writer)
                code = 0
            finally:
                os._exit(code)
        os.close(task_reader)
        os.close(message_writer)
        self._pids.append(pid)
        self._tasks.append(task_writer)
        self._messages.append(message_reader)

    def give(self, worker: int, task: object) -> None:
        """Let a process do a task when it is done with those before. Raises `WorkerGone`."""
        try:
            _send(self._tasks[worker], task)
        except BrokenPipeError as error:
            raise WorkerGone(GONE) from error

    def receive(self, worker: int) -> object:
        """Return the next message of a process. Raises `WorkerGone`."""
        try:
            return _receive(self._messages[worker])
        except EOFError as error:
            raise WorkerGone(GONE) from error

    def wait(self) -> list[int]:
        """Return the processes that have something to say, once there are some."""
        from select import POLLIN, poll

        waiting = poll()
        for descriptor in self._messages:
            waiting.register(descriptor, POLLIN)
        return [self._messages.index(descriptor) for descriptor, _ in waiting.poll()]


def processors() -> int:
    """Return how many processes are worth while: 1 for none besides this one."""
    if not hasattr(os, "fork"):
        return 1
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, MOST_PROCESSES)


def _serve(work: Work, tasks: int, messages: int) -> None:
    """Do what comes through one pipe until it closes; the other takes the messages."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def send(message: object) -> None:
        _send(messages, message)

    try:
        while True:
            work(_receive(tasks), send)
    except (EOFError, BrokenPipeError):
        return  # the parent needs nothing any more


def _send(descriptor: int, message: object) -> None:
    if isinstance(message, bytes | bytearray | memoryview):
        view = memoryview(message)
        for start in range(0, len(view), MESSAGE_BYTES):
            _write(descriptor, _BYTES, view[start : start + MESSAGE_BYTES])
    else:
        _write(descriptor, _OBJECT, memoryview(pickle.dumps(message, pickle.HIGHEST_PROTOCOL)))


def _write(descriptor: int, kind: int, data: memoryview) -> None:
    parts = [memoryview(_HEAD.pack(kind, len(data))), data]
    while parts:
        written = os.writev(descriptor, parts)
        while parts and written >= len(parts[0]):
            written -= len(parts.pop(0))
        if parts:
            parts[0] = parts[0][written:]


def _receive(descriptor: int) -> object:
    """Return a message. Raises `EOFError` when the other end has gone."""
    kind, length = _HEAD.unpack(_read(descriptor, _HEAD.size))
    return Piece(descriptor, length) if kind == _BYTES else pickle.loads(_read(descriptor, length))


def _read(descriptor: int, count: int) -> bytearray:
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        got = os.readv(descriptor, [view[at:]])
        if not got:
            raise EOFError
        at += got
    return data


def _widen(pipe: int) -> None:
    """Let a pipe hold a whole message, where the system has that."""
    try:
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(pipe, F_SETPIPE_SZ, MESSAGE_BYTES)
    except (ImportError, OSError):
        return
