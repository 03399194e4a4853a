"""Random operations on a log, compared with a list of batches."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log.log_read import Isolation
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness

PRODUCERS = st.sampled_from([7, 8, 9])
SUFFIXES = (".index", ".timeindex")


@dataclass(frozen=True)
class Written:
    """An acknowledged batch."""

    base_offset: int
    values: tuple[bytes, ...]
    timestamp: int
    epoch: int
    producer: tuple[int, int] | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)


class LogMachine(RuleBasedStateMachine):
    """A log and its expected content: `batches`, readable from `log_start` on."""

    @initialize(segment_bytes=st.sampled_from([600, 2000, 100_000]), interval=st.sampled_from([0, 200, 4096]))
    def start(self, segment_bytes: int, interval: int) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.harness = LogHarness(
            self.root, replace(SMALL, segment_bytes=segment_bytes, index_interval_bytes=interval)
        )
        self.batches: list[Written] = []
        self.log_start = 0
        self.end = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.checkpoint()

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.harness.log.close_handlers()
            shutil.rmtree(self.root)

    # --- changes

    def write(self, values: list[bytes], timestamp: int, codec: Codec, producer: int | None) -> None:
        sequence = None
        if producer is not None:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + len(values)
        info = self.harness.append(
            *values,
            timestamp=timestamp,
            codec=codec,
            producer=None if producer is None or sequence is None else (producer, 0, sequence),
            leader_epoch=self.epoch,
        )
        assert (info.first_offset, info.last_offset) == (self.end, self.end + len(values) - 1)
        known = None if producer is None or sequence is None else (producer, sequence)
        self.batches.append(Written(self.end, tuple(values), timestamp, self.epoch, known))
        self.end += len(values)

    @rule(
        values=st.lists(st.binary(max_size=60), min_size=1, max_size=4),
        delta=st.integers(0, 100),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
        producer=st.none() | PRODUCERS,
    )
    def append(self, values: list[bytes], delta: int, codec: Codec, producer: int | None) -> None:
        self.write(values, NOW_MS + delta, codec, producer)

    @rule(producer=PRODUCERS)
    def retry_the_last_batch(self, producer: int) -> None:
        written = [batch for batch in self.batches if batch.producer and batch.producer[0] == producer]
        if not written:
            return
        last = written[-1]
        assert last.producer is not None
        if last.producer[1] + len(last.values) != self.sequences.get(producer):
            return
        info = self.harness.append(*last.values, producer=(producer, 0, last.producer[1]))
        assert (info.duplicate, info.first_offset) == (True, last.base_offset)

    @rule(producer=PRODUCERS, skip=st.integers(1, 5))
    def skip_a_sequence(self, producer: int, skip: int) -> None:
        if producer not in self.sequences:
            return
        with pytest.raises(KafkaError) as refused:
            self.harness.append(b"x", producer=(producer, 0, self.sequences[producer] + skip))
        assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule()
    def elect(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.harness.log.roll(now_ms=NOW_MS)

    @rule()
    def flush(self) -> None:
        self.harness.log.flush(now_ms=NOW_MS)
        assert self.harness.log.recovery_point == self.end

    @rule()
    def checkpoint(self) -> None:
        self.harness.checkpoint()

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.batches) - 1))
        self.cut_model(number)
        self.harness.log.truncate_to(self.end, now_ms=NOW_MS)
        self.harness.checkpoint()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log_start, self.end))
        assert self.harness.log.delete_records_before(offset) == offset
        self.set_log_start(offset)
        self.harness.checkpoint()

    @rule(kept=st.integers(0, 3000))
    def retain(self, kept: int) -> None:
        log = self.harness.log
        log.update_config(replace(self.harness.config, retention_bytes=kept))
        log.delete_old_segments(NOW_MS)
        log.update_config(self.harness.config)
        assert log.log_start_offset >= self.log_start
        self.set_log_start(log.log_start_offset)
        self.harness.checkpoint()

    # --- restarts

    @rule()
    def reopen(self) -> None:
        self.harness.reopen()

    @rule(lost_index=st.sampled_from([None, *SUFFIXES]), zeroed=st.booleans())
    def crash(self, lost_index: str | None, zeroed: bool) -> None:
        self.harness.log.close_handlers()
        if lost_index is not None:
            path = self.harness.path(self.harness.bases[-1], lost_index)
            if zeroed:
                path.write_bytes(bytes(path.stat().st_size))
            else:
                path.unlink()
        self.harness.start(is_clean=False)

    @precondition(lambda self: self.harness.log.segments.active.size)
    @rule(data=st.data(), flip=st.booleans())
    def crash_with_damage_in_the_last_segment(self, data: st.DataObject, flip: bool) -> None:
        active = self.harness.log.segments.active
        base, size = active.base_offset, active.size
        position = data.draw(st.integers(0, size - 1))
        # The checksum of a batch does not cover its base offset and epoch.
        starts = {entry.position: entry for entry in active.records.entries()}
        within = position - max(start for start in starts if start <= position)
        if flip and within < 16:
            position += 16 - within
        first_lost = next(
            entry.base_offset for entry in starts.values() if entry.position + entry.size > position
        )
        self.harness.log.close_handlers()
        if flip:
            self.harness.corrupt(base, position)
        else:
            os.truncate(self.harness.path(base), position)
        self.lose_from(first_lost)
        self.harness.start(is_clean=False)

    # --- the model

    def lose_from(self, offset: int) -> None:
        keep = [number for number, batch in enumerate(self.batches) if batch.base_offset < offset]
        self.cut_model(len(keep), end=max(offset, self.harness.bases[-1]))
        if self.end < self.log_start:
            # The log ends below its checkpointed start: it restarts there, empty.
            self.batches.clear()
            self.end = self.log_start
            self.sequences.clear()

    def cut_model(self, count: int, end: int | None = None) -> None:
        if count < len(self.batches):
            self.end = self.batches[count].base_offset
        elif end is not None:
            self.end = end
        del self.batches[count:]
        self.log_start = min(self.log_start, self.end) if end is None else self.log_start
        self.sequences = {}
        for batch in self.batches:
            if batch.producer is not None:
                self.sequences[batch.producer[0]] = batch.producer[1] + len(batch.values)
        # A state rebuilt from the remaining records does not know those that retention deleted.
        known = {entry.producer_id for entry in self.harness.log.active_producers()}
        self.sequences = {producer: next_ for producer, next_ in self.sequences.items() if producer in known}

    def set_log_start(self, offset: int) -> None:
        self.log_start = max(self.log_start, offset)

    # --- what must hold

    @invariant()
    def producers_go_on(self) -> None:
        if not hasattr(self, "harness"):
            return
        known = {entry.producer_id: entry.last_sequence + 1 for entry in self.harness.log.active_producers()}
        self.sequences = {producer: known[producer] for producer in self.sequences if producer in known}
        for batch in self.batches:
            if batch.producer is not None and batch.base_offset >= self.log_start:
                assert batch.producer[0] in known
        for producer, following in known.items():
            ends = [
                batch.producer[1] + len(batch.values)
                for batch in self.batches
                if batch.producer is not None and batch.producer[0] == producer
            ]
            assert not ends or following == ends[-1]

    @invariant()
    def offsets_agree(self) -> None:
        if not hasattr(self, "harness"):
            return
        log = self.harness.log
        assert (log.log_start_offset, log.log_end_offset) == (self.log_start, self.end)
        assert log.high_watermark == self.end
        assert log.recovery_point <= self.end
        assert self.harness.failures == []

    @invariant()
    def every_record_is_there(self) -> None:
        if not hasattr(self, "harness"):
            return
        expected = [
            (batch.base_offset + number, value, batch.timestamp)
            for batch in self.batches
            for number, value in enumerate(batch.values)
            if batch.base_offset + number >= self.log_start
        ]
        found = [(record.offset, record.value, record.timestamp) for record in self.harness.records()]
        assert found == expected

    @invariant()
    def times_are_found(self) -> None:
        if not hasattr(self, "harness"):
            return
        for timestamp in (NOW_MS, NOW_MS + 50, NOW_MS + 101):
            expected = None
            for batch in self.batches:
                offset = max(batch.base_offset, self.log_start)
                if batch.timestamp >= timestamp and offset < batch.next_offset:
                    expected = (batch.timestamp, offset, batch.epoch)
                    break
            assert self.harness.log.offset_for_timestamp(timestamp) == expected

    @invariant()
    def any_offset_can_be_read(self) -> None:
        if not hasattr(self, "harness"):
            return
        for offset in {self.log_start, (self.log_start + self.end) // 2, max(self.end - 1, self.log_start)}:
            read = self.harness.log.read(offset, 1, isolation=Isolation.HIGH_WATERMARK)
            assert (read.file_slice is None) == (offset == self.end)


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
