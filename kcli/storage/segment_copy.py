"""SegmentCopy: a segment written anew from good entries, with the indexes that a broker would make."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.protocol.records.batch import RecordBatch
from kcli.storage import disk
from kcli.storage.log_paths import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from kcli.storage.log_segment import LogSegment
from kcli.storage.producer_append import Origin, ProducerAppends

if TYPE_CHECKING:
    from kcli.storage.log_config import LogConfig
    from kcli.storage.producer_state import ProducerStateManager
    from kcli.storage.scanned_entry import ScannedEntry

_COPY_BYTES = 1024 * 1024


class SegmentCopy:
    """A segment in `directory`, whose entries and what they do to the producers are `append`ed.

    Nothing is on disk before the first entry; `create` makes a segment without any.
    """

    __slots__ = ("_base_offset", "_config", "_directory", "_segment", "_state")

    def __init__(
        self, directory: str, base_offset: int, *, config: LogConfig, state: ProducerStateManager
    ) -> None:
        self._config = config
        self._directory = directory
        self._base_offset = base_offset
        self._state = state
        self._segment: LogSegment | None = None

    @property
    def path(self) -> str:
        """Where the log file is, or would be."""
        return segment_path(self._directory, self._base_offset, LOG_SUFFIX)

    @property
    def size(self) -> int:
        """Bytes of entries."""
        return self._segment.size if self._segment is not None else 0

    @property
    def exists(self) -> bool:
        """Whether anything is on disk."""
        return self._segment is not None

    def create(self) -> LogSegment:
        """Make the files, unless they are there. Raises `OSError`."""
        if self._segment is None:
            # Every path is new: what is there would not be this one's.
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            self._segment = LogSegment.create(
                self._directory, self._base_offset, config=self._config, now_ms=0, report=_refuse
            )
        return self._segment

    def append(self, entry: ScannedEntry) -> None:
        """Add an entry that is good in itself.

        Raises `KafkaError` and `CorruptRecord` for one that cannot follow what its producer wrote before, and
        `OSError`; nothing of it is left then.
        """
        batch = entry.batch
        appends = None
        if isinstance(batch, RecordBatch) and batch.producer_id >= 0:
            appends = ProducerAppends(self._state)
            appends.check((batch,), Origin.REPLICATION)
        segment = self._segment or self.create()
        position = segment.size
        start = 0
        while start < entry.size:
            data = entry.read(start, _COPY_BYTES)
            if not data:
                segment.records.truncate_to(position)
                raise OSError(f"the file was cut while it was read, at position {entry.position + start}")
            segment.records.append(data)
            start += len(data)
        segment.indexes.add(position, entry.size, entry.last_offset, batch.max_timestamp)
        if appends is not None:
            appends.publish(segment)
            self._state.high_watermark_moved(entry.last_offset + 1)
        self._state.map_end_offset = entry.last_offset + 1

    def finish(self, modified_ns: int) -> None:
        """Complete the indexes and make all durable; the log file is as old as its original.

        Raises `OSError`.
        """
        segment = self._segment
        if segment is None:
            return
        segment.finish()
        segment.indexes.transactions.sync()
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = segment_path(self._directory, self._base_offset, suffix)
            disk.sync_path(path)
        segment.close_handlers()
        os.utime(self.path, ns=(modified_ns, modified_ns))


def _refuse(message: str) -> None:
    raise AssertionError(message)  # a new segment has nothing to report
