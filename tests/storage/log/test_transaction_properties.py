"""Random transactions on a leader's log and its follower's, compared with a list of batches.

The model knows every batch, and derives from the list what a log keeps up to date: each producer's epoch and
sequences, the last stable offset, what readers of committed records see.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.control_records import ControlRecordType, TransactionMarker, parse_control_key
from kcli.storage.index.transaction_index import AbortedTransaction
from kcli.storage.log.log_config import LogConfig, LogSettings
from kcli.storage.log.log_loader import Checkpointed, load_log
from kcli.storage.log.log_read import Isolation
from kcli.storage.log.unified_log import UnifiedLog
from tests.storage.log_harness import NOW_MS, TOPIC_PARTITION, batch_of

TRANSACTIONAL = st.sampled_from([1, 2, 3])
IDEMPOTENT, NOBODY = 9, -1


@dataclass(frozen=True)
class Written:
    """A batch; `is_commit` is that of a marker, None for data."""

    base_offset: int
    count: int
    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    is_commit: bool | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.count


@dataclass
class Producer:
    epoch: int = -1
    open_from: int = -1
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    """Offset, first and last sequence."""

    @property
    def next_sequence(self) -> int:
        return self.batches[-1][2] + 1 if self.batches else 0


class Model:
    """What follows from the batches of a log."""

    def __init__(self, batches: list[Written]) -> None:
        self.producers: dict[int, Producer] = {}
        self.ended: list[tuple[int, int, int, bool]] = []
        """Producer, first offset, offset of the marker, is a commit."""
        for batch in batches:
            if batch.producer_id != NOBODY:
                self._take(batch)

    def _take(self, batch: Written) -> None:
        producer = self.producers.setdefault(batch.producer_id, Producer())
        if batch.epoch != producer.epoch:
            producer.epoch = batch.epoch
            producer.batches.clear()
        if batch.is_commit is not None:
            if producer.open_from >= 0:
                self.ended.append((batch.producer_id, producer.open_from, batch.base_offset, batch.is_commit))
            producer.open_from = -1
            return
        producer.batches.append((batch.base_offset, batch.sequence, batch.sequence + batch.count - 1))
        if batch.is_transactional and producer.open_from < 0:
            producer.open_from = batch.base_offset

    def last_stable_offset(self, high_watermark: int, log_start: int) -> int:
        unstable = [each.open_from for each in self.producers.values() if each.open_from >= 0]
        unstable += [first for _, first, marker, _ in self.ended if marker >= high_watermark]
        return min(max(min(unstable, default=high_watermark), log_start), high_watermark)

    def is_aborted(self, batch: Written) -> bool:
        return any(
            producer_id == batch.producer_id and first <= batch.base_offset < marker and not is_commit
            for producer_id, first, marker, is_commit in self.ended
            if batch.is_transactional
        )


class TransactionMachine(RuleBasedStateMachine):
    """A leader's log whose `batches` are known, and a follower's, which has the first `copied` of them."""

    @initialize(segment_bytes=st.sampled_from([400, 900, 100_000]))
    def start(self, segment_bytes: int) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100, file_delete_delay_ms=0)
        self.failures: list[str] = []
        self.batches: list[Written] = []
        self.high_watermark = 0
        self.follower_high_watermark = 0
        self.recovery_points = [0, 0]
        self.leader = self._load(0, is_clean=True)
        self.follower = self._load(1, is_clean=True)

    def _load(self, number: int, *, is_clean: bool) -> UnifiedLog:
        directory = self.root / str(number)
        directory.mkdir(exist_ok=True)
        return load_log(
            str(directory),
            TOPIC_PARTITION,
            topic_id=None,
            settings=LogSettings(
                config=self.config,
                report=lambda message: None,
                on_failure=lambda _, message: self.failures.append(message),
            ),
            now_ms=NOW_MS,
            checkpointed=Checkpointed(is_clean, self.recovery_points[number], 0),
        )

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.leader.close_handlers()
            self.follower.close_handlers()
            shutil.rmtree(self.root)

    @property
    def model(self) -> Model:
        return Model(self.batches)

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    # --- appends

    def write(self, count: int, producer_id: int, epoch: int, sequence: int, *, transactional: bool) -> None:
        values = [b"%d" % (self.end + number) for number in range(count)]
        batch = batch_of(
            *values, producer=(producer_id, epoch, sequence), is_transactional=transactional, keys=None
        )
        info = self.leader.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
        assert (info.first_offset, info.duplicate) == (self.end, False)
        self.batches.append(Written(self.end, count, producer_id, epoch, sequence, transactional))

    @rule(count=st.integers(1, 4))
    def plain_data(self, count: int) -> None:
        self.write(count, NOBODY, -1, -1, transactional=False)

    @rule(count=st.integers(1, 4))
    def idempotent_data(self, count: int) -> None:
        known = self.model.producers.get(IDEMPOTENT, Producer())
        self.write(count, IDEMPOTENT, 0, known.next_sequence, transactional=False)

    @rule(producer_id=TRANSACTIONAL, count=st.integers(1, 4))
    def transactional_data(self, producer_id: int, count: int) -> None:
        known = self.model.producers.get(producer_id, Producer(epoch=0))
        self.write(count, producer_id, known.epoch, known.next_sequence, transactional=True)

    def mark(self, producer_id: int, epoch: int, is_commit: bool, version: int) -> None:
        marker = TransactionMarker(producer_id, epoch, 0, is_commit, version)
        assert self.leader.append_marker(marker, leader_epoch=0, now_ms=NOW_MS).first_offset == self.end
        self.batches.append(Written(self.end, 1, producer_id, epoch, -1, True, is_commit))

    @rule(producer_id=TRANSACTIONAL, is_commit=st.booleans(), raises=st.booleans())
    def end_transaction(self, producer_id: int, is_commit: bool, raises: bool) -> None:
        known = self.model.producers.get(producer_id)
        if known is not None and known.open_from >= 0:
            self.mark(producer_id, known.epoch + raises, is_commit, 2 if raises else 0)

    @rule(producer_id=TRANSACTIONAL, is_commit=st.booleans())
    def repeat_a_marker(self, producer_id: int, is_commit: bool) -> None:
        known = self.model.producers.get(producer_id)
        if known is not None and known.open_from < 0:
            self.mark(producer_id, known.epoch, is_commit, 2)

    # --- what a leader refuses

    @rule(producer_id=st.sampled_from([1, 2, 3, IDEMPOTENT]), number=st.integers(0, 4))
    def repeat_a_batch(self, producer_id: int, number: int) -> None:
        known = self.model.producers.get(producer_id)
        if known is None or number >= len(known.batches):
            return
        offset, first, last = known.batches[number]
        batch = batch_of(
            *[b"x"] * (last - first + 1),
            producer=(producer_id, known.epoch, first),
            is_transactional=producer_id != IDEMPOTENT,
        )
        info = self.leader.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
        assert (info.duplicate, info.first_offset) == (True, offset)

    @rule(producer_id=TRANSACTIONAL, wrong=st.sampled_from(["epoch", "sequence", "plain", "marker"]))
    def refuse(self, producer_id: int, wrong: str) -> None:
        known = self.model.producers.get(producer_id)
        if known is None:
            return
        epoch, sequence, transactional = known.epoch, known.next_sequence, True
        code = ErrorCode.INVALID_PRODUCER_EPOCH
        if wrong == "epoch":
            epoch -= 1
        elif wrong == "sequence":
            sequence, code = sequence + 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif known.open_from < 0:
            return
        elif wrong == "plain":
            transactional, code = False, ErrorCode.INVALID_TXN_STATE

        def attempt() -> None:
            if wrong == "marker":
                self.mark(producer_id, epoch, True, 2)
            else:
                self.write(1, producer_id, epoch, sequence, transactional=transactional)

        with pytest.raises(KafkaError) as refused:
            attempt()
        assert refused.value.code is code

    # --- replication

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        """Copy some of what the follower lacks; the leader's high watermark follows, then the follower's."""
        start = self.follower.log_end_offset
        if start < self.end:
            read = self.leader.read(start, data.draw(st.integers(1, 1000)), isolation=Isolation.LOG_END)
            assert read.file_slice is not None
            records = memoryview(bytearray(read.file_slice.read()))
            if not self.follower.append_run(records):
                self.follower.append_as_follower(records, now_ms=NOW_MS)
        if self.leader.advance_high_watermark(self.follower.log_end_offset):
            self.high_watermark = self.follower.log_end_offset
        told = data.draw(st.sampled_from([self.high_watermark, self.follower_high_watermark]))
        self.follower.advance_high_watermark(told)
        self.follower_high_watermark = told

    @rule()
    def roll(self) -> None:
        self.leader.roll(now_ms=NOW_MS)

    @rule()
    def flush(self) -> None:
        for number, log in enumerate((self.leader, self.follower)):
            log.flush(now_ms=NOW_MS)
            self.recovery_points[number] = log.recovery_point

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), is_committed=st.booleans())
    def truncate(self, data: st.DataObject, is_committed: bool) -> None:
        """Truncate both logs, mostly above the high watermark, as a new leader's election does."""
        keep = data.draw(st.integers(0, len(self.batches)))
        if not is_committed:
            keep = max(keep, sum(batch.next_offset <= self.high_watermark for batch in self.batches))
        del self.batches[keep:]
        for number, log in enumerate((self.leader, self.follower)):
            log.truncate_to(self.end, now_ms=NOW_MS)
            self.recovery_points[number] = min(self.recovery_points[number], self.end)
        self.high_watermark = min(self.high_watermark, self.end)
        self.follower_high_watermark = min(self.follower_high_watermark, self.end)

    # --- restarts

    @rule(is_clean=st.booleans(), loses_snapshot=st.booleans())
    def restart(self, is_clean: bool, loses_snapshot: bool) -> None:
        for number, log in enumerate((self.leader, self.follower)):
            if is_clean:
                log.close(now_ms=NOW_MS)
                self.recovery_points[number] = log.recovery_point
            else:
                log.close_handlers()
            newest = max((self.root / str(number)).glob("*.snapshot"), default=None)
            if loses_snapshot and newest is not None:
                newest.write_bytes(newest.read_bytes()[:-1])
        self.leader = self._load(0, is_clean=is_clean)
        self.follower = self._load(1, is_clean=is_clean)
        self.leader.set_high_watermark(self.high_watermark)
        self.follower.set_high_watermark(self.follower_high_watermark)

    # --- what must hold

    def _logs(self) -> list[tuple[UnifiedLog, list[Written], int]]:
        if not hasattr(self, "follower"):
            return []
        copied = [batch for batch in self.batches if batch.next_offset <= self.follower.log_end_offset]
        return [
            (self.leader, self.batches, self.high_watermark),
            (self.follower, copied, self.follower_high_watermark),
        ]

    @invariant()
    def offsets_agree(self) -> None:
        for log, batches, high_watermark in self._logs():
            assert log.log_end_offset == (batches[-1].next_offset if batches else 0)
            assert log.high_watermark == high_watermark
            stable = Model(batches).last_stable_offset(high_watermark, log.log_start_offset)
            assert log.last_stable_offset == stable
        assert not getattr(self, "failures", [])

    @invariant()
    def producers_agree(self) -> None:
        for log, batches, _ in self._logs():
            found = {
                entry.producer_id: (
                    entry.producer_epoch,
                    entry.current_txn_first_offset,
                    [(each.first_offset, each.first_sequence, each.last_sequence) for each in entry.batches],
                )
                for entry in log.active_producers()
            }
            assert found == {
                producer_id: (known.epoch, known.open_from, list(known.batches))
                for producer_id, known in Model(batches).producers.items()
            }

    @invariant()
    def committed_records_are_what_readers_see(self) -> None:
        for log, batches, high_watermark in self._logs():
            model = Model(batches)
            stable = model.last_stable_offset(high_watermark, log.log_start_offset)
            expected = [
                offset
                for batch in batches
                if batch.is_commit is None and not model.is_aborted(batch)
                for offset in range(batch.base_offset, batch.next_offset)
                if offset < stable
            ]
            for max_bytes in (1, 300, 100_000):
                assert _read_committed(log, max_bytes) == expected

    @invariant()
    def every_aborted_transaction_is_listed(self) -> None:
        for log, batches, _ in self._logs():
            listed = [each for segment in log.segments for each in segment.indexes.transactions.entries()]
            assert [(each.producer_id, each.first_offset, each.last_offset) for each in listed] == [
                (producer_id, first, marker)
                for producer_id, first, marker, is_commit in Model(batches).ended
                if not is_commit
            ]


