"""What a verification reads of a log: sound batches many at a time, other entries one by one, and damage.

What a control batch of a log says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.forensics.entries.batch_run import BatchRun
from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_scan import scan_runs
from kcli.forensics.verification.packed_batches import PackedBatches
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from kcli.forensics.entries.damage import Damage


def read_log(
    path: str, base_offset: int, deep: bool, *, start: int = 0, expected: int = -1, stop: int | None = None
) -> Iterator[LogItem]:
    """Yield what is in a log from `start` on, where the offset should be `expected`; -1 if that is not known.

    It ends behind a sound entry at `stop`, or later. Items are good until the next step. Raises `OSError`.
    """
    items = scan_runs(path, start=start, expected=expected, resync=True, segment_base=base_offset, stop=stop)
    for item in items:
        if not isinstance(item, BatchRun):
            yield item
            if deep and isinstance(item, ScannedEntry) and item.is_valid and not item.damages:
                yield from damages_inside([item])
            continue
        yield PackedBatches.of(item, base_offset)
        if deep:
            yield from damages_inside(item.entries())


def damages_inside(entries: Iterator[ScannedEntry] | list[ScannedEntry]) -> Iterator[Damage]:
    """Yield what is wrong inside of sound entries. Raises `OSError`."""
    from kcli.forensics.entries.record_checks import check_records

    for entry in entries:
        yield from check_records(entry)


if TYPE_CHECKING:
    LogItem: TypeAlias = PackedBatches | ScannedEntry | Damage

    ReadLog: TypeAlias = Callable[[str, int, bool], Iterator[LogItem]]

    """Reads the log of the segment at an offset, and looks at each record if it is to be deep."""


def marker_type(entry: ScannedEntry) -> ControlRecordType | None:
    """Return the type of a control batch, None if it says nothing that can be read. Raises `OSError`."""
    try:
        for record in entry.load().records():
            return parse_control_key(record.key)
    except CorruptRecord:
        return None
    return None
