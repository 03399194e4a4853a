"""WorkerPool: the processes that share a command's work; a `Worker` is one of them.

A worker does the tasks that it is given in their order, and sends messages meanwhile. `dump-log` and
`verify-index` fork theirs, which takes a millisecond and gives them what the parent knows. An export spawns
them: its threads do not survive a fork. Workers ignore Ctrl-C, which reaches the whole group: the parent ends
them. They end by themselves when the parent has gone, a spawned one even in the middle of a task.

Through a pipe goes, of each message: its kind, uint8 (0 an object, pickled; 1 bytes), its length, uint64, and
the message. Bytes arrive as a `Piece`, to be read, or spliced into another pipe, before what follows.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError

if TYPE_CHECKING:
    import subprocess

MESSAGE_BYTES = 1024 * 1024
"""Bytes are cut into messages of this size; a pipe holds one of them, where the system allows it."""
MOST_PROCESSES = 4

_HEAD = Struct("=BQ")
_OBJECT, _BYTES = range(2)

Send = Callable[[object], None]
Work = Callable[..., None]
"""Takes a task and a function that sends messages."""

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from kcli.forensics.ranges.worker_pool import serve_spawned
serve_spawned(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
"""


class WorkerGone(KcliError):
    """A process ended before its work was done; `number` is that of its task, `how` how it ended."""

    def __init__(self, number: int | None = None, how: str = "") -> None:
        super().__init__("a process ended before its work was done")
        self.number = number
        self.how = how


class Done(NamedTuple):
    """The last message about a task that was shared out."""

    result: object


class Piece(NamedTuple):
    """Bytes that wait in a pipe."""

    descriptor: int
    length: int

    def read(self) -> bytearray:
        """Return the bytes. Raises `WorkerGone`."""
        try:
            return _read(self.descriptor, self.length)
        except EOFError as error:
            raise WorkerGone from error


