"""LogReader: reads logs for a verification, the long ones by ranges in several processes.

The processes check checksums, and records if asked to, and send the columns of the batches packed. Where a
range does not follow on the one before it (see `kcli.forensics.ranges.log_ranges`), or has a fault, this
process reads the rest of it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.entries.segment_file import LONG_BYTES
from kcli.forensics.ranges.log_ranges import RangeEnd, RangeQueue, RangeReader, RangeStart, stretches
from kcli.forensics.ranges.worker_pool import Piece
from kcli.forensics.verification.packed_batches import BatchPacker, PackedBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from typing import TypeAlias

    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.forensics.ranges.worker_pool import Send, WorkerPool

    LogItem: TypeAlias = PackedBatches | ScannedEntry | Damage
    ReadLog: TypeAlias = Callable[[str, int, bool], Iterator[LogItem]]
    """Takes the path of a log, its base offset, and whether to check each record."""

RANGE_BYTES = 32 * 1024 * 1024
DEEP_RANGE_BYTES = 8 * 1024 * 1024
NO_END = 2**63


class LogRange(NamedTuple):
    """The batches that begin in a stretch of the log of the segment at `base_offset`."""

    path: str
    base_offset: int
    deep: bool
    start: int
    end: int


def scan_range(wanted: LogRange, send: Send) -> None:
    """Send what a range holds: a `RangeStart`, packed batches, lists of damages inside them, a `RangeEnd`."""
    reader = RangeReader(wanted.path, wanted.base_offset, start=wanted.start, stop=wanted.end)
    packer = BatchPacker(wanted.base_offset, send)
    for item in reader.read():
        if isinstance(item, RangeStart):
            send(item)
            continue
        packer.add(item)
        if wanted.deep:
            damages = [*damages_inside(item.entries())]
            if damages:
                send(damages)
    packer.flush()
    send(RangeEnd(reader.last_offset, reader.position, is_sound=reader.is_done))


class LogReader:
    """Reads logs, the long ones with the help of a pool."""

    def __init__(self, pool: WorkerPool) -> None:
        self._queue = RangeQueue[LogRange](pool)
        self._count = pool.count

    def begin(self, path: str, base_offset: int, deep: bool) -> bool:
        """Let the pool begin with a log; return whether it is long. Raises `OSError` and `WorkerGone`."""
        size = os.stat(path).st_size
        if size < LONG_BYTES:
            return False
        log = path, base_offset, deep
        parts = stretches(size, DEEP_RANGE_BYTES if deep else RANGE_BYTES, self._count)
        self._queue.begin(log, (LogRange(*log, *part) for part in parts))
        return True

    def read(self, path: str, base_offset: int, deep: bool) -> Iterator[LogItem]:
        """Yield what `read_log` yields. Raises `OSError` and `WorkerGone`."""
        last = RangeEnd(-1, 0)
        if self.begin(path, base_offset, deep):
            while (wanted := self._queue.next()) is not None:
                yield from self._take(wanted, last)
                last = self._queue.end
                if not last.is_sound:
                    last = yield from read_on(wanted, last)
            self._queue.discard()
        yield from read_on(LogRange(path, base_offset, deep, last.next_position, NO_END), last)

    def _take(self, wanted: LogRange, last: RangeEnd) -> Iterator[LogItem]:
        """Yield what the next range holds; nothing if it does not follow on `last`."""
        for message in self._queue.follow(last, wanted.end):
            match message:
                case Piece():
                    yield PackedBatches.unpack(message.read(), lambda *place: read_again(wanted, *place))
                case list():
                    yield from message


def read_on(wanted: LogRange, last: RangeEnd) -> Generator[LogItem, None, RangeEnd]:
    """Read the rest of a range here, up to a sound batch; return where that ends. Raises `OSError`."""
    from kcli.forensics.entries.damage import Damage

    position, last_offset = last.next_position, last.last_offset
    expected = last_offset + 1 if position else -1
    items = read_log(
        wanted.path, wanted.base_offset, wanted.deep, start=position, expected=expected, stop=wanted.end
    )
    for item in items:
        yield item
        if isinstance(item, Damage):
            position = max(position, item.position + item.skipped_bytes)
        else:
            position = item.end
            last_offset = item.last_offsets[-1] if isinstance(item, PackedBatches) else item.last_offset
    return RangeEnd(last_offset, position)


def read_log(
    path: str, base_offset: int, deep: bool, *, start: int = 0, expected: int = -1, stop: int | None = None
) -> Iterator[LogItem]:
    """Yield sound batches many at a time, other entries one by one, and damage, from `start` on.

    `expected` is the offset at `start`, -1 if that is unknown. The last entry is a sound one at `stop` or
    behind it. Items are valid until the next step. Raises `OSError`.
    """
    from kcli.forensics.entries.batch_run import BatchRun
    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.forensics.entries.segment_scan import scan_runs

    items = scan_runs(path, start=start, expected=expected, resync=True, segment_base=base_offset, stop=stop)
    for item in items:
        if not isinstance(item, BatchRun):
            yield item
            if deep and isinstance(item, ScannedEntry) and item.is_valid and not item.damages:
                yield from damages_inside([item])
            continue
        yield PackedBatches.of(item, base_offset)
        if deep:
            yield from damages_inside(item.entries())


def damages_inside(entries: Iterable[ScannedEntry]) -> Iterator[Damage]:
    """Yield the damages inside sound entries. Raises `OSError`."""
    from kcli.forensics.entries.record_checks import check_records

    for entry in entries:
        yield from check_records(entry)


def read_again(wanted: LogRange, start: int, end: int, offset: int) -> Iterator[ScannedEntry | Damage]:
    """Yield the batches between two positions of a log one by one; `offset` is that of the first."""
    from kcli.forensics.entries.segment_scan import scan

    return scan(wanted.path, start=start, end=end, expected=offset, segment_base=wanted.base_offset)
