"""DumpOptions: what a dump shows, in every form; Filter: which batches and records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.commands.dump.decoders import Decoder
    from kcli.forensics.entries.scanned_entry import Batch, DumpedRecord, ScannedEntry


MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""The default of Kafka's tool."""


class DumpOptions(NamedTuple):
    """What to read of each file, and how much of it to show."""

    decoder: Decoder
    filter: Filter
    prints_contents: bool = False
    deep: bool = False
    skips_metadata: bool = False
    max_bytes: int | None = None
    max_message_size: int = MAX_MESSAGE_SIZE
    verify_index_only: bool = False
    index_sanity_check: bool = False
    continues: bool = False
    is_raw: bool = False
    """Whether a terminal gets the text of records as it is."""

    @property
    def shows_only_batches(self) -> bool:
        """Whether a dump shows all batches and no records."""
        return not self.deep and self.filter.is_empty


class Filter(NamedTuple):
    """The conditions on a record and its batch. `to_offset` and `to_time` are exclusive."""

    from_offset: int | None = None
    to_offset: int | None = None
    from_time: int | None = None
    to_time: int | None = None
    key: bytes | None = None
    producer_id: int | None = None
    control_only: bool = False
    transactional_only: bool = False

    @property
    def is_empty(self) -> bool:
        return self == Filter()

    @property
    def is_about_records(self) -> bool:
        """Whether a batch passes only if one of its records passes."""
        return self.key is not None or self.from_time is not None or self.to_time is not None

    def leaves_out(self, first: int, last: int) -> bool:
        """Whether no offset from `first` to `last` is asked for."""
        is_behind = self.to_offset is not None and first >= self.to_offset
        return is_behind or (self.from_offset is not None and last < self.from_offset)

    def may_hold(self, entry: ScannedEntry) -> bool:
        """Whether the header of a batch allows that records in it pass."""
        batch = entry.batch
        if self.control_only and not batch.is_control:
            return False
        if self.transactional_only and not batch.is_transactional:
            return False
        if self.producer_id is not None and batch.producer_id != self.producer_id:
            return False
        if self.from_offset is not None and entry.last_offset < self.from_offset:
            return False
        # The header of a compressed older entry does not have its first offset.
        if self.to_offset is not None and (batch.magic == 2 or not batch.is_compressed):
            return entry.first_offset < self.to_offset
        return self.from_time is None or batch.max_timestamp >= self.from_time or batch.magic == 0

    def passes(self, record: DumpedRecord, batch: Batch) -> bool:
        """Whether a record of a batch that `may_hold` some passes."""
        offset, timestamp = record.offset, record.timestamp
        if self.from_offset is not None and offset < self.from_offset:
            return False
        if self.to_offset is not None and offset >= self.to_offset:
            return False
        if self.from_time is not None and timestamp < self.from_time:
            return False
        if self.to_time is not None and timestamp >= self.to_time:
            return False
        return self.key is None or (record.key == self.key and not batch.is_control)

    def select(self, records: Iterator[DumpedRecord], batch: Batch) -> Iterator[DumpedRecord]:
        return (record for record in records if self.passes(record, batch))


def parse_key(text: str) -> bytes:
    """Return the bytes of a key: the text itself, or the decoded text after `hex:` or `base64:`."""
    kind, colon, coded = text.partition(":")
    try:
        if colon and kind == "hex":
            return bytes.fromhex(coded)
        if colon and kind == "base64":
            from base64 import b64decode

            return b64decode(coded, validate=True)
    except ValueError as error:
        raise UsageError(f"`--key` is not {kind}: {coded}") from error
    return text.encode(errors="surrogateescape")
