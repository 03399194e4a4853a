"""Divergence: whether a log still has the batches that earlier runs read.

A batch that has the offset of a mark tells by its leader epoch. Where there is none, because it was deleted
or compacted away, the checkpoint of leader epochs tells where the epoch ends; without one nothing does.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.records.batch_header import EPOCH_POSITION
from kcli.spark.logs.transactions import heads_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.forensics.entries.segment_file import SegmentFile
    from kcli.spark.logs.head_walk import Head
    from kcli.spark.logs.segments import Segment
    from kcli.spark.reading import BatchMark, OffsetInterval
    from kcli.storage.log.leader_epochs import LeaderEpochs

_EPOCH = Struct(">i")


def divergence(
    segments: Sequence[Segment], epochs: LeaderEpochs, marks: Sequence[BatchMark], offsets: OffsetInterval
) -> int | None:
    """Return the lowest offset from which a log is another one, None if it has all the batches of the marks.

    `epochs` are those of its checkpoint, `offsets` what it has from its start to its end. Raises `OSError`.
    """
    found = [_divergence(segments, epochs, mark, offsets) for mark in marks]
    return min((offset for offset in found if offset is not None), default=None)


def _divergence(
    segments: Sequence[Segment], epochs: LeaderEpochs, mark: BatchMark, offsets: OffsetInterval
) -> int | None:
    written_by = _epoch_of(segments, mark.offset) if mark.offset >= offsets.start else None
    if written_by == mark.leader_epoch:
        return None
    if len(epochs):
        epoch, end = epochs.end_offset_for(mark.leader_epoch, offsets.end)
        if epoch != mark.leader_epoch or end <= mark.offset:
            return max(end, 0)
    return None if written_by is None else _first_above(segments, mark, offsets.start)


def _epoch_of(segments: Sequence[Segment], offset: int) -> int | None:
    """Return the leader epoch of the batch that has an offset, None if there is no such batch."""
    for head, file in heads_from(segments, offset):
        if head.last_offset >= offset:
            return _leader_epoch(head, file) if head.first_offset <= offset else None
    return None


def _first_above(segments: Sequence[Segment], mark: BatchMark, start: int) -> int:
    """Return where the batches of later epochs begin, 0 if there are none before the mark."""
    for head, file in heads_from(segments, start):
        if head.first_offset > mark.offset:
            break
        if (_leader_epoch(head, file) or 0) > mark.leader_epoch:
            return head.first_offset
    return 0


def _leader_epoch(head: Head, file: SegmentFile) -> int | None:
    """Return the leader epoch of an entry, None for one of the older formats, which have none."""
    if head.magic < 2:
        return None
    return int(_EPOCH.unpack(file.read(head.position + EPOCH_POSITION, _EPOCH.size))[0])
