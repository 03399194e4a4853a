"""Formatters of the topics in which coordinators keep their state.

Each prints one kind of record as a JSON object a line, as Kafka 4.3's formatters write it, and nothing for
all other records (class `CoordinatorRecordMessageFormatter`):

    {"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":{"version":3,"data":{...}}}

The value is null where the record deletes its key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from kcli.commands.java.json import java_json
from kcli.errors import KcliError
from kcli.protocol.internal.coordinator_records import (
    DecodedRecord,
    UnknownRecordType,
    decode_record,
    decode_transaction_record,
)
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.schema.json_document import document

if TYPE_CHECKING:
    from kcli.client.fetch.completed_fetch import FetchedRecords
    from kcli.commands.formatters import Format
    from kcli.protocol.record import Record

OFFSET_COMMITS = (0, 1)
GROUP_METADATA = (2,)

Decoder = Callable[[bytes, bytes | None], DecodedRecord]


def offsets_formatter(properties: Mapping[str, str]) -> Format:
    """Return the formatter of committed offsets in `__consumer_offsets`."""
    return coordinator_formatter(decode_record, OFFSET_COMMITS)


def group_metadata_formatter(properties: Mapping[str, str]) -> Format:
    """Return the formatter of classic groups in `__consumer_offsets`."""
    return coordinator_formatter(decode_record, GROUP_METADATA)


def transaction_log_formatter(properties: Mapping[str, str]) -> Format:
    """Return the formatter of transactional ids in `__transaction_state`."""
    return coordinator_formatter(decode_transaction_record, None)


def coordinator_formatter(decode: Decoder, types: Collection[int] | None) -> Format:
    """Return a formatter of the records of some types, or of all that are known."""

    def format_record(fetched: FetchedRecords, record: Record) -> bytes:
        if record.key is None:
            return b""
        type_id = int.from_bytes(record.key[:2], "big", signed=True)
        if types is not None and type_id not in types:
            return b""
        try:
            key, value, version = decode(record.key, record.value)
        except UnknownRecordType:
            return b""
        except DecodeError as error:
            raise KcliError(f"not a coordinator's record: {error.message}") from None
        shown = {
            "key": {"type": type_id, "data": document(key, 0)},
            "value": None if value is None else {"version": version, "data": document(value, version)},
        }
        return java_json(shown).encode() + b"\n"

    return format_record
