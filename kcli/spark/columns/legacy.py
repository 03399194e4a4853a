"""Rows of message sets (magic 0 and 1), gathered one by one: few are left, and they are all small."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kcli.protocol.record import BYTES_PER_RECORD, CorruptRecord
from kcli.spark.columns.chunk import Fields
from kcli.spark.columns.schema import HEADERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kcli.protocol.record import Record
    from kcli.protocol.records.message_set import LegacyEntry


class LegacyRows:
    """Rows of entries, in the order of their offsets."""

    __slots__ = ("_keys", "_offsets", "_timestamps", "_types", "_values", "size_bytes")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._types: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self.size_bytes = 0
        """What the rows take in memory, about."""

    def add(self, entry: LegacyEntry, start: int, end: int, max_bytes: int) -> int:
        """Take the rows of an entry whose offsets are in `start..end - 1`; return its first offset.

        Raises `CorruptRecord` before anything is taken.
        """
        records = list(_checked_records(entry, max_bytes))
        kept = [record for record in records if start <= record.offset < end]
        timestamp_type = int(entry.timestamp_type)
        for record in kept:
            self._offsets.append(record.offset)
            self._timestamps.append(record.timestamp)
            self._types.append(timestamp_type)
            self._keys.append(record.key)
            self._values.append(record.value)
            self.size_bytes += BYTES_PER_RECORD + len(record.key or b"") + len(record.value or b"")
        return records[0].offset

    def __len__(self) -> int:
        return len(self._offsets)

    def fields(self, wanted: Collection[str]) -> Fields:
        """Return the rows as columns."""
        count = len(self._offsets)
        return Fields(
            np.array(self._offsets, np.int64),
            np.array(self._timestamps, np.int64),
            np.array(self._types, np.int32),
            pa.array(self._keys, pa.binary()) if "key" in wanted else None,
            pa.array(self._values, pa.binary()) if "value" in wanted else None,
            pa.nulls(count, HEADERS) if "headers" in wanted else None,
        )


def _checked_records(entry: LegacyEntry, max_bytes: int) -> Iterable[Record]:
    """Return the records of an entry, those of a wrapper if each matches its own checksum."""
    if not entry.is_compressed:
        return entry.records(max_bytes)
    entries = entry.inner_entries(max_bytes)
    if not all(inner.is_valid_crc() for inner in entries):
        raise CorruptRecord("a record inside a compressed set does not match its own checksum")
    records = list(entry.inner_records(entries))
    if any(after.offset <= before.offset for before, after in pairwise(records)):
        raise CorruptRecord("the offsets inside a compressed set do not increase")
    return records
