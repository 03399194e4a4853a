"""The comparison of two replicas of a partition: the first offset at which they differ.

Replicas hold the same bytes, batch for batch, because followers copy the leader's. Only compaction, which
each broker does by itself, makes batches differ: from the first such batch on, records are compared one by
one. Records that one replica has deleted, or not copied yet, do not count as a difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.entries.damage import Damage, DamageKind
from kcli.forensics.entries.segment_scan import scan
from kcli.forensics.verification.findings import Finding, FindingKind, Findings, PartitionReport, of_damage
from kcli.forensics.verification.segment_chain import ReplicaListing
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.storage.log_paths import LOG_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.protocol.records.record import Record

_CHUNK_BYTES = 256 * 1024


class _Place(NamedTuple):
    """A record and the batch around it."""

    path: str
    position: int
    epoch: int
    record: Record


class _Replica:
    """The valid batches of a replica, one at a time: `entry` is the current one, None behind the last."""

    def __init__(self, directory: str, findings: Findings, advance: Callable[[int], None]) -> None:
        self.directory = directory
        self.listing = ReplicaListing.of(directory)
        self.path = ""
        self.entry: ScannedEntry | None = None
        self.first_offset = self.end_offset = self.listing.segments[0] if self.listing.segments else 0
        self.has_holes = False
        self.batches = self.size_bytes = 0
        self._findings = findings
        self._advance = advance
        self._entries = self._scan()
        self.step()
        if self.entry is not None:
            self.first_offset = self.entry.first_offset

    def step(self) -> None:
        """Go on to the next batch. Raises `OSError`."""
        self.entry = next(self._entries, None)

    def _scan(self) -> Iterator[ScannedEntry]:
        for base_offset in self.listing.segments:
            self.path = self.listing.path(base_offset, LOG_SUFFIX)
            for item in scan(self.path, resync=True, segment_base=base_offset):
                if isinstance(item, Damage):
                    if not item.is_harmless:
                        self._findings.add(of_damage(self.path, item))
                    continue
                self.batches += 1
                self.size_bytes += item.size
                self._advance(item.size)
                if item.is_valid:
                    self.end_offset = item.last_offset + 1
                    self._note_holes(item)
                    yield item

    def _note_holes(self, entry: ScannedEntry) -> None:
        """Note whether records are missing inside a batch: only compaction removes them."""
        batch = entry.batch
        if isinstance(batch, RecordBatch) and batch.count <= batch.last_offset_delta:
            self.has_holes = True

    def places(self) -> Iterator[_Place]:
        """Yield the records from the current batch on; report a batch that cannot be read."""
        while self.entry is not None:
            batch = self.entry.load()
            epoch = batch.partition_leader_epoch
            try:
                for record in batch.records():
                    yield _Place(self.path, self.entry.position, epoch, record)
            except CorruptRecord as error:
                kind = DamageKind.UNDECODABLE_RECORDS
                where = self.entry.position, self.entry.first_offset
                self._findings.add(Finding(self.path, kind, error.message, *where))
            self.step()


def compare(
    directory: str,
    other_directory: str,
    *,
    is_compacted: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> PartitionReport:
    """Compare two replica directories; the findings name the first one. Raises `OSError`."""
    findings = Findings()
    ours, theirs = _Replica(directory, findings, advance), _Replica(other_directory, findings, lambda _: None)
    start = max(ours.first_offset, theirs.first_offset)
    difference = None
    for replica in (ours, theirs):
        while replica.entry is not None and replica.entry.last_offset < start:
            replica.step()
    while difference is None and ours.entry is not None and theirs.entry is not None:
        if not _are_same(ours.entry, theirs.entry):
            difference = _first_difference(ours, theirs, findings, start, is_compacted)
            break
        ours.step()
        theirs.step()
    if difference is not None:
        findings.add(difference)
    else:
        _report_ends(ours, theirs, findings)
    count = len(ours.listing.segments)
    return PartitionReport(directory, [*findings], [], count, ours.batches, ours.size_bytes)


def _are_same(ours: ScannedEntry, theirs: ScannedEntry) -> bool:
    if ours.size != theirs.size or ours.first_offset != theirs.first_offset:
        return False
    return all(
        ours.read(at, _CHUNK_BYTES) == theirs.read(at, _CHUNK_BYTES)
        for at in range(0, ours.size, _CHUNK_BYTES)
    )


def _first_difference(
    ours: _Replica, theirs: _Replica, findings: Findings, start: int, is_compacted: bool
) -> Finding | None:
    """Return the first record that differs between the replicas, from the current batches on."""
    own, others = ours.places(), theirs.places()
    mine, other = next(own, None), next(others, None)
    compacted = 0
    while mine is not None and other is not None:
        offset = min(mine.record.offset, other.record.offset)
        if offset >= start and mine.record.offset == other.record.offset:
            what = _difference(mine, other)
            if what:
                message = f"{what} than in `{other.path}`, position {other.position}"
                return Finding(mine.path, FindingKind.REPLICAS_DIFFER, message, mine.position, offset)
        elif offset >= start:
            compacted += 1
            has = other if mine.record.offset > offset else mine
            if not (is_compacted or ours.has_holes or theirs.has_holes):
                message = f"only `{has.path}` has it, position {has.position}"
                return Finding(mine.path, FindingKind.REPLICAS_DIFFER, message, mine.position, offset)
        is_mine, is_other = mine.record.offset == offset, other.record.offset == offset
        mine = next(own, None) if is_mine else mine
        other = next(others, None) if is_other else other
    if compacted:
        message = f"{compacted} records are in one of the replicas alone"
        findings.add(Finding(ours.directory, FindingKind.REPLICA_COMPACTED, message))
    return None


def _difference(mine: _Place, other: _Place) -> str:
    """Return in what two records of one offset differ; empty if they are equal."""
    parts = {
        "leader epoch": (mine.epoch, other.epoch),
        "timestamp": (mine.record.timestamp, other.record.timestamp),
        "key": (mine.record.key, other.record.key),
        "value": (mine.record.value, other.record.value),
        "headers": (list(mine.record.headers), list(other.record.headers)),
    }
    names = [name for name, (one, another) in parts.items() if one != another]
    return f"another {' and '.join(names)}" if names else ""


def _report_ends(ours: _Replica, theirs: _Replica, findings: Findings) -> None:
    if ours.first_offset != theirs.first_offset:
        message = f"begins at offset {ours.first_offset}, `{theirs.directory}` at {theirs.first_offset}"
        findings.add(Finding(ours.directory, FindingKind.REPLICA_START, message, None, ours.first_offset))
    for replica in (ours, theirs):
        while replica.entry is not None:
            replica.step()
    if ours.end_offset != theirs.end_offset:
        message = f"ends at offset {ours.end_offset}, `{theirs.directory}` at {theirs.end_offset}"
        findings.add(Finding(ours.directory, FindingKind.REPLICA_END, message, None, ours.end_offset))
