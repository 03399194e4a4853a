"""Formatters: how `consume` prints a record, with the properties of Kafka's console consumer.

A formatter is made from properties. It turns a record and its fetched records into bytes for stdout. It is
named by a short name or by Kafka's Java class; `FORMATTERS` lists all.

The formatters of coordinators' topics print one kind of record as a JSON object a line, as in Kafka 4.3
(class `CoordinatorRecordMessageFormatter`), and nothing for records without a key, of other kinds and of
unknown types; bytes that are no such record are an error, in each of them. The value is null if the record
deletes its key:

    {"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":{"version":3,"data":{...}}}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.arguments import flag
from kcli.commands.shared.java import java_json, java_text
from kcli.commands.shared.serdes import Convert, Decode, decoder, deserializer
from kcli.errors import KcliError, UsageError
from kcli.escapes import escaped_bytes, escaped_json_bytes
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
    from kcli.protocol.records.record import Record


OFFSET_COMMITS = (0, 1)
GROUP_METADATA = (2,)

Decoder = Callable[[bytes, bytes | None], DecodedRecord]


def coordinator_formatter(decode: Decoder, types: Collection[int] | None) -> Format:
    """Return a formatter of the records of some types, None for all known types."""

    def format_record(fetched: FetchedRecords, record: Record) -> bytes:
        if record.key is None:
            return b""
        try:
            key, value, version = decode(record.key, record.value)
        except UnknownRecordType:
            return b""
        except DecodeError as error:
            raise KcliError(f"not a coordinator's record: {error.message.rstrip('.')}") from None
        type_id = int.from_bytes(record.key[:2], "big", signed=True)
        if types is not None and type_id not in types:
            return b""
        shown = {
            "key": {"type": type_id, "data": document(key, 0)},
            "value": None if value is None else {"version": version, "data": document(value, version)},
        }
        return java_json(shown).encode() + b"\n"

    return format_record


COLUMNS = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
SEPARATORS = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ",", "null.literal": "null"}
DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")
TIMESTAMP_TYPES = {0: "CreateTime", 1: "LogAppendTime"}


class DefaultFormat(NamedTuple):
    """The default formatter's properties: columns, in a fixed order, and separators."""

    columns: tuple[str, ...]
    key_separator: bytes
    line_separator: bytes
    headers_separator: bytes
    null_literal: bytes
    deserialize_key: Convert | None
    deserialize_value: Convert | None
    deserialize_header: Convert | None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> DefaultFormat:
        prints = {f"print.{column}": "false" for column in COLUMNS} | {"print.value": "true"}
        known = {**prints, **SEPARATORS}
        for name in properties:
            if name not in known and not name.startswith(DESERIALIZERS):
                raise UsageError(
                    f"there is no formatter property `{name}`", hint=", ".join((*known, *DESERIALIZERS))
                )
        values = {**known, **properties}
        columns = tuple(column for column in COLUMNS if flag(values, f"print.{column}"))
        key_separator, line_separator, headers_separator, null = (
            values[name].encode() for name in SEPARATORS
        )
        key, value, header = (deserializer(values.get(name, "bytes")) for name in DESERIALIZERS)
        return cls(columns, key_separator, line_separator, headers_separator, null, key, value, header)

    def format(self, fetched: FetchedRecords, record: Record) -> bytes:
        cells = [CELLS[column](self, fetched, record) for column in self.columns]
        return self.key_separator.join(cells) + self.line_separator if cells else b""

    def text(self, data: bytes | None, deserialize: Convert | None) -> bytes:
        if data is None:
            return self.null_literal
        return data if deserialize is None else deserialize(data)

    def headers(self, record: Record) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            name.encode() + b":" + self.text(value, self.deserialize_header) for name, value in record.headers
        )


CELLS: dict[str, Cell] = {
    "timestamp": lambda _, fetched, record: timestamp_text(fetched, record).encode(),
    "partition": lambda _, fetched, record: b"Partition:%d" % fetched.partition.partition,
    "offset": lambda _, fetched, record: b"Offset:%d" % record.offset,
    # Only share groups count deliveries, and Kafka's tool passes no epochs to its formatters.
    "delivery": lambda _, fetched, record: b"Delivery:NOT_PRESENT",
    "epoch": lambda _, fetched, record: b"Epoch:NOT_PRESENT",
    "headers": lambda form, fetched, record: form.headers(record),
    "key": lambda form, fetched, record: form.text(record.key, form.deserialize_key),
    "value": lambda form, fetched, record: form.text(record.value, form.deserialize_value),
}


def timestamp_type(fetched: FetchedRecords) -> str | None:
    """Return `CreateTime` or `LogAppendTime`, None for records of magic 0."""
    return TIMESTAMP_TYPES.get(fetched.timestamp_type)


def timestamp_text(fetched: FetchedRecords, record: Record) -> str:
    """Return `CreateTime:1700000000000`, or `NO_TIMESTAMP`."""
    kind = timestamp_type(fetched)
    return "NO_TIMESTAMP" if kind is None else f"{kind}:{record.timestamp}"


