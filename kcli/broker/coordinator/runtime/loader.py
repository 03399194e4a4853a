"""Loading: replays a partition's log into the shard of a node that has become its leader.

It reads up to the log's end, because what the leader has will be committed. Between pages, and often within
one, other tasks get their turn; a shard that was closed meanwhile is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import trio

from kcli.errors import KcliError
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import UnknownRecordType
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.storage.log.log_read import Isolation

if TYPE_CHECKING:
    from kcli.broker.coordinator.runtime.shard_host import ShardHost
    from kcli.protocol.internal.coordinator_records import DecodedRecord
    from kcli.protocol.records.batch import RecordBatch
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.protocol.records.record import Record
    from kcli.storage.log.unified_log import UnifiedLog


RECORDS_PER_STEP = 128
"""After so many records other tasks may run."""

REPORTED = 10

Decode = Callable[[bytes, bytes | None], "DecodedRecord"]
"""Reads the key and the value of a record. Raises `DecodeError`."""


class LogReplay:
    """One reading of one log (Kafka class `CoordinatorLoader`); `next_offset` follows what has been read.

    Of the records of a page with the same key only the last is replayed, as if the log had been compacted:
    shards must accept that anyway, and most of the log is offsets that were committed again a second later.
    Records of a transaction count from its commit marker on.

    Damage costs only what is damaged: a batch with a wrong checksum, an unreadable record, or one that the
    shard rejects. Each costs a line in the broker's log, up to `REPORTED` lines.
    """

    def __init__(
        self, replay: Callable[[Any, Any], None], *, decode: Decode, report: Callable[[str], None]
    ) -> None:
        self.next_offset = 0
        self.records = 0
        """How many records were read, including those not replayed."""
        self.passed_over = 0
        """How many batches and records were damaged."""
        self.damage: str | None = None
        self._replay = replay
        self._decode = decode
        self._report = report
        self._latest: dict[bytes, Record] = {}
        self._transactions: dict[int, list[Record]] = {}
        self._unknown_types: set[int] = set()

    def page(self, data: bytes) -> Iterator[None]:
        """Replay the whole batches in `data`; yield every few records.

        If the start of the next batch is unknown, the page ends there and `damage` gives the reason.
        """
        self.damage = None
        try:
            for entry in iter_batches(data):
                before = self.records
                self._read(entry)
                self.next_offset = entry.next_offset
                if self.records // RECORDS_PER_STEP != before // RECORDS_PER_STEP:
                    yield
        except CorruptRecord as error:
            self.damage = error.message
        latest, self._latest = self._latest, {}
        for number, record in enumerate(latest.values(), start=1):
            self._apply(record)
            if number % RECORDS_PER_STEP == 0:
                yield

    def skip(self, reason: str) -> None:
        """Count and report something that could not be read."""
        self.passed_over += 1
        if self.passed_over <= REPORTED:
            self._report(f"passed over {reason}")
        elif self.passed_over == REPORTED + 1:
            self._report("passed over more damage; further lines are left out")

    def _read(self, entry: RecordBatch | LegacyEntry) -> None:
        where = f"offsets {entry.base_offset} to {entry.last_offset}"
        if not entry.is_valid_crc():
            self.skip(f"{where}: the checksum is wrong")
            return
        try:
            records = list(entry.records())
            self.records += len(records)
            if entry.is_control:
                self._end_transaction(entry.producer_id, records)
            elif entry.is_transactional:
                self._transactions.setdefault(entry.producer_id, []).extend(records)
            else:
                self._take(records)
        except CorruptRecord as error:
            self.skip(f"{where}: {error.message}")

    def _end_transaction(self, producer_id: int, markers: list[Record]) -> None:
        for marker in markers:
            kind = parse_control_key(marker.key)
            if kind in {ControlRecordType.COMMIT, ControlRecordType.ABORT}:
                records = self._transactions.pop(producer_id, [])
                self._take(records if kind is ControlRecordType.COMMIT else [])

    def _take(self, records: list[Record]) -> None:
        latest = self._latest
        for record in records:
            if record.key is None:
                self.skip(f"offset {record.offset}: it has no key")
                continue
            latest.pop(record.key, None)
            latest[record.key] = record

    def _apply(self, record: Record) -> None:
        assert record.key is not None
        try:
            decoded = self._decode(record.key, record.value)
            self._replay(decoded.key, decoded.value)
        except UnknownRecordType as error:
            if error.type not in self._unknown_types:
                self._unknown_types.add(error.type)
                self._report(f"passed over records of an unknown type: {error.type}")
        except KcliError as error:
            self.skip(f"offset {record.offset}: {error.message}")
        except Exception as error:
            # No content of a file may prevent the load of the other groups.
            self.skip(f"offset {record.offset}: {error!r}")


_log = logging.getLogger(__name__)


async def load(host: ShardHost[Any], *, decode: Decode, page_bytes: int) -> bool:
    """Replay the whole log; return False if the shard was closed. Raises `KafkaError` or `OSError`."""
    log = host.partition.log
    name = str(log.topic_partition)
    replay = LogReplay(
        host.shard.replay, decode=decode, report=lambda line: _log.warning("%s: %s", name, line)
    )
    replay.next_offset = log.log_start_offset
    started = trio.current_time()
    while replay.next_offset < log.log_end_offset:
        for _ in _page(log, replay, page_bytes):
            await trio.lowlevel.checkpoint()
            if host.is_closed:
                return False
        await trio.lowlevel.checkpoint()
        if host.is_closed:
            return False
    seconds = trio.current_time() - started
    _log.info("%s: read %d records in %.3f s", name, replay.records, seconds)
    return True


def _page(log: UnifiedLog, replay: LogReplay, page_bytes: int) -> Iterator[None]:
    """Replay the next page; after unreadable data, go on with the next segment."""
    offset = replay.next_offset
    try:
        records = log.read(offset, page_bytes, isolation=Isolation.LOG_END).file_slice
    except KafkaError as error:
        if error.code != ErrorCode.CORRUPT_MESSAGE:
            raise
        damage = error.message
    else:
        if records is None:
            # The records were compacted away.
            replay.next_offset = log.log_end_offset
            return
        yield from replay.page(records.read())
        if replay.damage is None and replay.next_offset > offset:
            return
        damage = replay.damage or "an entry is cut short"
    following = log.segments.higher(replay.next_offset)
    end = log.log_end_offset if following is None else following.base_offset
    replay.skip(f"offsets {replay.next_offset} to {end - 1}: {damage}")
    replay.next_offset = end
