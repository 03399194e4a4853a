"""Losses: what becomes of damage, and which offsets of a range it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.spark.reading import OffsetInterval, OnCorrupt

if TYPE_CHECKING:
    from kcli.protocol.record import Buffer
    from kcli.spark.columns.corrupt_batch import CorruptBatch
    from kcli.spark.reading import ReadCounters


class Losses:
    """Damage met while offsets `start..end - 1` of one partition are read.

    Damage in front of the range, where a reader begins at an earlier entry, is nobody's loss: it counts only
    if the next good entry begins behind `start`.
    """

    def __init__(
        self, topic: str, partition: int, start: int, end: int, on_corrupt: OnCorrupt, counters: ReadCounters
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end
        self.on_corrupt = on_corrupt
        self.counters = counters
        self._lost_from = start
        self.is_searching = False
        """Whether bytes were skipped that no good entry has followed yet."""
        self._undecided: list[tuple[CorruptBatch, int, bytes]] = []

    def lose(self, damage: CorruptBatch, skipped_bytes: int, raw: Buffer, next_offset: int) -> None:
        """Take note that bytes were skipped behind the offsets below `next_offset`, or raise the damage."""
        if not self.is_searching:
            self.is_searching = True
            self._lost_from = max(next_offset, self.start)
        if next_offset >= self.start:
            self._count(damage, skipped_bytes, raw)
        else:
            self._undecided.append((damage, skipped_bytes, bytes(raw)))

    def found(self, first: int) -> None:
        """Take note that a good entry begins at offset `first`, so that it is known what was lost."""
        if not self.is_searching:
            return
        lost = OffsetInterval(self._lost_from, min(first, self.end))
        self.is_searching = False
        if lost.start < lost.end:
            for damage, skipped_bytes, raw in self._undecided:
                self._count(damage, skipped_bytes, raw)
            self.counters.missing.append(lost)
        self._undecided.clear()

    def leave_out(self, damage: CorruptBatch, raw: Buffer) -> None:
        """Take note that a whole batch with a good header cannot be read, or raise the damage."""
        self._count(damage, damage.size, raw)
        lost = OffsetInterval(max(damage.first, self.start), min(damage.last + 1, self.end))
        if lost.start < lost.end:
            self.counters.missing.append(lost)

    def _count(self, damage: CorruptBatch, skipped_bytes: int, raw: Buffer) -> None:
        if self.on_corrupt is OnCorrupt.FAIL:
            raise damage
        self.counters.corrupt_batches += 1
        self.counters.corrupt_bytes += skipped_bytes
        if self.on_corrupt is OnCorrupt.DEAD_LETTER and self.counters.on_damaged_batch is not None:
            self.counters.on_damaged_batch(
                self.topic, self.partition, damage.position, bytes(raw), damage.reason
            )
