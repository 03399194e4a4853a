"""Which offsets of an answer belong to transactions that were rolled back.

A broker lists (producer id, first offset) of the aborted transactions that an answer may have data of. Where
each ends, its ABORT marker says, a control batch of the same producer; without one it goes on behind the
answer (Kafka class `CompletedFetch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.record import CorruptRecord
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.spark.split import AbortedTransaction

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.protocol.messages import fetch
    from kcli.protocol.record import Buffer

_NO_END = 2**63 - 1


def rolled_back(
    listed: Collection[fetch.AbortedTransaction] | None, records: Buffer
) -> list[AbortedTransaction]:
    """Return the listed transactions with their ends."""
    if not listed:
        return []
    begun: dict[int, list[int]] = {}
    for one in sorted(listed, key=lambda one: -one.first_offset):
        begun.setdefault(one.producer_id, []).append(one.first_offset)
    ended = []
    for producer_id, offset in _abort_markers(records, begun):
        firsts = begun[producer_id]
        if firsts and firsts[-1] <= offset:
            ended.append(AbortedTransaction(producer_id, firsts.pop(), offset))
    left = (
        AbortedTransaction(producer_id, firsts[-1], _NO_END)
        for producer_id, firsts in begun.items()
        if firsts
    )
    return [*ended, *left]


def _abort_markers(records: Buffer, producer_ids: Collection[int]) -> list[tuple[int, int]]:
    """Return (producer id, offset) of the ABORT markers; what is damaged is left to who reads the records."""
    found = []
    try:
        for batch in iter_batches(records):
            if isinstance(batch, RecordBatch) and batch.is_control and batch.producer_id in producer_ids:
                first = next(batch.records(), None)
                if first is not None and parse_control_key(first.key) is ControlRecordType.ABORT:
                    found.append((batch.producer_id, batch.base_offset))
    except CorruptRecord:
        return found
    return found
