"""Decoders of the internal topics, with the output of Kafka's dump tool.

The topics are `__consumer_offsets`, `__transaction_state`, `__share_group_state`, `__remote_log_metadata` and
`__cluster_metadata`. The line of a record that is damaged, or that a newer Kafka wrote, says so; in JSON it
has the bytes, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.commands.dump.decoders import text_or_base64
from kcli.commands.shared.java import java_json
from kcli.protocol.internal.coordinator_records import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    GroupMetadataValue,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    UnknownRecordType,
    read_message,
    read_version,
)
from kcli.protocol.internal.metadata_records import FRAME_VERSION
from kcli.protocol.internal.share_records import SHARE_GROUP_RECORDS, SHARE_STATE_RECORDS
from kcli.protocol.internal.streams_records import STREAMS_GROUP_RECORDS
from kcli.protocol.schema.declaration import DecodeError, codec, message_info
from kcli.protocol.schema.json_document import document
from kcli.protocol.schema.unsigned_varint import decode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.commands.dump.decoders import Decoder
    from kcli.forensics.entries.scanned_entry import DumpedRecord

MAX_SHORT = 32_767

Classes = dict[int, tuple[type[Any], type[Any]]]

OFFSETS_RECORDS: Classes = {
    **GROUP_RECORDS,
    0: (OffsetCommitKey, LegacyOffsetCommitValue),
    **SHARE_GROUP_RECORDS,
    **STREAMS_GROUP_RECORDS,
}


class UnknownVersion(DecodeError):
    """A record of a type or a version that a newer Kafka wrote; it is not damaged."""


class CoordinatorDecoder:
    """Decodes the records of a coordinator's topic with the classes of their types."""

    is_plain = False

    def __init__(self, classes: Classes) -> None:
        self.failures = 0
        self._classes = classes

    def texts(self, record: DumpedRecord) -> tuple[str | None, str | None]:
        """Return key and value as JSON text, or one remark instead of both."""
        try:
            key, value = self._documents(record)
        except UnknownRecordType as error:
            return f"Unknown record type {error.type} at offset {record.offset}, skipping.", None
        except DecodeError as error:
            self.failures += not isinstance(error, UnknownVersion)
            return f"Error at offset {record.offset}, skipping. {error.message}", None
        return java_json(key), "<DELETE>" if value is None else java_json(value)

    def values(self, record: DumpedRecord) -> tuple[object, object]:
        """Return key and value as documents; a tombstone's value is None."""
        try:
            return self._documents(record)
        except DecodeError as error:
            self.failures += not isinstance(error, UnknownVersion | UnknownRecordType)
            key = None if record.key is None else text_or_base64(record.key)
            return {"note": error.message, "raw": key}, raw_value(record)

    def _documents(self, record: DumpedRecord) -> tuple[dict[str, object], dict[str, object] | None]:
        if record.key is None:
            raise DecodeError("a record without a key")
        number = read_version(record.key, "key")
        if number not in self._classes:
            raise UnknownRecordType(number)
        key_class, value_class = self._classes[number]
        key = read_message(key_class, 0, record.key, number, "key")
        shown: dict[str, object] = {"type": str(number), "data": document(key, 0)}
        if record.value is None:
            return shown, None
        version = read_version(record.value, "value")
        info = message_info(value_class)
        if not info.min_version <= version <= info.max_version:
            raise UnknownVersion(f"Found an unknown record version {version} for {number} type")
        value = read_message(value_class, version, record.value, version, "value")
        data = document(value, version)
        if isinstance(value, GroupMetadataValue):
            _open_members(value, data)
        return shown, {"version": str(version), "data": data}


def raw_value(record: DumpedRecord) -> object:
    """Return a value that could not be decoded."""
    return None if record.value is None else text_or_base64(record.value)


def _open_members(value: GroupMetadataValue, data: dict[str, Any]) -> None:
    """Replace the bytes of subscriptions and assignments by documents, in groups of consumers."""
    from kcli.protocol.consumer_protocol import PROTOCOL_TYPE, assignment_document, subscription_document

    if value.protocol_type != PROTOCOL_TYPE:
        return
    for member, shown in zip(value.members, data["members"], strict=True):
        for name, raw, read in (
            ("subscription", member.subscription, subscription_document),
            ("assignment", member.assignment, assignment_document),
        ):
            try:
                shown[name] = read(raw)
            except DecodeError:
                continue  # the bytes stay


