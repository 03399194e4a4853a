"""BrokersReader: reads the splits of a running cluster, each over its own connection.

A broker lists (producer id, first offset) of the aborted transactions that a response may contain. Each ends
at its ABORT marker, a control batch of the same producer; without one it continues behind the response (Kafka
class `CompletedFetch`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.protocol.topics import TopicPartition
from kcli.spark.decode.entry import CorruptBatch, claimed_offsets, next_entry
from kcli.spark.decode.gatherer import Gatherer
from kcli.spark.source.brokers.fetch_stream import FetchStream, OutOfRange
from kcli.spark.source.data_loss import DataLoss, name_of
from kcli.spark.split import AbortedTransaction, OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.messages import fetch
    from kcli.spark.source.brokers.cluster_access import ClusterAccess
    from kcli.spark.source.brokers.fetch_stream import Answer
    from kcli.spark.split import ReadCounters, Reading, Split

_NO_END = 2**63 - 1


def rolled_back(
    listed: Collection[fetch.AbortedTransaction] | None, records: Buffer
) -> list[AbortedTransaction]:
    """Return the listed transactions, each with its end."""
    if not listed:
        return []
    begun: dict[int, list[int]] = {}
    for one in sorted(listed, key=lambda one: -one.first_offset):
        begun.setdefault(one.producer_id, []).append(one.first_offset)
    ended = []
    for producer_id, offset in _abort_markers(records, begun):
        firsts = begun[producer_id]
        if firsts and firsts[-1] <= offset:
            ended.append(AbortedTransaction(producer_id, firsts.pop(), offset))
    left = (AbortedTransaction(one, firsts[-1], _NO_END) for one, firsts in begun.items() if firsts)
    return [*ended, *left]


def _abort_markers(records: Buffer, producer_ids: Collection[int]) -> list[tuple[int, int]]:
    """Return (producer id, offset) of the ABORT markers, up to the first damage."""
    found = []
    try:
        for batch in iter_batches(records):
            if isinstance(batch, RecordBatch) and batch.is_control and batch.producer_id in producer_ids:
                first = next(batch.records(), None)
                if first is not None and parse_control_key(first.key) is ControlRecordType.ABORT:
                    found.append((batch.producer_id, batch.base_offset))
    except CorruptRecord:
        return found
    return found


@dataclass(frozen=True, slots=True)
class BrokersReader:
    """Reads splits; offsets that are gone raise `DataLoss` or are counted as missing."""

    access: ClusterAccess
    fail_on_data_loss: bool = True

    def read(self, split: Split, reading: Reading, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        return _SplitReading(self, split, reading, counters).rows()


class _SplitReading:
    def __init__(self, reader: BrokersReader, split: Split, reading: Reading, counters: ReadCounters) -> None:
        self._split = split
        self._reading = reading
        self._counters = counters
        self._fails = reader.fail_on_data_loss
        self._partition = TopicPartition(split.topic, split.partition)
        self._position = split.start
        self._probe = 1
        self._gatherer = self._gatherer_from(split.start)
        self._stream = FetchStream(
            reader.access, self._partition, split.end, read_committed=reading.read_committed
        )

    def rows(self) -> Iterator[pa.RecordBatch]:
        try:
            while self._position < self._split.end:
                try:
                    answer = self._stream.next(self._position)
                except OutOfRange as bounds:
                    self._go_behind_gap(bounds)
                else:
                    yield from self._rows_of(answer)
        finally:
            self._stream.close()
        self._gatherer.finish()

    def _rows_of(self, answer: Answer) -> Iterator[pa.RecordBatch]:
        gatherer = self._gatherer
        gatherer.where = f"the answer of {answer.address} for {name_of(self._partition)}@{self._position}"
        gatherer.know_aborted(rolled_back(answer.aborted, answer.records))
        at, stop = 0, len(answer.records)
        while at < stop and not gatherer.is_done:
            try:
                yield from gatherer.rows(answer.records, at, stop, is_end=True)
                if gatherer.stopped_at == 0:
                    raise self._cut_short(answer)
                break
            except CorruptBatch as damage:
                begin, at = gatherer.stopped_at, next_entry(answer.records, damage, gatherer.stopped_at)
                gatherer.skip_damaged(damage, at - begin, answer.records[begin:at])
                if at == stop:
                    self._position = self._behind_damage(damage, answer)
        if gatherer.next_offset > self._position:
            self._position = gatherer.next_offset
            self._probe = 1

    def _cut_short(self, answer: Answer) -> CorruptBatch:
        """Return the damage of a response that begins with part of an entry."""
        first, last = claimed_offsets(answer.records, 0, len(answer.records))
        reason = f"it is cut short at {len(answer.records)} bytes"
        return CorruptBatch(self._gatherer.where, 0, reason, first=first, last=last)

    def _behind_damage(self, damage: CorruptBatch, answer: Answer) -> int:
        """Return the offset to fetch behind a response that ends in damage.

        The broker too goes by the headers of batches: the last offset that the damaged one claims leads to
        the next. If nothing is claimed, the steps grow.
        """
        claimed = max(answer.following, damage.last + 1)
        if claimed > self._position:
            return claimed
        self._probe *= 2
        return self._position + self._probe // 2

    def _go_behind_gap(self, bounds: OutOfRange) -> None:
        """Go on at the first available offset, or at the end without one."""
        position, end = self._position, self._split.end
        if bounds.earliest <= position <= bounds.latest:
            return  # it is available again
        lost_to = min(bounds.earliest, end) if position < bounds.earliest else end
        if self._fails:
            raise DataLoss(
                f"cannot read all of {name_of(self._partition)}: offsets {position} to {lost_to - 1} "
                f"are gone, there are {bounds.earliest} to {bounds.latest - 1}"
            )
        self._counters.missing.append(OffsetInterval(position, lost_to))
        self._position = lost_to
        self._gatherer = self._gatherer_from(lost_to)

    def _gatherer_from(self, start: int) -> Gatherer:
        split = self._split
        return Gatherer(split.topic, split.partition, start, split.end, self._reading, self._counters)