def default_formatter(properties: Mapping[str, str]) -> Format:
    """Return the default formatter, a short path if it prints only plain values."""
    form = DefaultFormat.from_properties(properties)
    if form.columns == ("value",) and form.deserialize_value is None:
        null, end = form.null_literal, form.line_separator
        return lambda fetched, record: (null if record.value is None else record.value) + end
    return form.format


def logging_formatter(properties: Mapping[str, str]) -> Format:
    """Return the default formatter that also logs a line on stderr for each record."""
    from kcli.commands.shared.output import note

    write = DefaultFormat.from_properties(properties).format

    def format_and_log(fetched: FetchedRecords, record: Record) -> bytes:
        kind = timestamp_type(fetched)
        stamp = "" if kind is None else f"{kind}:{record.timestamp}, "
        key = "key:null " if record.key is None else f"key:{readable(record.key)}, "
        value = f"value:{'null' if record.value is None else readable(record.value)}"
        note(f"{stamp}{key}{value}")
        return write(fetched, record)

    return format_and_log


def json_formatter(properties: Mapping[str, str]) -> Format:
    """Return a formatter of one JSON object a line.

    Fields: topic, partition, offset, timestamp, timestamp_type, headers (a list of [name, value]), key,
    value. Bytes are text if they are UTF-8, else `{"base64": "..."}`; a deserializer makes them a number, a
    boolean or a string.
    """
    import json

    DefaultFormat.from_properties(properties)
    key, value, header = (decoder(properties.get(name, "bytes")) for name in DESERIALIZERS)
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def to_json(fetched: FetchedRecords, record: Record) -> bytes:
        kind = timestamp_type(fetched)
        fields = {
            "topic": fetched.partition.topic,
            "partition": fetched.partition.partition,
            "offset": record.offset,
            "timestamp": None if kind is None else record.timestamp,
            "timestamp_type": kind,
            "headers": [[name, json_value(data, header)] for name, data in record.headers],
            "key": json_value(record.key, key),
            "value": json_value(record.value, value),
        }
        return encode(fields).encode() + b"\n"

    return to_json


def json_value(data: bytes | None, decode: Decode | None) -> object:
    """Return a key or value as JSON has it; infinities and NaN are text."""
    if data is None:
        return None
    if decode is not None:
        value = decode(data)
        return java_text(value) if isinstance(value, float) and not isfinite(value) else value
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(data).decode()}


def checksum_formatter(properties: Mapping[str, str]) -> Format:
    """Return a formatter of `topic:checksum:N`, N the CRC-32C of key and value; `print.topic=false` omits it.

    Since magic 2, records have no checksum of their own: this one serves to compare copies of a topic.
    """
    from kcli.protocol.records.batch_header import crc32c

    with_topic = flag(properties, "print.topic", default=True)

    def format_checksum(fetched: FetchedRecords, record: Record) -> bytes:
        checksum = crc32c((record.key or b"") + (record.value or b""))
        return (f"{fetched.partition.topic}:" if with_topic else "").encode() + b"checksum:%d\n" % checksum

    return format_checksum


def readable(data: bytes) -> str:
    return bytes(data).decode("utf-8", "replace")


FORMATTERS: dict[str, Callable[[Mapping[str, str]], Format]] = {
    "default": default_formatter,
    "json": json_formatter,
    "logging": logging_formatter,
    "noop": lambda properties: lambda fetched, record: b"",  # to count or to measure
    "checksum": checksum_formatter,
    "offsets": lambda properties: coordinator_formatter(decode_record, OFFSET_COMMITS),
    "group-metadata": lambda properties: coordinator_formatter(decode_record, GROUP_METADATA),
    "transaction-log": lambda properties: coordinator_formatter(decode_transaction_record, None),
}


def make_formatter(name: str, properties: Mapping[str, str], *, is_escaped: bool = False) -> Format:
    """Return a formatter by its short name or its Java class name in any Kafka version.

    `is_escaped`: for a terminal, without control characters but line feeds and tabs.
    """
    java_name = re.split(r"[.$]", name)[-1].removesuffix("MessageFormatter").lower()
    known = {short.replace("-", ""): factory for short, factory in FORMATTERS.items()}
    factory = FORMATTERS.get(name) or known.get(java_name)
    if factory is None:
        raise UsageError(f"there is no formatter `{name}`", hint=", ".join(FORMATTERS))
    format_record = factory(properties)
    if not is_escaped:
        return format_record
    escape = (
        escaped_bytes
        if factory in (default_formatter, logging_formatter, checksum_formatter)
        else escaped_json_bytes
    )
    return lambda fetched, record: escape(format_record(fetched, record))


if TYPE_CHECKING:
    Format = Callable[[FetchedRecords, Record], bytes]

    Cell = Callable[["DefaultFormat", FetchedRecords, Record], bytes]