class MetadataDecoder:
    """Decodes the records of the metadata log, which have no keys."""

    is_plain = False

    def __init__(self) -> None:
        from kcli.protocol.internal.metadata_records import METADATA_RECORDS
        from kcli.protocol.internal.security_records import SECURITY_RECORDS

        self.failures = 0
        self._classes = {**METADATA_RECORDS, **SECURITY_RECORDS}

    def texts(self, record: DumpedRecord) -> tuple[str | None, str | None]:
        try:
            return None, java_json(self._document(record))
        except DecodeError as error:
            self.failures += not isinstance(error, UnknownVersion)
            return None, f"Error at {record.offset}, skipping. {error.message}"

    def values(self, record: DumpedRecord) -> tuple[object, object]:
        try:
            return None, self._document(record)
        except DecodeError as error:
            self.failures += not isinstance(error, UnknownVersion)
            return None, {"note": error.message, "raw": raw_value(record)}

    def _document(self, record: DumpedRecord) -> dict[str, object]:
        data = record.value or b""
        frame_version, position = _frame_number(data, 0, "frame version")
        if frame_version == 0:
            raise DecodeError(
                "Could not deserialize metadata record with frame version 0. Note that upgrades from the "
                "preview release of KRaft in 2.8 to newer versions are not supported."
            )
        if frame_version != FRAME_VERSION:
            raise UnknownVersion(
                f"Could not deserialize metadata record due to unknown frame version {frame_version}"
                f"(only frame version {FRAME_VERSION} is supported)"
            )
        number, position = _frame_number(data, position, "type")
        version, position = _frame_number(data, position, "version")
        cls = self._classes.get(number)
        if cls is None:
            raise UnknownVersion(
                f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {number}"
            )
        value, end = _decode_metadata(cls, number, version, data, position)
        if end != len(data):
            raise DecodeError(f"Found {len(data) - end} byte(s) of garbage after {number}")
        return {"type": _enum_name(cls.__name__), "version": version, "data": document(value, version)}


def _frame_number(data: bytes, position: int, name: str) -> tuple[int, int]:
    try:
        number, position = decode_unsigned_varint(data, position)
    except (IndexError, ValueError) as error:
        raise DecodeError(f"Error while reading {name}") from error
    if number > MAX_SHORT:
        raise DecodeError(f"Value for {name} was too large.")
    return number, position


def _decode_metadata(
    cls: type[Any], number: int, version: int, data: bytes, position: int
) -> tuple[object, int]:
    info = message_info(cls)
    failure = f"Failed to deserialize record with type {number}"
    if not info.min_version <= version <= info.max_version:
        raise UnknownVersion(failure)
    try:
        return codec(cls, version).decode(data, position)
    except DecodeError as error:
        raise DecodeError(failure) from error


class RemoteLogDecoder:
    """Decodes the records about segments in tiered storage, which have no keys."""

    is_plain = False

    def __init__(self) -> None:
        self.failures = 0

    def texts(self, record: DumpedRecord) -> tuple[str | None, str | None]:
        """Return the record as the `toString()` of Kafka's class prints it."""
        from kcli.protocol.internal.remote_log_records import decode_remote_log_record, text_of

        try:
            value, _ = decode_remote_log_record(record.value or b"")
            return None, text_of(value)
        except DecodeError as error:
            self.failures += 1
            return None, f"Error at offset {record.offset}, skipping. {error.message}"

    def values(self, record: DumpedRecord) -> tuple[object, object]:
        from kcli.protocol.internal.remote_log_records import decode_remote_log_record

        try:
            value, version = decode_remote_log_record(record.value or b"")
        except DecodeError as error:
            self.failures += 1
            return None, {"note": error.message, "raw": raw_value(record)}
        name = _enum_name(type(value).__name__)
        return None, {"type": name, "version": version, "data": document(value, version)}


def _enum_name(class_name: str) -> str:
    """Return `TOPIC_RECORD` for `TopicRecord`."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in class_name)[1:].upper()


COORDINATOR_DECODERS: dict[str, Callable[[], Decoder]] = {
    "offsets": lambda: CoordinatorDecoder(OFFSETS_RECORDS),
    "transaction-log": lambda: CoordinatorDecoder(TRANSACTION_RECORDS),
    "cluster-metadata": MetadataDecoder,
    "remote-log-metadata": RemoteLogDecoder,
    "share-group-state": lambda: CoordinatorDecoder(SHARE_STATE_RECORDS),
}
"""By the NAME of the option `--NAME-decoder`, in the order in which Kafka's tool checks them."""
