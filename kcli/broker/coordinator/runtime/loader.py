"""Loading: replays a partition's log into the shard of a node that has become its leader.

It reads up to the log's end, because what the leader has will be committed. A transaction that is open there
stays open: its marker is still to come. Between pages, and often within one, other tasks get their turn; a
shard that was closed meanwhile is left alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import trio

from kcli.errors import KcliError
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import UnknownRecordType
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.protocol.records.record import NO_PRODUCER_ID
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


class ReplayedShard(Protocol):
    """What a log is replayed into, in the order of its offsets."""

    def replay(self, key: Any, value: Any, offset: int, producer_id: int) -> None: ...  # noqa: ANN401

    def replay_end(self, producer_id: int, is_commit: bool) -> None: ...


class _HeldBatch:
    """The records of a batch; `producer_id` is -1 once they belong to no open transaction."""

    __slots__ = ("producer_id", "records")

    def __init__(self, records: list[Record], producer_id: int) -> None:
        self.records = records
        self.producer_id = producer_id


class LogReplay:
    """One reading of one log (Kafka class `CoordinatorLoaderImpl`); `next_offset` follows what has been read.

    Of the records of a page with the same key only the last is replayed, as if the log had been compacted:
    shards must accept that anyway, and most of the log is offsets that were committed again a second later. A
    transaction whose records and marker are in one page is decided here: its records count in their place in
    the log, or not at all. The records of other transactions are replayed in the order of the log, with their
    producer id, and the markers as `replay_end`.

    Damage costs only what is damaged: a batch with a wrong checksum, an unreadable record, or one that the
    shard rejects. Each costs a line in the broker's log, up to `REPORTED` lines.
    """

    def __init__(self, shard: ReplayedShard, *, decode: Decode, report: Callable[[str], None]) -> None:
        self.next_offset = 0
        self.records = 0
        """How many records were read, including those not replayed."""
        self.passed_over = 0
        """How many batches and records were damaged."""
        self.damage: str | None = None
        self._shard = shard
        self._decode = decode
        self._report = report
        self._latest: dict[bytes | int, Record] = {}
        """The last record of each key, so far; the key of another one is its offset."""
        self._held: deque[_HeldBatch] = deque()
        """What follows the first batch of the page that is undecided, and that batch."""
        self._undecided: dict[int, list[_HeldBatch]] = {}
        """The batches among them whose marker has not come yet, by producer id."""
        self._open: set[int] = set()
        """The producers whose transactions the shard knows."""
        self._unknown_types: set[int] = set()

    def page(self, data: bytes) -> Iterator[None]:
        """Replay the whole batches in `data`; yield every few records.

        If the start of the next batch is unknown, the page ends there and `damage` gives the reason.
        """
        self.damage = None
        try:
            for entry in iter_batches(data):
                before = self.records
                records = self._read(entry)
                producer_id = entry.producer_id
                if producer_id in self._open:
                    yield from self._replay_held()
                    yield from self._replay_open(entry, records)
                elif producer_id < 0 and not self._held:
                    self._keep_latest(records)
                elif entry.is_control:
                    self._decide(producer_id, records)
                else:
                    self._hold(_HeldBatch(records, producer_id))
                self.next_offset = entry.next_offset
                if self.records // RECORDS_PER_STEP != before // RECORDS_PER_STEP:
                    yield
        except CorruptRecord as error:
            self.damage = error.message
        yield from self._replay_held()

    def skip(self, reason: str) -> None:
        """Count and report something that could not be read."""
        self.passed_over += 1
        if self.passed_over <= REPORTED:
            self._report(f"passed over {reason}")
        elif self.passed_over == REPORTED + 1:
            self._report("passed over more damage; further lines are left out")

    def _read(self, entry: RecordBatch | LegacyEntry) -> list[Record]:
        """Return the records of a batch; none if it is damaged, or a control batch without a producer."""
        where = f"offsets {entry.base_offset} to {entry.last_offset}"
        if not entry.is_valid_crc():
            self.skip(f"{where}: the checksum is wrong")
            return []
        try:
            records = list(entry.records())
        except CorruptRecord as error:
            self.skip(f"{where}: {error.message}")
            return []
        self.records += len(records)
        return [] if entry.is_control and entry.producer_id < 0 else records

    def _hold(self, batch: _HeldBatch) -> None:
        self._held.append(batch)
        if batch.producer_id >= 0:
            self._undecided.setdefault(batch.producer_id, []).append(batch)

    def _decide(self, producer_id: int, markers: list[Record]) -> None:
        """Apply a marker to the held batches of its producer."""
        for is_commit in self._outcomes(markers):
            for batch in self._undecided.pop(producer_id, ()):
                batch.producer_id = NO_PRODUCER_ID
                if not is_commit:
                    batch.records = []
        while self._held and self._held[0].producer_id < 0:
            self._keep_latest(self._held.popleft().records)

    def _replay_open(self, entry: RecordBatch | LegacyEntry, records: list[Record]) -> Iterator[None]:
        """Replay a batch of a transaction that the shard knows, or its marker."""
        if not entry.is_control:
            yield from self._replay(records, entry.producer_id)
            return
        for is_commit in self._outcomes(records):
            self._open.discard(entry.producer_id)
            try:
                self._shard.replay_end(entry.producer_id, is_commit)
            except Exception as error:
                # As in `_apply`.
                self.skip(f"offset {entry.base_offset}: {error!r}")

    def _outcomes(self, markers: list[Record]) -> Iterator[bool]:
        """Yield for each marker of a transaction's end whether it is a commit."""
        for marker in markers:
            try:
                kind = parse_control_key(marker.key)
            except CorruptRecord as error:
                self.skip(f"offset {marker.offset}: {error.message}")
                continue
            if kind in {ControlRecordType.COMMIT, ControlRecordType.ABORT}:
                yield kind is ControlRecordType.COMMIT

    def _keep_latest(self, records: list[Record]) -> None:
        latest = self._latest
        for record in records:
            if record.key is None:
                self.skip(f"offset {record.offset}: it has no key")
                continue
            former = latest.pop(record.key, None)
            if former is not None and former.value is None and self._open:
                # A deletion also takes what open transactions have written.
                latest[former.offset] = former
            latest[record.key] = record

    def _replay_held(self) -> Iterator[None]:
        """Replay what is held, in the order of the log; what is undecided becomes open."""
        while self._held:
            batch = self._held.popleft()
            if batch.producer_id < 0:
                self._keep_latest(batch.records)
            else:
                yield from self._replay_latest()
                self._open.add(batch.producer_id)
                yield from self._replay(batch.records, batch.producer_id)
        self._undecided.clear()
        yield from self._replay_latest()

    def _replay_latest(self) -> Iterator[None]:
        if self._latest:
            latest, self._latest = self._latest, {}
            yield from self._replay(latest.values(), NO_PRODUCER_ID)

    def _replay(self, records: Iterable[Record], producer_id: int) -> Iterator[None]:
        for number, record in enumerate(records, start=1):
            self._apply(record, producer_id)
            if number % RECORDS_PER_STEP == 0:
                yield

    def _apply(self, record: Record, producer_id: int) -> None:
        if record.key is None:
            self.skip(f"offset {record.offset}: it has no key")
            return
        try:
            decoded = self._decode(record.key, record.value)
            self._shard.replay(decoded.key, decoded.value, record.offset, producer_id)
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
    replay = LogReplay(host.shard, decode=decode, report=lambda line: _log.warning("%s: %s", name, line))
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
