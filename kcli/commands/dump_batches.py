"""The lines of sound batches, a run of them at a time: for a dump without records.

They are made by one template for the whole run, in which columns that say the same for every batch, as nearly
all do, are text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import add
from typing import TYPE_CHECKING

from kcli.protocol.compression import Codec
from kcli.protocol.record_batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_OVERHEAD,
    SEQUENCE_MASK,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from kcli.storage.batch_run import BATCH_BITS

if TYPE_CHECKING:
    from kcli.storage.batch_run import BatchRun

CODEC_NAMES = tuple(codec.name.lower() for codec in Codec) + ("unknown",) * 3

Column = Sequence[int] | Sequence[bytes]

_FLAGS, _TIMES, _CODECS = zip(
    *(
        (
            b" isTransactional: %b isControl: %b"
            % (
                b"true" if bits & TRANSACTIONAL_BIT else b"false",
                b"true" if bits & CONTROL_BIT else b"false",
            ),
            b" LogAppendTime: " if bits & TIMESTAMP_TYPE_BIT else b" CreateTime: ",
            CODEC_NAMES[bits & CODEC_MASK].encode("ascii"),
        )
        for bits in range(BATCH_BITS + 1)
    ),
    strict=True,
)
"""What a line says of attributes, by their number."""


def run_lines(run: BatchRun) -> bytes:
    """Return the lines of batches, as `dump_text` makes that of a single one."""
    attributes = run.attributes
    columns: tuple[tuple[bytes, Column], ...] = (
        (b"baseOffset: ", run.base_offsets),
        (b" lastOffset: ", run.last_offsets),
        (b" count: ", run.counts),
        (b" baseSequence: ", run.sequences),
        (b" lastSequence: ", _last_sequences(run)),
        (b" producerId: ", run.producer_ids),
        (b" producerEpoch: ", run.producer_epochs),
        (b" partitionLeaderEpoch: ", run.leader_epochs),
        (b"", [_FLAGS[bits] for bits in attributes]),
        (b" deleteHorizonMs: OptionalLong", _horizons(run)),
        (b" position: ", run.positions),
        (b"", [_TIMES[bits] for bits in attributes]),
        (b"", run.max_timestamps),
        (b" size: ", [LOG_OVERHEAD + length for length in run.lengths]),
        (b" magic: 2 compresscodec: ", [_CODECS[bits] for bits in attributes]),
        (b" crc: ", run.crcs),
    )
    template = bytearray()
    varying: list[Column] = []
    for label, column in columns:
        first, form = column[0], b"%b" if isinstance(column[0], bytes) else b"%d"
        if first == column[-1] and len(set(column)) == 1:
            template += label + form % first
        else:
            template += label + form
            varying.append(column)
    template += b" isvalid: true\n"
    return bytes(template * len(run)) % tuple(chain.from_iterable(zip(*varying, strict=True)))


def _last_sequences(run: BatchRun) -> Sequence[int]:
    if max(run.sequences) < 0:
        return run.sequences
    return [
        first if first < 0 else last & SEQUENCE_MASK
        for first, last in zip(run.sequences, map(add, run.sequences, run.deltas), strict=True)
    ]


def _horizons(run: BatchRun) -> Sequence[bytes]:
    return [
        b"[%d]" % timestamp if bits & DELETE_HORIZON_BIT else b".empty"
        for bits, timestamp in zip(run.attributes, run.base_timestamps, strict=True)
    ]
