"""RangePool: processes that turn ranges of a log into text, as many as there are processors to run on.

A range ends where a batch begins. The processes are forked, which takes a millisecond; each takes the ranges
that it is given in their order and gives back frames:

    F  int64 base offset of the first batch
    D  int64 length, then as much text
    G  int64 count, then as many pairs of int64: offsets that do not follow on each other
    E  int64s: position and last offset of the last batch (-1 if there is none), where the next one begins,
       last offset of a record, number of values that could not be decoded, and 1 if the range is sound

A range is sound if nothing is wrong with its batches and they fill it. Of one that is not, what comes before
the first problem is given: whoever asked goes on from there by himself.
"""

from __future__ import annotations

import os
import signal
from array import array
from collections.abc import Callable, Iterator
from struct import Struct
from typing import BinaryIO, NamedTuple

from kcli.errors import KcliError

PIPE_BYTES = 1024 * 1024
MOST_PROCESSES = 4

GONE = "a process that read a part of the log ended before its work was done"

_TASK = Struct(">qqq")
_NUMBER = Struct(">q")
END = Struct(">qqqqqq")


class Range(NamedTuple):
    """Bytes of the file with that number, from the beginning of a batch to that of a later one."""

    file: int
    start: int
    end: int


class RangeEnd(NamedTuple):
    """What is known when a range was read."""

    last_position: int
    last_offset: int
    next_position: int
    last_record_offset: int
    failures: int
    is_sound: bool


Work = Callable[[Range, "FrameWriter"], None]


class FrameWriter:
    """Writes the frames of a range."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def first_offset(self, offset: int) -> None:
        self._stream.write(b"F" + _NUMBER.pack(offset))

    def data(self, data: bytes) -> None:
        self._stream.write(b"D" + _NUMBER.pack(len(data)))
        self._stream.write(data)
        self._stream.flush()

    def gaps(self, pairs: array[int]) -> None:
        self._stream.write(b"G" + _NUMBER.pack(len(pairs) // 2))
        self._stream.write(pairs.tobytes())

    def end(self, end: RangeEnd) -> None:
        self._stream.write(b"E" + END.pack(*end))
        self._stream.flush()


class RangePool:
    """The processes. Use it as a context manager, before there are threads."""

    def __init__(self, work: Work, count: int) -> None:
        self._work = work
        self._count = count
        self._tasks: list[BinaryIO] = []
        self._results: list[BinaryIO] = []
        self._pids: list[int] = []

    def __enter__(self) -> RangePool:
        for _ in range(self._count):
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (*self._tasks, *self._results):
            stream.close()
        for pid in self._pids:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)

    def _start(self) -> None:
        task_reader, task_writer = os.pipe()
        result_reader, result_writer = os.pipe()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                for stream in (*self._tasks, *self._results):
                    os.close(stream.fileno())
                os.close(task_writer)
                os.close(result_reader)
                self._serve(task_reader, result_writer)
                code = 0
            finally:
                os._exit(code)
        os.close(task_reader)
        os.close(result_writer)
        self._pids.append(pid)
        self._tasks.append(os.fdopen(task_writer, "wb", buffering=0))
        self._results.append(os.fdopen(result_reader, "rb", buffering=PIPE_BYTES))

    def _serve(self, task_reader: int, result_writer: int) -> None:
        """Do what comes through the pipe until it closes. Ctrl-C is for the parent to deal with."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with os.fdopen(task_reader, "rb") as tasks, os.fdopen(result_writer, "wb", PIPE_BYTES) as results:
            frames = FrameWriter(results)
            while task := tasks.read(_TASK.size):
                self._work(Range(*_TASK.unpack(task)), frames)

    @property
    def capacity(self) -> int:
        """How many ranges may be under way, so that no process waits for its next one."""
        return 2 * self._count

    def give(self, number: int, wanted: Range) -> None:
        """Let a process begin with a range; ranges are numbered from 0 on."""
        try:
            self._tasks[number % self._count].write(_TASK.pack(*wanted))
        except BrokenPipeError as error:
            raise KcliError(GONE) from error

    def take(self, number: int) -> Iterator[int | bytes | array[int] | RangeEnd]:
        """Yield what the frames of a range hold: first offset, pieces of text, pairs, and at last its end.

        Raises `KcliError` when the process has gone.
        """
        stream = self._results[number % self._count]
        while True:
            kind = read_exactly(stream, 1)
            if kind == b"E":
                *numbers, is_sound = END.unpack(read_exactly(stream, END.size))
                yield RangeEnd._make((*numbers, bool(is_sound)))
                return
            (length,) = _NUMBER.unpack(read_exactly(stream, _NUMBER.size))
            if kind == b"F":
                yield length
            elif kind == b"G":
                yield array("q", read_exactly(stream, 2 * _NUMBER.size * length))
            else:
                while length:
                    piece = read_exactly(stream, min(length, PIPE_BYTES))
                    length -= len(piece)
                    yield piece


def read_exactly(stream: BinaryIO, count: int) -> bytes:
    """Return as many bytes. Raises `KcliError`."""
    data = stream.read(count)
    if len(data) < count:
        raise KcliError(GONE)
    return data


def processors() -> int:
    """Return how many processes are worth while: 1 for none besides this one."""
    if not hasattr(os, "fork"):
        return 1
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, MOST_PROCESSES)
