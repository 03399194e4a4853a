"""What a control batch of a log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.record import CorruptRecord
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key

if TYPE_CHECKING:
    from kcli.storage.scanned_entry import ScannedEntry


def marker_type(entry: ScannedEntry) -> ControlRecordType | None:
    """Return the type of a control batch, None if it says nothing that can be read. Raises `OSError`."""
    try:
        for record in entry.load().records():
            return parse_control_key(record.key)
    except CorruptRecord:
        return None
    return None
