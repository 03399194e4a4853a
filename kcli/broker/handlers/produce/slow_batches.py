"""Work of Produce that would block the loop too long, and runs in a thread.

`LongReading`: every batch is read to its last record. The size of a batch does not tell the cost: eleven
kilobytes can hold millions of records, and some have to be decoded, for another codec than that of the topic
or formats before 0.11. So the loop reads up to `LOOP_DECOMPRESSED_BYTES`, and a batch with more is read again
in a thread, a large compressed one only there. One at a time, which bounds the memory: a reading takes up to
about four times `MAX_DECOMPRESSED_BYTES`.

`LongWriting`: the page cache takes a megabyte in a fraction of a millisecond; a hundred megabytes, or a busy
disk, take far longer. So above `WRITTEN_ON_LOOP_BYTES` a thread writes behind the end of the segment, which
no reader passes, and the append on the loop only moves the end. Meanwhile nothing else is appended to the
partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.broker.waiting.threads import run_in_thread
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.records.batch_header import CODEC_MASK

if TYPE_CHECKING:
    from kcli.broker.replication.partition import Partition
    from kcli.storage.log.file_records import WriteAhead
    from kcli.storage.log.log_appender import LogAppendInfo
    from kcli.storage.log.log_validator import LogValidator, ValidatedRecords
    from kcli.storage.producers.producer_guards import ProducerGuard


YIELD_BYTES = 1024 * 1024
"""A request above this size lets others run between its partitions."""
LOOP_DECOMPRESSED_BYTES = 512 * 1024
LOOP_COMPRESSED_BYTES = 128 * 1024
"""Larger compressed batches are read in a thread at once, while the loop receives the next request."""
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""The most bytes that the check of a batch may decompress; a larger batch is refused."""

_ATTRIBUTES_POSITION = 22
_ONE_AT_A_TIME = trio.CapacityLimiter(1)


def must_read_long(records: memoryview) -> bool:
    """Return whether the records are so large and compressed that the loop should not even begin."""
    return len(records) > LOOP_COMPRESSED_BYTES and records[_ATTRIBUTES_POSITION] & CODEC_MASK != 0


class LongReading:
    """Records that a validator reads in a thread; their memory must stay valid until then."""

    __slots__ = ("_error", "_now_ms", "_records", "_validated", "_validator")

    def __init__(self, validator: LogValidator, records: memoryview, now_ms: int) -> None:
        self._validator = validator
        self._records = records
        self._now_ms = now_ms
        self._validated: ValidatedRecords | None = None
        self._error: KafkaError | None = None

    async def run(self) -> None:
        """Read the records, for `result`."""
        try:
            self._validated = await run_in_thread(self._validate, limiter=_ONE_AT_A_TIME)
        except KafkaError as error:
            self._error = error.detached()

    def _validate(self) -> ValidatedRecords:
        return self._validator.validate(
            self._records, now_ms=self._now_ms, max_decompressed=MAX_DECOMPRESSED_BYTES
        )

    def result(self) -> ValidatedRecords:
        """Return the validated records of `run`. Raises `KafkaError`."""
        if self._error is not None:
            raise self._error
        assert self._validated is not None
        return self._validated


WRITTEN_ON_LOOP_BYTES = 1024 * 1024

_WRITERS = trio.CapacityLimiter(2)


class LongWriting:
    """Validated records that a thread writes to a partition without another writer."""

    __slots__ = ("_acks", "_error", "_guard", "_info", "_now_ms", "_partition", "_validated")

    def __init__(
        self,
        partition: Partition,
        validated: ValidatedRecords,
        acks: int,
        now_ms: int,
        guard: ProducerGuard | None,
    ) -> None:
        self._guard = guard
        self._partition = partition
        self._validated = validated
        self._acks = acks
        self._now_ms = now_ms
        self._info: LogAppendInfo | None = None
        self._error: KafkaError | None = None

    async def run(self) -> None:
        """Write and append the records, for `result`."""
        partition = self._partition
        try:
            written = partition.write_ahead(self._validated, acks=self._acks, now_ms=self._now_ms)
            if written is not None:
                await self._write(written)
            else:
                self._append(None)
        except KafkaError as error:
            self._error = error.detached()

    async def _write(self, written: WriteAhead) -> None:
        partition = self._partition
        done = partition.writing = trio.Event()
        try:
            try:
                await run_in_thread(written.run, limiter=_WRITERS)
            except OSError as error:
                raise partition.log.failed("append to", error) from error
            self._append(written)
        finally:
            partition.writing = None
            done.set()
            if not written.served:
                # The leader moved, the segment was rolled, or the batch is a duplicate.
                self._undo(written)

    def _append(self, written: WriteAhead | None) -> None:
        self._info = self._partition.append_validated(
            self._validated, acks=self._acks, now_ms=self._now_ms, written=written, guard=self._guard
        )

    def _undo(self, written: WriteAhead) -> None:
        try:
            written.undo()
        except OSError as error:
            self._error = self._partition.log.failed("append to", error, is_whole=False)

    def result(self) -> LogAppendInfo:
        """Return what `run` has appended. Raises `KafkaError`."""
        if self._error is not None:
            raise self._error
        assert self._info is not None
        return self._info


class OtherWriting:
    """The wait for another request that writes to the partition."""

    __slots__ = ("_done",)

    def __init__(self, done: trio.Event) -> None:
        self._done = done

    async def run(self) -> None:
        """Return when it is done; yet another one may write by then."""
        await self._done.wait()
