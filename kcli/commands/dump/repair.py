"""`dump-log --repair`: makes copies of damaged logs on which a broker can start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.formatting import counted
from kcli.commands.shared.output import Table
from kcli.errors import ChecksFailed, KcliError
from kcli.forensics.contents.log_files import DumpFile, FileKind, Selection, find_files
from kcli.forensics.repair.partition_repair import RepairMode, repair_partition, repair_segment
from kcli.storage.log_paths import parse_replica_directory

if TYPE_CHECKING:
    from kcli.forensics.repair.partition_repair import PartitionRepair, SegmentRepair

MOST_SHOWN = 3
"""How many damaged places of a log are shown."""
HINT_TO_CARVE = "`--continue` copies the valid batches behind it, too"


class Repairs(NamedTuple):
    """The copies made, and the errors about logs that could not be copied."""

    repairs: Sequence[PartitionRepair]
    errors: Sequence[KcliError]

    @property
    def failures(self) -> list[KcliError]:
        """Return the errors to end the command with: damage is one though it was repaired."""
        count = sum(repair.damage_count for repair in self.repairs)
        damage = f"damage in {counted(count, 'place')}, which the copy leaves out"
        hint = HINT_TO_CARVE if any(repair.leaves_valid_out for repair in self.repairs) else None
        found = [ChecksFailed(damage, hint=hint)] if count else []
        return [*self.errors, *found]

    @property
    def shown(self) -> Sequence[PartitionRepair]:
        """The copies to show: those that differ from their logs; an only one in any case."""
        return [each for each in self.repairs if len(self.repairs) == 1 or not is_whole(each)]

    @property
    def whole(self) -> Sequence[PartitionRepair]:
        """The copies of logs without damage, which are only counted."""
        return [] if len(self.repairs) == 1 else [each for each in self.repairs if is_whole(each)]

    def lines(self) -> Iterator[str]:
        for repair in self.shown:
            yield from repair_lines(repair)
        if whole := self.whole:
            kept = counted(sum(each.kept_bytes for each in whole), "byte")
            yield f"{counted(len(whole), 'log')} without damage: {kept} kept"

    def tables(self) -> Iterator[Table]:
        columns = ("segment", "bytes", "kept", "dropped", "batches", "damage", "offsets")
        for repair in self.shown:
            rows = [row_of(segment) for segment in repair.segments if not is_sound(segment, repair)]
            sound = [segment for segment in repair.segments if is_sound(segment, repair)]
            if sound:
                sums = (sum(each.source_bytes for each in sound), sum(each.kept_entries for each in sound))
                rows.append((f"{len(sound):,} without damage", sums[0], sums[0], 0, sums[1], 0, None))
            yield Table(columns, rows, title=f"{repair.source} -> {repair.target}")
        notes = [(repair.target, note) for repair in self.shown for note in notes_of(repair)]
        if notes:
            yield Table(("copy", "note"), notes)
        if whole := self.whole:
            row = (len(whole), sum(each.kept_bytes for each in whole))
            yield Table(("logs without damage", "bytes kept"), [row])

    def document(self) -> object:
        return {"repairs": [document_of(repair) for repair in self.repairs], "failures": self.failures}


def repair_logs(
    paths: Sequence[str], target: str, selection: Selection, *, carves: bool, is_deep: bool
) -> Repairs:
    """Copy the logs that the paths mean below `target`, each into a directory named like its replica."""
    mode = RepairMode.CARVE if carves else RepairMode.CUT
    repairs: list[PartitionRepair] = []
    errors: list[KcliError] = []
    wanted = selection._replace(kinds=frozenset({FileKind.LOG}))
    for path in paths:
        for source in sources_of(path, wanted):
            if isinstance(source, KcliError):
                errors.append(source)
                continue
            repair = repair_segment if os.path.isfile(source) else repair_partition
            try:
                repairs.append(repair(source, target_of(source, target), mode=mode, is_deep=is_deep))
            except OSError as error:
                path = str(error.filename or source)
                act = "write" if f"{path}/".startswith(f"{target.rstrip('/')}/") else "copy"
                errors.append(KcliError(f"cannot {act} `{path}`: {error.strerror}"))
            except KcliError as error:
                errors.append(error)
    return Repairs(repairs, errors)


def sources_of(path: str, selection: Selection) -> Iterator[str | KcliError]:
    """Yield the log file that a path names, or the replica directories in it."""
    seen: set[str] = set()
    for found in find_files([path], selection):
        if not isinstance(found, DumpFile):
            yield found
        elif not os.path.isdir(path):
            yield found.path
        elif (directory := os.path.dirname(found.path)) not in seen:
            seen.add(directory)
            yield directory


def target_of(source: str, target: str) -> str:
    """Return the directory of the copy; a broker recognizes a replica by its name."""
    directory = source if os.path.isdir(source) else os.path.dirname(source)
    name = os.path.basename(os.path.abspath(directory))
    return f"{target}/{name}" if parse_replica_directory(name) is not None else target


def is_whole(repair: PartitionRepair) -> bool:
    """Tell whether a copy has all that its log has."""
    return not (repair.damage_count or repair.dropped_bytes or notes_of(repair))


def is_sound(segment: SegmentRepair, repair: PartitionRepair) -> bool:
    """Tell whether a segment is one of several of its log, and copied whole."""
    is_cut = segment.is_behind_cut or segment.dropped_bytes or segment.damage_count
    return len(repair.segments) > 1 and not is_cut


def repair_lines(repair: PartitionRepair) -> Iterator[str]:
    """Yield the lines about a log: what was wrong first; more damage and sound segments are only counted."""
    yield (
        f"{repair.source} -> {repair.target}: {counted(repair.kept_bytes, 'byte')} kept, "
        f"{repair.dropped_bytes:,} dropped, end offset {repair.end_offset}"
    )
    left = MOST_SHOWN
    for segment in repair.segments:
        if is_sound(segment, repair):
            continue
        name = os.path.basename(segment.source)
        if segment.is_behind_cut:
            yield f"  {name}: {counted(segment.source_bytes, 'byte')} dropped, behind the cut"
        else:
            kept = f"{counted(segment.kept_entries, 'batch')} of {counted(segment.kept_bytes, 'byte')} kept"
            yield f"  {name}: {kept}, {counted(segment.dropped_bytes, 'byte')} dropped"
        for damage in segment.damages[:left]:
            for line in damage.lines(segment.source):
                yield f"    {line}"
        left = max(left - len(segment.damages), 0)
    if repair.damage_count > MOST_SHOWN:
        more = counted(repair.damage_count - MOST_SHOWN, "more damaged place")
        yield f"  {more}: `kcli verify-index {repair.source}` lists all"
    if sound := [segment for segment in repair.segments if is_sound(segment, repair)]:
        kept = counted(sum(segment.kept_bytes for segment in sound), "byte")
        yield f"  {counted(len(sound), 'segment')} without damage: {kept} kept"
    for note in notes_of(repair):
        yield f"  {note}"


def notes_of(repair: PartitionRepair) -> list[str]:
    transactions = [
        f"without an end in the copy: the transaction of producer {each.producer_id} "
        f"from offset {each.first_offset} on"
        for each in repair.open_transactions
    ]
    return [*repair.notes, *transactions]


def row_of(segment: SegmentRepair) -> tuple[object, ...]:
    return (
        os.path.basename(segment.source),
        segment.source_bytes,
        segment.kept_bytes,
        segment.dropped_bytes,
        segment.kept_entries,
        segment.damage_count,
        None if segment.first_offset is None else f"{segment.first_offset}…{segment.last_offset}",
    )


def document_of(repair: PartitionRepair) -> dict[str, object]:
    return {
        "source": repair.source,
        "target": repair.target,
        "mode": repair.mode.value,
        "kept_bytes": repair.kept_bytes,
        "dropped_bytes": repair.dropped_bytes,
        "end_offset": repair.end_offset,
        "segments": [
            {
                "source": segment.source,
                "target": segment.target,
                "base_offset": segment.base_offset,
                "source_bytes": segment.source_bytes,
                "kept_bytes": segment.kept_bytes,
                "kept_batches": segment.kept_entries,
                "dropped_batches": segment.dropped_entries,
                "dropped_bytes": segment.dropped_bytes,
                "reserved_bytes": segment.reserved_bytes,
                "first_offset": segment.first_offset,
                "last_offset": segment.last_offset,
                "is_behind_cut": segment.is_behind_cut,
                "damage_count": segment.damage_count,
                "damages": [damage.document() for damage in segment.damages],
            }
            for segment in repair.segments
        ],
        "open_transactions": [
            {"producer_id": each.producer_id, "first_offset": each.first_offset}
            for each in repair.open_transactions
        ],
        "notes": list(repair.notes),
    }
