"""LocalEngine: runs tasks in processes of this machine, without Spark and without Java.

The process of a `LocalEngine`'s worker: takes tasks from a connection, sends back what became of them.

It ends when its engine does: a thread waits on the connection for as long as a task runs, so that nobody
writes any more soon after the driver was killed.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, NamedTuple

from kcli.spark.export.failures import WorkerLost, portable
from kcli.spark.export.writing.task import write_split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.spark.export.engine import Progress
    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.writing.task import SplitTask


class Advanced(NamedTuple):
    """What the running task did since it last told."""

    rows: int
    read_bytes: int


class Ended(NamedTuple):
    """What became of a task: a receipt, or why there is none."""

    receipt: Receipt | None
    error: Exception | None = None


def main(descriptor: int) -> None:
    """Serve the engine at the other end of a socket until it closes."""
    # Ctrl-C reaches everybody at the terminal; what becomes of the tasks is the engine's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection: Connection = Connection(descriptor)
    received: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, received), daemon=True).start()
    while True:
        ended = _run(received.get(), connection)
        try:
            connection.send(ended)
        except OSError:
            os._exit(0)


def _receive(connection: Connection, received: queue.SimpleQueue[bytes]) -> None:
    while True:
        try:
            received.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def _run(pickled: bytes, connection: Connection) -> Ended:
    import pyarrow as pa

    try:
        task = pickle.loads(pickled)
        return Ended(write_split(task, lambda rows, size: connection.send(Advanced(rows, size))))
    except Exception as error:  # the top of a task
        return Ended(None, portable(error))
    finally:
        pa.default_memory_pool().release_unused()


MAX_ATTEMPTS = 4

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from kcli.spark.engines.local_engine import main
main(int(sys.argv[1]))
"""
_END_SECONDS = 5.0


class LocalEngine:
    """A pool of processes; one that dies is replaced and its task run again, four times at most."""

    def __init__(self, processes: int | None = None) -> None:
        self._slots = processes or len(os.sched_getaffinity(0))
        self._idle: list[_Worker] = []

    @property
    def slots(self) -> int:
        """Return how many tasks run at the same time."""
        return self._slots

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        """Run every task; raise the first one's error, when none runs any more."""
        run = _Run(self._idle, tasks, min(self._slots, len(tasks)))
        try:
            while run.is_busy():
                for message in run.messages():
                    match message:
                        case Advanced(rows, read_bytes):
                            progress.advanced(rows, read_bytes)
                        case Ended(receipt, None):
                            assert receipt is not None
                            on_done(receipt)
                        case Ended(_, error):
                            assert error is not None
                            raise error
        except BaseException:
            run.kill()
            raise

    def close(self) -> None:
        """End the processes."""
        for worker in self._idle:
            worker.connection.close()
        for worker in self._idle:
            worker.end()
        self._idle.clear()


class _Worker:
    """One process and the connection to it."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # The terminal's Ctrl-C is the driver's alone.
                process_group=0,
            )

    def kill(self) -> str:
        """End the process however it is, and return how it ended."""
        self.connection.close()
        self._process.kill()
        status = self._process.wait()
        return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"

    def end(self) -> None:
        """Wait for a process whose connection is closed."""
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Run:
    """The tasks of one plan on their way through the workers."""

    def __init__(self, idle: list[_Worker], tasks: Sequence[SplitTask], slots: int) -> None:
        self._idle = idle
        self._waiting = deque(tasks)
        self._attempts: Counter[int] = Counter()
        self._slots = slots
        self._busy: dict[Connection, tuple[_Worker, SplitTask]] = {}

    def is_busy(self) -> bool:
        """Start what can be started, and return whether anything runs."""
        while self._waiting and len(self._busy) < self._slots:
            worker = self._idle.pop() if self._idle else _Worker()
            task = self._waiting.popleft()
            self._busy[worker.connection] = (worker, task)
            self._attempts[task.index] += 1
            try:
                worker.connection.send(task)
            except OSError:
                self._lose(worker.connection)
        return bool(self._busy)

    def messages(self) -> list[Advanced | Ended]:
        """Wait until workers say something, and return it."""
        found: list[Advanced | Ended] = []
        ready = wait(list(self._busy))
        for connection in [one for one in self._busy if one in ready]:
            worker, _ = self._busy[connection]
            try:
                message: Advanced | Ended = connection.recv()
            except (EOFError, OSError):
                self._lose(connection)
                continue
            if isinstance(message, Ended):
                del self._busy[connection]
                self._idle.append(worker)
            found.append(message)
        return found

    def kill(self) -> None:
        """End every worker that is at work."""
        for worker, _ in self._busy.values():
            worker.kill()
        self._busy.clear()

    def _lose(self, connection: Connection) -> None:
        """Take a dead worker's task back; raise `WorkerLost` if it died of it too often."""
        worker, task = self._busy.pop(connection)
        how = worker.kill()
        if self._attempts[task.index] >= MAX_ATTEMPTS:
            split = task.split
            raise WorkerLost(
                f"the worker for offsets {split.start} to {split.end - 1} of {split.topic}-{split.partition} "
                f"died {MAX_ATTEMPTS} times: {how}",
                hint="SIGKILL often means that memory ran out: take fewer processes",
            )
        self._waiting.appendleft(task)