class Worker:
    """A process, the pipe that takes its tasks and the one that brings its messages."""

    __slots__ = ("_pid", "_process", "_tasks", "messages")

    def __init__(
        self, pid: int, tasks: int, messages: int, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._pid = pid
        self._tasks = tasks
        self.messages = messages
        self._process = process

    @classmethod
    def forked(cls, work: Work, others: Iterable[Worker]) -> Worker:
        """Fork a process that calls `work`; it must not hold the pipes of the others open."""
        task_reader, task_writer, message_reader, message_writer = _pipes()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                for other in others:
                    other.close()
                os.close(task_writer)
                os.close(message_reader)
                _serve(work, task_reader, message_writer)
                code = 0
            finally:
                os._exit(code)
        os.close(task_reader)
        os.close(message_writer)
        return cls(pid, task_writer, message_reader)

    @classmethod
    def spawned(cls, work: str) -> Worker:
        """Start a fresh interpreter that calls `work`, which is named as `module:function`."""
        import json
        import subprocess
        import sys

        task_reader, task_writer, message_reader, message_writer = _pipes()
        try:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-c", _PROGRAM, json.dumps(sys.path)),
                    *(work, str(task_reader), str(message_writer)),
                ],
                pass_fds=[task_reader, message_writer],
                stdin=subprocess.DEVNULL,
                # The terminal's Ctrl-C is the parent's alone.
                process_group=0,
            )
        except BaseException:
            os.close(task_writer)
            os.close(message_reader)
            raise
        finally:
            os.close(task_reader)
            os.close(message_writer)
        return cls(process.pid, task_writer, message_reader, process)

    def give(self, task: object) -> None:
        """Send the process a task, to be done after those before it. Raises `WorkerGone`."""
        try:
            _send(self._tasks, task)
        except BrokenPipeError as error:
            raise WorkerGone from error

    def receive(self) -> object:
        """Return the next message. Raises `WorkerGone`."""
        try:
            return _receive(self.messages)
        except EOFError as error:
            raise WorkerGone from error

    def close(self) -> None:
        os.close(self._tasks)
        os.close(self.messages)

    def end(self, by: signal.Signals) -> str:
        """End the process, whose pipes are closed, by a signal; return how it ended."""
        os.kill(self._pid, by)
        if self._process is not None:
            code = self._process.wait()
        else:
            code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class WorkerPool:
    """Up to `count` workers, numbered from 0 on.

    As a context manager it starts all of them at once, which forked ones want before there are threads;
    otherwise each starts when there is a task for it.
    """

    def __init__(self, start: Callable[[Sequence[Worker]], Worker], count: int) -> None:
        self.count = count
        self._start = start
        self._workers: dict[int, Worker] = {}

    @classmethod
    def forked(cls, work: Work, count: int) -> WorkerPool:
        return cls(lambda others: Worker.forked(work, others), count)

    @classmethod
    def spawned(cls, work: str, count: int) -> WorkerPool:
        """Return a pool of spawned workers; `work` is named as `module:function`."""
        return cls(lambda _: Worker.spawned(work), count)

    def __enter__(self) -> WorkerPool:
        try:
            for number in range(self.count):
                self._worker(number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        for worker in self._workers.values():
            worker.end(signal.SIGTERM)
        self._workers.clear()

    def _worker(self, number: int) -> Worker:
        worker = self._workers.get(number)
        if worker is None:
            worker = self._workers[number] = self._start([*self._workers.values()])
        return worker

    def give(self, number: int, task: object) -> None:
        """Give a worker a task, to be done after those before it. Raises `WorkerGone`."""
        self._worker(number).give(task)

    def receive(self, number: int) -> object:
        """Return the next message of a worker. Raises `WorkerGone`."""
        return self._workers[number].receive()

    def share_out(self, tasks: Iterable[object], attempts: int = 1) -> Generator[tuple[int, object]]:
        """Yield the messages about tasks as they come, each with the number of its task; `Done` is the last.

        A task goes to a worker that is free. If the worker dies, another one repeats the task, up to
        `attempts` workers in all. No worker is busy any more when this ends. Raises `WorkerGone`.
        """
        waiting = iter(enumerate(tasks))
        lost: deque[tuple[int, object]] = deque()
        deaths: Counter[int] = Counter()
        running: dict[int, tuple[int, object]] = {}
        try:
            while True:
                while len(running) < self.count and (task := lost.pop() if lost else next(waiting, None)):
                    worker = next(number for number in range(self.count) if number not in running)
                    running[worker] = task
                    try:
                        self.give(worker, task[1])
                    except WorkerGone:
                        self._lose(worker, running, lost, deaths, attempts)
                if not running:
                    return
                for worker in self._wait(running):
                    try:
                        message = self.receive(worker)
                    except WorkerGone:
                        self._lose(worker, running, lost, deaths, attempts)
                        continue
                    number, _ = running.pop(worker) if isinstance(message, Done) else running[worker]
                    yield number, message
        finally:
            # The pool may have been closed before.
            for worker in running.keys() & self._workers.keys():
                self._kill(worker)

    def _wait(self, numbers: Iterable[int]) -> list[int]:
        """Return those workers that have a message, once there are some."""
        from select import POLLIN, poll

        waiting = poll()
        by_descriptor = {self._workers[number].messages: number for number in numbers}
        for descriptor in by_descriptor:
            waiting.register(descriptor, POLLIN)
        return [by_descriptor[descriptor] for descriptor, _ in waiting.poll()]

    def _lose(
        self,
        worker: int,
        running: dict[int, tuple[int, object]],
        lost: deque[tuple[int, object]],
        deaths: Counter[int],
        attempts: int,
    ) -> None:
        """Take the task of a dead worker back. Raises `WorkerGone` if too many died of it."""
        task = running.pop(worker)
        how = self._kill(worker)
        deaths[task[0]] += 1
        if deaths[task[0]] >= attempts:
            raise WorkerGone(task[0], how)
        lost.append(task)

    def _kill(self, number: int) -> str:
        worker = self._workers.pop(number)
        worker.close()
        return worker.end(signal.SIGKILL)


def available_processors() -> int:
    """Return how many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processors() -> int:
    """Return how many processes are worth it: 1 means this one alone."""
    return min(available_processors(), MOST_PROCESSES) if hasattr(os, "fork") else 1


def _serve(work: Work, tasks: int, messages: int) -> None:
    """Do the tasks from one pipe until it closes, and send messages through the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            work(_receive(tasks), lambda message: _send(messages, message))
    except (EOFError, BrokenPipeError):
        return  # the parent needs no more


def serve_spawned(work: str, tasks: int, messages: int) -> None:
    """Do what `_serve` does in a fresh interpreter; end at once, even in a task, when the parent has gone."""
    from importlib import import_module
    from queue import SimpleQueue
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    received: SimpleQueue[object] = SimpleQueue()

    def receive() -> None:
        try:
            while True:
                received.put(_receive(tasks))
        finally:
            os._exit(0)

    Thread(target=receive, daemon=True).start()
    module, _, name = work.partition(":")
    function: Work = getattr(import_module(module), name)
    try:
        while True:
            function(received.get(), lambda message: _send(messages, message))
    except BrokenPipeError:
        os._exit(0)


def _pipes() -> tuple[int, int, int, int]:
    """Return reader and writer of the pipe of tasks, and of the one of messages."""
    tasks, messages = os.pipe(), os.pipe()
    _widen(messages[0])
    return *tasks, *messages


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
    """Let a pipe hold a whole message, where the system can."""
    try:
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(pipe, F_SETPIPE_SZ, MESSAGE_BYTES)
    except (ImportError, OSError):
        return
