"""The lines of sound batches, a run of them at a time: for a dump without records.

They are made by one template for the whole run, in which columns that say the same for every batch, as nearly
all do, are text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import add
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    SEQUENCE_MASK,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

if TYPE_CHECKING:
    from kcli.storage.batch_run import BatchRun

CODEC_NAMES = tuple(codec.name.lower() for codec in Codec) + ("unknown",) * 3

Column = Sequence[int] | Sequence[bytes]


def run_lines(run: BatchRun) -> bytes:
    """Return the lines of batches, as `text_view` makes that of a single one."""
    flags, horizons, times, codecs = _attribute_columns(run)
    columns: tuple[tuple[bytes, Column], ...] = (
        (b"baseOffset: ", run.base_offsets),
        (b" lastOffset: ", run.last_offsets),
        (b" count: ", run.counts),
        (b" baseSequence: ", run.sequences),
        (b" lastSequence: ", _last_sequences(run)),
        (b" producerId: ", run.producer_ids),
        (b" producerEpoch: ", run.producer_epochs),
        (b" partitionLeaderEpoch: ", run.leader_epochs),
        (b"", flags),
        (b" deleteHorizonMs: OptionalLong", horizons),
        (b" position: ", run.positions),
        (b"", times),
        (b"", run.max_timestamps),
        (b" size: ", run.sizes),
        (b" magic: 2 compresscodec: ", codecs),
        (b" crc: ", run.crcs),
    )
    template = bytearray()
    varying: list[Column] = []
    for label, column in columns:
        first, form = column[0], b"%b" if isinstance(column[0], bytes) else b"%d"
        if first == column[-1] and column.count(first) == len(column):
            template += label + form % first
        else:
            template += label + form
            varying.append(column)
    template += b" isvalid: true\n"
    return bytes(template * len(run)) % tuple(chain.from_iterable(zip(*varying, strict=True)))


def _attribute_columns(run: BatchRun) -> tuple[Sequence[bytes], ...]:
    """Return what the lines say of attributes: flags, delete horizons, kinds of timestamps and codecs."""
    if len(set(run.attributes)) == 1 and not run.attributes[0] & DELETE_HORIZON_BIT:
        return tuple((text,) for text in _attribute_texts(run.attributes[0], 0))
    texts = map(_attribute_texts, run.attributes, run.base_timestamps)
    return tuple(zip(*texts, strict=True))


def _attribute_texts(attributes: int, base_timestamp: int) -> tuple[bytes, bytes, bytes, bytes]:
    is_transactional = b"true" if attributes & TRANSACTIONAL_BIT else b"false"
    is_control = b"true" if attributes & CONTROL_BIT else b"false"
    return (
        b" isTransactional: %b isControl: %b" % (is_transactional, is_control),
        b"[%d]" % base_timestamp if attributes & DELETE_HORIZON_BIT else b".empty",
        b" LogAppendTime: " if attributes & TIMESTAMP_TYPE_BIT else b" CreateTime: ",
        CODEC_NAMES[attributes & CODEC_MASK].encode("ascii"),
    )


def _last_sequences(run: BatchRun) -> Sequence[int]:
    if max(run.sequences) < 0:
        return run.sequences
    return [
        first if first < 0 else last & SEQUENCE_MASK
        for first, last in zip(run.sequences, map(add, run.sequences, run.deltas), strict=True)
    ]
