"""Control records in a dump: the ends of transactions, and the records of the metadata quorum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.commands.shared.java import java_json
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.internal.quorum_records import decode_quorum_record
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key, parse_end_txn_marker
from kcli.protocol.records.record import Record
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.schema.json_document import document

if TYPE_CHECKING:
    from kcli.forensics.entries.scanned_entry import DumpedRecord

QUORUM_NAMES = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange:",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters",
}


def control_document(record: DumpedRecord) -> dict[str, object]:
    """Return the document of a control record. Raises `CorruptRecord`."""
    control_type = parse_control_key(record.key)
    shown: dict[str, object] = {"type": control_type.name}
    if control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        marker = parse_end_txn_marker(Record(record.offset, record.timestamp, record.key, record.value))
        return {**shown, "data": {"coordinatorEpoch": marker.coordinator_epoch}}
    if control_type is ControlRecordType.UNKNOWN:
        return {**shown, "number": int.from_bytes((record.key or b"")[2:4], "big", signed=True)}
    try:
        value, version = decode_quorum_record(control_type, record.value)
    except DecodeError as error:
        raise CorruptRecord(error.message) from error
    return {**shown, "data": document(value, version)}


def control_text(record: DumpedRecord) -> str:
    """Return a control record as Kafka's tool prints it. Raises `CorruptRecord`."""
    shown = control_document(record)
    control_type = ControlRecordType[str(shown["type"])]
    if control_type is ControlRecordType.UNKNOWN:
        return f" controlType: UNKNOWN({shown['number']})"
    if control_type in QUORUM_NAMES:
        return f" {QUORUM_NAMES[control_type]} {java_json(shown['data'])}"
    data = shown["data"]
    assert isinstance(data, dict)
    return f" endTxnMarker: {control_type.name} coordinatorEpoch: {data['coordinatorEpoch']}"