def _read_committed(log: UnifiedLog, max_bytes: int) -> list[int]:
    """Return the offsets that a consumer sees which skips aborted transactions, as Kafka's does."""
    offset = log.log_start_offset
    seen: list[int] = []
    while True:
        read = log.read(offset, max_bytes, isolation=Isolation.TXN_COMMITTED)
        if read.file_slice is None:
            return seen
        assert read.aborted is not None
        start = offset
        to_come = deque(sorted(read.aborted, key=lambda each: each.first_offset))
        aborted: set[int] = set()
        for batch in iter_batches(read.file_slice.read()):
            assert isinstance(batch, RecordBatch)
            _note_aborted(batch, to_come, aborted)
            if not batch.is_control and batch.producer_id not in aborted:
                seen += range(max(batch.base_offset, start), batch.next_offset)
            offset = batch.next_offset
        assert offset > start


def _note_aborted(batch: RecordBatch, to_come: deque[AbortedTransaction], aborted: set[int]) -> None:
    while to_come and to_come[0].first_offset <= batch.last_offset:
        aborted.add(to_come.popleft().producer_id)
    if batch.is_control:
        (record,) = batch.records()
        if parse_control_key(record.key) is ControlRecordType.ABORT:
            aborted.discard(batch.producer_id)


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
