"""LongReading: records that take too long to read on the loop are read in a thread.

Most batches are stored as they came. Some have to be read to the last record: keys of a compacted topic, a
codec other than the topic's, formats before 0.11. What that may cost nobody can tell from outside: eleven
kilobytes can hold millions of records. So the loop reads up to `LOOP_DECOMPRESSED_BYTES`, and what holds more
is read again in a thread. One at a time, so that memory stays bounded: a reading takes up to about four times
`MAX_DECOMPRESSED_BYTES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from kcli.storage.log.log_validator import LogValidator, ValidatedRecords

LOOP_DECOMPRESSED_BYTES = 512 * 1024
"""Decompressed in a millisecond; a record counts for 128 bytes at least (`BYTES_PER_RECORD`)."""
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""What checking one batch may decompress to; a batch that holds more is refused."""

_ONE_AT_A_TIME = trio.CapacityLimiter(1)


class LongReading:
    """Records on their way through a validator. They must stay where they are until it has ended."""

    __slots__ = ("_error", "_now_ms", "_records", "_validated", "_validator")

    def __init__(self, validator: LogValidator, records: memoryview, now_ms: int) -> None:
        self._validator = validator
        self._records = records
        self._now_ms = now_ms
        self._validated: ValidatedRecords | None = None
        self._error: KafkaError | None = None

    async def run(self) -> None:
        """Read; `result` tells what came of it."""
        try:
            self._validated = await trio.to_thread.run_sync(self._validate, limiter=_ONE_AT_A_TIME)
        except KafkaError as error:
            self._error = error.detached()

    def _validate(self) -> ValidatedRecords:
        return self._validator.validate(
            self._records, now_ms=self._now_ms, max_decompressed=MAX_DECOMPRESSED_BYTES
        )

    def result(self) -> ValidatedRecords:
        """Return the records, fit to be appended, once it has run. Raises `KafkaError`."""
        if self._error is not None:
            raise self._error
        assert self._validated is not None
        return self._validated
