"""The lines of sound batches, many at a time: for a dump without records.

This runs for every batch of a log: nothing is made of one but its line. It knows batches of magic 2 that
nothing is wrong with, and ends at the first that is not plainly one of those: a scan (`batch_scan`), whose
checks these are, goes on from there and tells what it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.dump_text import CODEC_NAMES
from kcli.protocol.checksums import crc32c
from kcli.protocol.record_batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MIN_BATCH_LENGTH,
    SEQUENCE_MASK,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from kcli.storage.entry_head import BATCH_BITS

if TYPE_CHECKING:
    from kcli.commands.dump_options import DumpOptions

BUFFER_BYTES = 256 * 1024
MIN_RECORD_BYTES = 7
MAX_RELATIVE_OFFSET = 2**31 - 1

_OFFSET = Struct(">q")


def prints_only_batches(options: DumpOptions) -> bool:
    """Whether a dump shows all batches and no records."""
    return not options.deep and options.filter.is_empty and options.max_bytes is None


def attribute_texts(attributes: int) -> tuple[str, str, str]:
    """Return the parts of a line that depend on the attributes alone."""
    transactional = "true" if attributes & TRANSACTIONAL_BIT else "false"
    control = "true" if attributes & CONTROL_BIT else "false"
    kind = "LogAppendTime" if attributes & TIMESTAMP_TYPE_BIT else "CreateTime"
    return (
        f" isTransactional: {transactional} isControl: {control} deleteHorizonMs: OptionalLong",
        f" {kind}: ",
        f" magic: 2 compresscodec: {CODEC_NAMES[attributes & CODEC_MASK]} crc: ",
    )


class Shown(NamedTuple):
    """How far a log was shown: its last batch, if there is one, and where the next one begins."""

    last_position: int = -1
    last_offset: int = -1
    next_position: int = 0


class BatchLines:
    """Makes the lines of the batches behind those that are `shown`."""

    def __init__(self, path: str, base_offset: int, shown: Shown) -> None:
        self.shown = shown
        self.first_offset = -1
        self.size = 0
        """How long the file was when the lines began."""
        self._path = path
        self._base_offset = base_offset
        self._highest = base_offset + MAX_RELATIVE_OFFSET
        self._texts: dict[int, tuple[str, str, str] | None] = {
            attributes: attribute_texts(attributes)
            for attributes in range(BATCH_BITS + 1)
            if attributes & CODEC_MASK < len(CODEC_NAMES) - 3
        }

    @property
    def is_whole(self) -> bool:
        """Whether that was all there is."""
        return 0 < self.size == self.shown.next_position

    def run(self, end: int | None = None) -> Iterator[bytes]:
        """Yield lines, up to where a batch begins at `end`. Raises `OSError`."""
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            buffer = bytearray(BUFFER_BYTES)
            self.size = os.fstat(descriptor).st_size
            stop = self.size if end is None else end
            while (position := self.shown.next_position) < stop:
                limit = min(os.preadv(descriptor, [buffer], position), self.size - position)
                lines: list[str] = []
                goes_on = self._append(lines, buffer, limit, position, stop - position)
                if lines:
                    yield "".join(lines).encode("ascii")
                if not goes_on or self.shown.next_position == position:
                    return
        finally:
            os.close(descriptor)

    def _append(self, lines: list[str], buffer: bytearray, limit: int, origin: int, stop: int) -> bool:
        """Append the lines of the batches in the buffer; return whether more of them may follow.

        The buffer has `limit` bytes of the file from `origin` on; a batch at `stop` is not wanted.
        """
        view, unpack, append = memoryview(buffer), HEADER.unpack_from, lines.append
        texts, highest, is_last = self._texts, self._highest, origin + limit >= self.size
        at, last, goes_on = 0, -1, False
        expected = self.shown.last_offset + 1
        if self.shown.last_position < 0:
            expected = -1 if origin else self._base_offset
        while at + HEADER_SIZE <= limit and at < stop:
            (
                base_offset,
                length,
                leader_epoch,
                magic,
                crc,
                attributes,
                delta,
                base_timestamp,
                max_timestamp,
                producer_id,
                producer_epoch,
                sequence,
                count,
            ) = unpack(buffer, at)
            behind = at + LOG_OVERHEAD + length
            if magic != 2 or length < MIN_BATCH_LENGTH:
                break
            if behind > limit:
                goes_on = True
                break
            text = texts.get(attributes)
            if (
                crc32c(view[at + CRC_START : behind]) != crc
                or text is None
                or not 0 <= count <= delta + 1
                or (count * MIN_RECORD_BYTES > length - MIN_BATCH_LENGTH and not attributes & CODEC_MASK)
                or delta < 0
                or base_offset < 0
                or base_offset + delta > highest
            ):
                break
            if base_offset != expected and expected >= 0:
                if base_offset < expected:
                    break
                if behind + _OFFSET.size <= limit:
                    if _OFFSET.unpack_from(buffer, behind)[0] == expected + delta + 1:
                        break  # the next one goes on from where this one should have begun
                elif not is_last and at:
                    goes_on = True
                    break
            flags, kind, codec = text
            horizon = f"[{base_timestamp}]" if attributes & DELETE_HORIZON_BIT else ".empty"
            last_sequence = sequence if sequence < 0 else sequence + delta & SEQUENCE_MASK
            append(
                f"baseOffset: {base_offset} lastOffset: {base_offset + delta} count: {count} "
                f"baseSequence: {sequence} lastSequence: {last_sequence} producerId: {producer_id} "
                f"producerEpoch: {producer_epoch} partitionLeaderEpoch: {leader_epoch}{flags}{horizon} "
                f"position: {origin + at}{kind}{max_timestamp} size: {behind - at}{codec}{crc} "
                "isvalid: true\n"
            )
            if self.first_offset < 0:
                self.first_offset = base_offset
            last, at, expected = at, behind, base_offset + delta + 1
        else:
            goes_on = not is_last
        if last >= 0:
            self.shown = Shown(origin + last, expected - 1, origin + at)
        return goes_on
