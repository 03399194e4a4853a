"""RecordPrinter: reads a consumer to its end and writes formatted records to standard output.

Where to stop is said by `Limits`. Output goes out once per poll, from a thread, so that a reader that does
not read holds up neither the connection nor Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.commands.output import print_error
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.completed_fetch import FetchedRecords
    from kcli.client.consumer import Consumer
    from kcli.client.metadata import TopicPartition
    from kcli.commands.formatters import Format

RECORDS_PER_POLL = 5_000


class Limits(NamedTuple):
    """Where to stop: after so many records, after so much silence, or at these offsets (excluded)."""

    max_messages: int | None = None
    timeout_ms: int | None = None
    end_offsets: Mapping[TopicPartition, int] | None = None


class RecordPrinter:
    """Prints what a consumer reads and counts it."""

    def __init__(
        self, consumer: Consumer, format_record: Format, limits: Limits, *, skip_errors: bool
    ) -> None:
        self.count = 0
        self._consumer = consumer
        self._format = format_record
        self._limits = limits
        self._skip_errors = skip_errors

    async def run(self) -> None:
        """Print records until a limit is reached."""
        limits = self._limits
        # An empty partition has nothing to poll for: only its position tells that it is at its end.
        for partition in limits.end_offsets or ():
            await self._consumer.position(partition)
        while not self._is_done():
            most = RECORDS_PER_POLL
            if limits.max_messages is not None:
                most = min(most, limits.max_messages - self.count)
            with trio.move_on_after(trio_seconds(limits.timeout_ms)) as silence:
                fetched: list[FetchedRecords] = []
                while not fetched and not self._is_done():
                    fetched = await self._consumer.poll(most)
            if silence.cancelled_caught:
                return
            output: list[bytes] = []
            try:
                for part in fetched:
                    self._format_part(part, output)
            finally:
                await write_out(b"".join(output))

    def _is_done(self) -> bool:
        limits = self._limits
        if limits.max_messages is not None and self.count >= limits.max_messages:
            return True
        if limits.end_offsets is None:
            return False
        for partition, end in limits.end_offsets.items():
            position = self._consumer.position_nowait(partition)
            if position is None or position < end:
                return False
        return True

    def _format_part(self, fetched: FetchedRecords, output: list[bytes]) -> None:
        """Append the records of one partition as they are printed; those beyond its end are left out."""
        end = None if self._limits.end_offsets is None else self._limits.end_offsets.get(fetched.partition, 0)
        for record in fetched.records:
            if end is not None and record.offset >= end:
                return
            self.count += 1
            try:
                output.append(self._format(fetched, record))
            except KcliError as error:
                located = KcliError(
                    f"record {fetched.partition}@{record.offset}: {error.message}", hint=error.hint
                )
                if not self._skip_errors:
                    raise located from None
                print_error(located)


def trio_seconds(milliseconds: int | None) -> float:
    """Return a time limit as trio has it."""
    return float("inf") if milliseconds is None else milliseconds / 1000


async def write_out(data: bytes) -> None:
    """Write bytes to standard output; raise `BrokenPipeError` when nobody reads it any more."""
    if data:
        sys.stdout.flush()
        await trio.to_thread.run_sync(write_all, sys.stdout.fileno(), data, abandon_on_cancel=True)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, however often the kernel takes a part of it."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
