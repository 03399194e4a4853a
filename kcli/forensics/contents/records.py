"""DumpedRecord: a record of any format as a dump shows it, with the entry around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.records.message_set import LegacyEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.protocol.records.batch import RecordBatch


class DumpedRecord(NamedTuple):
    """A record; `stored` is the entry that it is in the older formats, with a checksum of its own."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    sequence: int
    stored: LegacyEntry | None = None

    @property
    def key_size(self) -> int:
        return -1 if self.key is None else len(self.key)

    @property
    def value_size(self) -> int:
        return -1 if self.value is None else len(self.value)


def records_of(batch: RecordBatch | LegacyEntry) -> Iterator[DumpedRecord]:
    """Yield the records of an entry. Raises `CorruptRecord`, possibly after some of them."""
    if not isinstance(batch, LegacyEntry):
        for record in batch.records():
            yield DumpedRecord(
                record.offset, record.timestamp, record.key, record.value, record.headers, record.sequence
            )
        return
    entries = batch.inner_entries() if batch.is_compressed else [batch]
    for record, entry in zip(batch.records(), entries, strict=True):
        yield DumpedRecord(
            record.offset, record.timestamp, record.key, record.value, (), record.sequence, entry
        )
