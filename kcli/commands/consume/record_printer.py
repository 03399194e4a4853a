"""RecordPrinter: reads a consumer to its end and writes formatted records to standard output.

`Limits` say where to stop. Output goes out once per poll, through a `RecordOutput`. Whatever ends the
printing, exactly the records that went out whole count. In a group, the position of a partition, which will
be committed, is right after the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.commands.consume.record_output import Pieces
from kcli.commands.shared.output import print_error
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.consumer.consumer import Consumer
    from kcli.client.fetch.completed_fetch import FetchedRecords
    from kcli.commands.consume.formatters import Format
    from kcli.commands.consume.record_output import RecordOutput
    from kcli.protocol.topics import TopicPartition

RECORDS_PER_POLL = 5_000
SKIP_HINT = "`--skip-message-on-error` skips such records"

LOOK_MS = 200
"""How often to check for partitions that reach their end without a record: by the committed offset of their
group, or by a reset because the first records are deleted."""


class Limits(NamedTuple):
    """Where to stop: after so many records, after so much silence, or before these offsets.

    The offsets are those of all partitions to read, in a group those of the assigned partitions.
    """

    max_messages: int | None = None
    timeout_ms: int | None = None
    end_offsets: Mapping[TopicPartition, int] | None = None


class RecordPrinter:
    """Prints what a consumer reads; `count` is the number of records printed or skipped as unprintable."""

    def __init__(
        self,
        consumer: Consumer,
        format_record: Format,
        *,
        output: RecordOutput,
        limits: Limits,
        skip_errors: bool,
    ) -> None:
        self.count = 0
        self._consumer = consumer
        self._output = output
        self._format = format_record
        self._limits = limits
        self._skip_errors = skip_errors
        self._has_group = bool(consumer.config.group_id)

    async def run(self) -> None:
        """Print records until a limit is reached."""
        limits = self._limits
        # An empty partition returns no records: only its position tells that it is at its end.
        with trio.move_on_after(trio_seconds(limits.timeout_ms)) as silence:
            for partition in limits.end_offsets or ():
                await self._consumer.position(partition)
        if silence.cancelled_caught:
            return
        look_ms = LOOK_MS if limits.end_offsets is not None else None
        while not self._is_done():
            most = RECORDS_PER_POLL
            if limits.max_messages is not None:
                most = min(most, limits.max_messages - self.count)
            with trio.move_on_after(trio_seconds(limits.timeout_ms)) as silence:
                fetched: list[FetchedRecords] = []
                while not fetched and not self._is_done():
                    fetched = await self._consumer.poll(most, timeout_ms=look_ms)
            if silence.cancelled_caught:
                return
            await self._print([self._before_end(part) for part in fetched])

    def _is_done(self) -> bool:
        limits = self._limits
        if limits.max_messages is not None and self.count >= limits.max_messages:
            return True
        return self.is_at_end()

    def is_at_end(self) -> bool:
        """Tell whether every partition is read up to its end offset; False without such offsets."""
        limits = self._limits
        if limits.end_offsets is None or (self._has_group and not self._consumer.is_settled):
            return False
        for partition, end in limits.end_offsets.items():
            position = self._consumer.position_nowait(partition)
            if position is None or position < end:
                return False
        return True

    def _before_end(self, fetched: FetchedRecords) -> FetchedRecords:
        """Drop records beyond their partition's end, and pause it."""
        if self._limits.end_offsets is None:
            return fetched
        end = self._limits.end_offsets.get(fetched.partition, 0)
        if fetched.records[-1].offset >= end and fetched.partition not in self._consumer.paused:
            self._consumer.pause(fetched.partition)
            self._consumer.seek(fetched.partition, max(end, fetched.records[0].offset))
        return fetched._replace(records=[record for record in fetched.records if record.offset < end])

    async def _print(self, fetched: list[FetchedRecords]) -> None:
        formatted: list[bytes] = []
        try:
            for part in fetched:
                self._format_part(part, formatted)
        finally:
            # Records that were formatted before an error are printed.
            pieces = Pieces(formatted)
            try:
                await self._output.write(pieces)
            finally:
                self.count += pieces.whole_items
                self._go_back(fetched, pieces.whole_items)

    def _go_back(self, fetched: list[FetchedRecords], printed: int) -> None:
        """In a group, seek each partition to its first record that was not printed."""
        next_offsets: dict[TopicPartition, int] = {}
        for part in fetched if self._has_group else ():
            if printed < len(part.records):
                next_offsets.setdefault(part.partition, part.records[max(0, printed)].offset)
            printed -= len(part.records)
        for partition, offset in next_offsets.items():
            self._consumer.seek(partition, offset)

    def _format_part(self, fetched: FetchedRecords, formatted: list[bytes]) -> None:
        """Append the formatted records of one partition, one item for each."""
        for record in fetched.records:
            try:
                formatted.append(self._format(fetched, record))
            except KcliError as error:
                hint = error.hint or (None if self._skip_errors else SKIP_HINT)
                located = KcliError(f"record {fetched.partition}@{record.offset}: {error.message}", hint=hint)
                if not self._skip_errors:
                    raise located from None
                formatted.append(b"")
                print_error(located)


def trio_seconds(milliseconds: int | None) -> float:
    """Return a time limit in seconds, infinity for None."""
    return float("inf") if milliseconds is None else milliseconds / 1000
