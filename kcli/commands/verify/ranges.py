"""Reading a long log for a verification by ranges in several processes.

They check checksums, and records if that is asked for, and pack what the checks of this process need to know.
At the first range that does not fit (see `kcli.storage.log_range`), or in which something is wrong, the log
is read on in this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.range_queue import RangeEnd, RangeQueue
from kcli.commands.worker_pool import Piece
from kcli.storage.log_range import RangeReader, RangeStart, stretches
from kcli.storage.verification.sound_run import RunPacker, SoundRun

if TYPE_CHECKING:
    from kcli.commands.worker_pool import Send, WorkerPool
    from kcli.storage.damage import Damage
    from kcli.storage.scanned_entry import ScannedEntry
    from kcli.storage.verification.log_items import LogItem

LONG_BYTES = 32 * 1024 * 1024
"""From how many bytes on a log is worth it."""
RANGE_BYTES = 32 * 1024 * 1024
DEEP_RANGE_BYTES = 8 * 1024 * 1024


class LogRange(NamedTuple):
    """The batches that begin in a stretch of the log of the segment at `base_offset`."""

    path: str
    base_offset: int
    deep: bool
    start: int
    end: int


def scan_range(wanted: LogRange, send: Send) -> None:
    """Say what is in a range: a `RangeStart`, packed batches, lists of damages inside, and a `RangeEnd`."""
    reader = RangeReader(wanted.path, wanted.base_offset, wanted.start, wanted.end)
    packer = RunPacker(wanted.base_offset, send)
    for item in reader.read():
        if isinstance(item, RangeStart):
            send(item)
            continue
        packer.add(item)
        if wanted.deep:
            from kcli.storage.verification.log_items import damages_inside

            damages = [*damages_inside(item.entries())]
            if damages:
                send(damages)
    packer.flush()
    send(RangeEnd(reader.last_offset, reader.position, is_sound=reader.is_done))


class LogReader:
    """Reads logs, the long ones by way of a pool."""

    def __init__(self, pool: WorkerPool) -> None:
        self._queue = RangeQueue(pool)
        self._count = pool.count

    def begin(self, path: str, base_offset: int, deep: bool) -> bool:
        """Let the pool begin with a log, unless it has; False if it is not long enough for that.

        Raises `OSError` and `WorkerGone`.
        """
        size = os.stat(path).st_size
        if size < LONG_BYTES:
            return False
        log = path, base_offset, deep
        parts = stretches(size, DEEP_RANGE_BYTES if deep else RANGE_BYTES, self._count)
        self._queue.begin(log, (LogRange(*log, *part) for part in parts))
        return True

    def read(self, path: str, base_offset: int, deep: bool) -> Iterator[LogItem]:
        """Yield what `read_log` does. Raises `OSError` and `WorkerGone`."""
        from kcli.storage.verification.log_items import read_log

        last = RangeEnd(-1, 0)
        if self.begin(path, base_offset, deep):
            while last.is_sound and (wanted := self._queue.next()) is not None:
                yield from self._take(LogRange._make(wanted), last)
                last = self._queue.end
            self._queue.discard()
        expected = last.last_offset + 1 if last.next_position else -1
        yield from read_log(path, base_offset, deep, start=last.next_position, expected=expected)

    def _take(self, wanted: LogRange, last: RangeEnd) -> Iterator[LogItem]:
        """Yield what is in the next range; nothing, if it does not follow on the last."""
        for message in self._queue.follow(last, wanted.end):
            match message:
                case Piece():
                    yield SoundRun.unpack(message.read(), lambda *place: read_again(wanted, *place))
                case list():
                    yield from message


def read_again(wanted: LogRange, start: int, end: int, offset: int) -> Iterator[ScannedEntry | Damage]:
    """Yield the batches between two positions of a log one by one; the first has an offset."""
    from kcli.storage.batch_scan import scan

    return scan(wanted.path, start=start, end=end, expected=offset, segment_base=wanted.base_offset)
