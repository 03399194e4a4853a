"""The process of a `LocalEngine`'s worker: takes tasks from a connection, sends back what became of them.

It ends when its engine does: a thread waits on the connection for as long as a task runs, so that nobody
writes any more soon after the driver was killed.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

from kcli.spark.job.failures import portable
from kcli.spark.job.task import write_split

if TYPE_CHECKING:
    from kcli.spark.job.receipt import Receipt


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
