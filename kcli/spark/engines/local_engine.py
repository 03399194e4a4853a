"""LocalEngine: runs tasks in processes of this machine, without Spark and without Java."""

from __future__ import annotations

import pickle
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.ranges.worker_pool import Done, WorkerGone, WorkerPool, available_processors
from kcli.spark.export.failures import WorkerLost, portable
from kcli.spark.export.log.receipt import Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.forensics.ranges.worker_pool import Send
    from kcli.spark.export.engine import Progress
    from kcli.spark.export.writing.split_task import SplitTask

MAX_ATTEMPTS = 4


class Advanced(NamedTuple):
    """What the running task has done since its last message."""

    rows: int
    read_bytes: int


class LocalEngine:
    """A pool of processes. One that dies is replaced and its task is repeated, four attempts in all."""

    def __init__(self, processes: int | None = None) -> None:
        self._pool = WorkerPool.spawned(f"{__name__}:work", processes or available_processors())

    @property
    def slots(self) -> int:
        return self._pool.count

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        pickled = ((pickle.dumps(task),) for task in tasks)
        try:
            with closing(self._pool.share_out(pickled, MAX_ATTEMPTS)) as messages:
                for _, message in messages:
                    match message:
                        case Advanced(rows, read_bytes):
                            progress.advanced(rows, read_bytes)
                        case Done(Exception() as error):
                            raise error
                        case Done(Receipt() as receipt):
                            on_done(receipt)
        except WorkerGone as gone:
            if gone.number is None:
                raise
            raise WorkerLost(
                f"the worker for {tasks[gone.number]} died {MAX_ATTEMPTS} times: {gone.how}",
                hint="SIGKILL often means that memory ran out: take fewer processes",
            ) from gone

    def close(self) -> None:
        self._pool.close()


def work(pickled: tuple[bytes], send: Send) -> None:
    """Run a task in a worker; `Done` has its receipt or its error."""
    import pyarrow as pa

    from kcli.spark.export.writing.task import write_split  # not for the driver

    result: Receipt | Exception
    try:
        result = write_split(pickle.loads(pickled[0]), lambda rows, size: send(Advanced(rows, size)))
    except Exception as error:  # the top of a task
        result = portable(error)
    finally:
        pa.default_memory_pool().release_unused()
    send(Done(result))
