"""CompletedFetch: one partition's data of a fetch response, decoded only when it is handed out.

Control batches are never delivered. Under read_committed the batches of aborted transactions are not
delivered either: the response lists their (producer id, first offset), and an ABORT marker ends each.
Undelivered data still moves the position to the end of its batch, because compaction leaves holes anywhere.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.errors import KcliError
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.protocol.records.record import TimestampType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.messages.fetch import PartitionData
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.protocol.records.record import Record
    from kcli.protocol.topics import TopicPartition

THREAD_BYTES = 64 * 1024
"""From this compressed size on, a worker thread costs less than the delay of the event loop."""

DAMAGE_HINT = "`kcli verify-index` and `kcli dump-log` show the damage"
CHECKSUM_HINT = f"`-X check.crcs=false` reads on all the same, {DAMAGE_HINT}"

_OFFSET_AND_SIZE = Struct(">qi")
_DELTA = Struct(">i")
_OVERHEAD = 12
_MAGIC_POSITION = 16
_DELTA_POSITION = 23


class BadFetch(KcliError):
    """The broker sent unreadable bytes: damaged, or no whole batch."""


class FetchedRecords(NamedTuple):
    """Records of one partition in offset order, never empty; all their timestamps are of one type."""

    partition: TopicPartition
    records: list[Record]
    timestamp_type: TimestampType


def end_of(data: Buffer, start: int) -> int:
    """Return the offset after the last whole batch in `data`, else `start`; reads sizes only."""
    end = len(data)
    position = last = 0
    found = False
    while end - position > _MAGIC_POSITION:
        _, size = _OFFSET_AND_SIZE.unpack_from(data, position)
        if size <= 0 or _OVERHEAD + size > end - position:
            break
        last, found = position, True
        position += _OVERHEAD + size
    if not found:
        return start
    offset, size = _OFFSET_AND_SIZE.unpack_from(data, last)
    delta = 0
    if data[last + _MAGIC_POSITION] == 2 and size > _DELTA_POSITION:
        (delta,) = _DELTA.unpack_from(data, last + _DELTA_POSITION)
    next_offset: int = offset + delta + 1
    return max(start, next_offset)


class CompletedFetch:
    """A response for `partition`, fetched at `fetch_offset`; the next fetch continues at `end_offset`.

    `leader_epoch` is that of the last records handed out, -1 before the first.
    """

    __slots__ = (
        "_aborted", "_aborted_ids", "_batches", "_check_crcs", "_error", "_is_read_committed", "_records",
        "_timestamp_type", "end_offset", "fetch_offset", "leader_epoch", "next_offset", "partition", "token",
    )  # fmt: skip

    def __init__(
        self,
        partition: TopicPartition,
        fetch_offset: int,
        token: object,
        data: PartitionData,
        *,
        is_read_committed: bool,
        check_crcs: bool,
    ) -> None:
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.next_offset = fetch_offset
        self.leader_epoch = -1
        self.token = token
        records = data.records if data.records is not None else b""
        self.end_offset = end_of(records, fetch_offset)
        self._batches = iter_batches(records)
        self._records: Iterator[Record] | None = None
        self._error: BadFetch | None = None
        self._timestamp_type = TimestampType.CREATE_TIME
        self._is_read_committed = is_read_committed
        self._check_crcs = check_crcs
        aborted = data.aborted_transactions if is_read_committed else None
        self._aborted = deque(sorted((entry.first_offset, entry.producer_id) for entry in aborted or ()))
        self._aborted_ids: set[int] = set()

    async def take(self, limit: int) -> FetchedRecords | None:
        """Return up to `limit` more records, None after the last; raise `BadFetch` for damaged data."""
        if self._error is not None:
            raise self._error
        try:
            while self._records is not None or await self._next_batch():
                assert self._records is not None
                records = list(islice(self._records, limit))
                if not records:
                    self._records = None
                    continue
                if records[0].offset < self.next_offset:
                    # A batch may begin before the offset that was asked for.
                    records = [record for record in records if record.offset >= self.next_offset]
                if records:
                    self.next_offset = records[-1].offset + 1
                    return FetchedRecords(self.partition, records, self._timestamp_type)
        except CorruptRecord as error:
            hint = error.hint or DAMAGE_HINT
            place = f"{self.partition}@{self.next_offset}"
            self._error = BadFetch(f"cannot read {place}: {error.message}", hint=hint)
            raise self._error from error
        self.next_offset = max(self.next_offset, self.end_offset)
        return None

    async def _next_batch(self) -> bool:
        """Open the next batch to deliver; return False after the last one."""
        for batch in self._batches:
            if self._check_crcs and not batch.is_valid_crc():
                raise CorruptRecord("the checksum does not match", hint=CHECKSUM_HINT)
            if not self._is_delivered(batch):
                self.next_offset = max(self.next_offset, batch.next_offset)
                continue
            self._timestamp_type = batch.timestamp_type
            self.leader_epoch = batch.partition_leader_epoch
            if isinstance(batch, RecordBatch) and batch.is_compressed and batch.size_in_bytes >= THREAD_BYTES:
                data = await trio.to_thread.run_sync(batch.record_data)
                self._records = batch.parse_records(data)
            else:
                self._records = batch.records()
            return True
        return False

    def _is_delivered(self, batch: RecordBatch | LegacyEntry) -> bool:
        if self._is_read_committed and batch.has_producer_id:
            while self._aborted and self._aborted[0][0] <= batch.last_offset:
                self._aborted_ids.add(self._aborted.popleft()[1])
            if batch.is_control:
                first = next(batch.records(), None)
                if first is not None and parse_control_key(first.key) is ControlRecordType.ABORT:
                    self._aborted_ids.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in self._aborted_ids:
                return False
        return not batch.is_control
