"""Checking the records inside an entry: do they decompress, and are they what the header says?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.record import CorruptRecord
from kcli.storage.damage import Damage, DamageKind

if TYPE_CHECKING:
    from kcli.storage.scanned_entry import ScannedEntry


def check_records(entry: ScannedEntry) -> list[Damage]:
    """Return what is wrong inside an entry whose checksum matches, the worst of it at most. Raises `OSError`.

    The memory used does not depend on what the records decompress to.
    """
    try:
        for _ in entry.load().records():
            pass
    except CorruptRecord as error:
        return [
            Damage(
                kind=DamageKind.UNDECODABLE_RECORDS,
                position=entry.position,
                size_bytes=entry.size,
                offset=entry.first_offset,
                message=error.message,
            )
        ]
    return []
