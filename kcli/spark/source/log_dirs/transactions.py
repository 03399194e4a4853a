"""The transactions of a log: which are open, and which were aborted.

A transaction is the transactional batches of a producer up to the control batch that ends it. The transaction
index of a segment lists those that a marker in it aborted; if the index is missing or out of date, the heads
of entries tell (Kafka classes `ProducerStateManager` and `TransactionIndex`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.spark.source.log_dirs.segment import floor_index, locate, resynced
from kcli.spark.split import AbortedTransaction
from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.index.transaction_index import TransactionIndex
from kcli.storage.log_paths import TRANSACTION_INDEX_SUFFIX
from kcli.storage.producers.producer_snapshot import CorruptSnapshot, ProducerSnapshots

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.protocol.records.batch_header import BatchHead
    from kcli.spark.source.log_dirs.segment import Segment


class OpenTransactions:
    """The open transactions while heads are added in the order of their offsets."""

    __slots__ = ("first_offsets",)

    def __init__(self) -> None:
        self.first_offsets: dict[int, int] = {}
        """The first offset by producer id."""

    def add(self, head: BatchHead, file: SegmentFile) -> AbortedTransaction | None:
        """Add an entry; return the transaction that it aborts. Raises `OSError`."""
        if head.producer_id < 0 or not head.is_transactional:
            return None
        if not head.is_control:
            self.first_offsets.setdefault(head.producer_id, head.base_offset)
            return None
        marker = _marker(head, file)
        if marker is None:
            return None
        first_offset = self.first_offsets.pop(head.producer_id, None)
        if first_offset is None or marker is not ControlRecordType.ABORT:
            return None
        return AbortedTransaction(head.producer_id, first_offset, head.last_offset)


def last_stable_offset(segments: Sequence[Segment], log_start: int, end: int) -> int:
    """Return the first offset of the earliest transaction open at `end`, else `end`. Raises `OSError`."""
    if not segments:
        return end
    state = OpenTransactions()
    start = max(_load_snapshot(segments, state, log_start, end), log_start)
    for head, file in heads_from(segments, start):
        if head.base_offset >= end:
            break
        if head.last_offset >= start:
            state.add(head, file)
    return min(state.first_offsets.values(), default=end)


def listed_aborted(segments: Sequence[Segment], start: int) -> list[AbortedTransaction]:
    """Return the aborted transactions in indexes with a marker at `start` or above. Raises `OSError`."""
    found = []
    for segment in segments[floor_index(segments, start) :]:
        index = TransactionIndex(segment.index_path(TRANSACTION_INDEX_SUFFIX), segment.base_offset)
        try:
            index.load()
        except (CorruptIndex, FileNotFoundError):
            continue
        found += [
            AbortedTransaction(one.producer_id, one.first_offset, one.last_offset)
            for one in index.entries()
            if one.last_offset >= start
        ]
    return found


def derived_aborted(segments: Sequence[Segment], start: int, end: int) -> list[AbortedTransaction]:
    """Return the aborted transactions with batches in `start..end - 1`, by the heads of entries.

    It reads on behind `end` until each of them has ended. Raises `OSError`.
    """
    state, found = OpenTransactions(), []
    for head, file in heads_from(segments, start):
        if head.base_offset >= end:
            if not state.first_offsets:
                break
            if not head.is_control:
                continue
        if head.last_offset >= start:
            aborted = state.add(head, file)
            if aborted is not None:
                found.append(aborted)
    return found


def heads_from(segments: Sequence[Segment], start: int) -> Iterator[tuple[BatchHead, SegmentFile]]:
    """Yield the heads from about an offset to the end of the log. Raises `OSError`."""
    first = floor_index(segments, start)
    for number, segment in enumerate(segments[first:]):
        with SegmentFile(segment.path) as file:
            position = 0 if number else locate(segment, file, start)
            for head in resynced(segment, file, position):
                yield head, file


def _load_snapshot(segments: Sequence[Segment], state: OpenTransactions, log_start: int, end: int) -> int:
    """Load the open transactions of the newest usable snapshot; return its offset."""
    lowest = max(segments[0].base_offset, log_start)
    snapshots = ProducerSnapshots(segments[0].directory)
    snapshots.find()
    for offset in sorted(snapshots.offsets, reverse=True):
        if not lowest <= offset <= end:
            continue
        try:
            producers = snapshots.read(offset)
        except (CorruptSnapshot, FileNotFoundError):
            continue
        for one in producers:
            if one.current_txn_first_offset >= 0:
                state.first_offsets[one.producer_id] = one.current_txn_first_offset
        return offset
    return segments[0].base_offset


def _marker(head: BatchHead, file: SegmentFile) -> ControlRecordType | None:
    """Return how a control batch ends a transaction, None if it does not or is damaged."""
    try:
        batch = RecordBatch(file.read(head.position, head.size_in_bytes))
        if not batch.is_valid_crc():
            return None
        kind = parse_control_key(next(batch.records()).key)
    except (CorruptRecord, StopIteration):
        return None
    return kind if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT) else None
