"""LogDir: a log directory with one partition, written by the broker's own log, and read as an export does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.records.message_set import LegacyEntry
from kcli.protocol.topics import TopicPartition
from kcli.protocol.topics import TopicPartition as StoredPartition
from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import COLUMNS, OffsetInterval, ReadCounters, Reading, Split
from kcli.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    write_offsets,
)
from kcli.storage.producers.producer_state import AppendOrigin
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness, batch_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kcli.storage.log.log_config import LogConfig

ORDERS = TopicPartition("orders", 0)
Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Offset, timestamp in ms, timestamp type, key, value, headers."""


class LogDir(LogHarness):
    """The log directory `root` of a broker; `orders-0` is its only replica."""

    def __init__(self, root: Path, config: LogConfig = SMALL) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        super().__init__(root, config)
        self.notes: list[str] = []

    def close(self, high_watermark: int | None = None) -> LogDir:
        """Stop the broker; the high watermark that it wrote down is the log's end unless it is given."""
        self.stop()
        mark = self.log.log_end_offset if high_watermark is None else high_watermark
        self.write_mark(mark)
        return self

    def write_mark(self, high_watermark: int) -> None:
        """Write the high watermark down."""
        write_offsets(
            str(self.root / REPLICATION_OFFSET_CHECKPOINT), {StoredPartition(*ORDERS): high_watermark}
        )

    def write_log_start(self, offset: int) -> None:
        """Write down where the log starts."""
        write_offsets(str(self.root / LOG_START_OFFSET_CHECKPOINT), {StoredPartition(*ORDERS): offset})

    # --- transactions

    def write(self, producer_id: int, *values: bytes, sequence: int = 0, transactional: bool = True) -> int:
        """Append a batch of a producer; return its first offset."""
        batch = batch_of(*values, producer=(producer_id, 0, sequence), is_transactional=transactional)
        return self.append_batch(batch, origin=AppendOrigin.REPLICATION).first_offset

    def end(self, producer_id: int, kind: ControlRecordType, timestamp: int = NOW_MS) -> int:
        """Append the marker of a transaction's end; return its offset."""
        marker = end_txn_batch(
            EndTxnMarker(kind, 0), timestamp=timestamp, producer_id=producer_id, producer_epoch=0
        )
        return self.append_batch(marker, origin=AppendOrigin.COORDINATOR).first_offset

    # --- reading

    def source(self) -> LogDirsSource:
        """The directory as a source."""
        return LogDirsSource([str(self.root)], self.notes.append)

    def ends(self) -> tuple[int, int, int]:
        """Earliest offset, latest, and latest that is stable."""
        source = self.source()
        return (
            source.earliest([ORDERS])[ORDERS],
            source.latest([ORDERS], read_committed=False)[ORDERS],
            source.latest([ORDERS], read_committed=True)[ORDERS],
        )

    def splits(self, start: int, end: int, *, read_committed: bool = False, **limits: Any) -> list[Split]:
        """Plan a range; in the order of the offsets."""
        ranges = {ORDERS: OffsetInterval(start, end)}
        found = self.source().splits(ranges, SplitLimits(**limits), read_committed=read_committed)
        return sorted(found, key=lambda split: split.start)

    def rows(self, start: int, end: int, **rules: Any) -> list[Row]:
        """Read a range as one split."""
        committed = rules.get("read_committed", False)
        return read_all(self.splits(start, end, read_committed=committed, split_bytes=2**40), **rules)


def read_all(splits: Iterable[Split], counters: ReadCounters | None = None, **rules: Any) -> list[Row]:
    """Read splits one after the other."""
    counters = ReadCounters() if counters is None else counters
    rules.setdefault("columns", COLUMNS)
    source = LogDirsSource([])
    return [
        row for split in splits for row in rows_of(source.reader().read(split, Reading(**rules), counters))
    ]


def rows_of(batches: Iterable[Any]) -> list[Row]:
    """Arrow batches as rows."""
    rows = []
    for batch in batches:
        assert batch.schema.names == list(COLUMNS)
        times_us = batch.column("timestamp").cast("int64").to_pylist()
        for row, time_us in zip(batch.to_pylist(), times_us, strict=True):
            headers = tuple((one["key"], one["value"]) for one in row["headers"] or ())
            kind = row["timestampType"]
            rows.append((row["offset"], time_us // 1000, kind, row["key"], row["value"], headers))
    return rows


def stored_rows(directory: Path) -> list[Row]:
    """Every record of the segments in a directory, as the plain codecs read them; no control records."""
    rows: list[Row] = []
    for path in sorted(directory.glob("*.log")):
        for batch in iter_batches(path.read_bytes()):
            if batch.is_control:
                continue
            kind = int(batch.timestamp_type)
            is_append_time = isinstance(batch, LegacyEntry) and kind == 1
            rows += [
                (
                    record.offset,
                    batch.max_timestamp if is_append_time else record.timestamp,
                    kind,
                    record.key,
                    record.value,
                    tuple(record.headers),
                )
                for record in batch.records()
            ]
    return rows


def between(rows: Sequence[Row], start: int, end: int) -> list[Row]:
    """The rows whose offsets are in `start..end - 1`."""
    return [row for row in rows if start <= row[0] < end]
