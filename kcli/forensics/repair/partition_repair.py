"""PartitionRepairer: copies the valid entries of a damaged partition into one that a broker can load.

`CUT` keeps the entries before the first damage, as a broker's own recovery does; `CARVE` keeps every valid
entry. Offsets are never changed: gaps stay, and entries that would go back are dropped. Indexes, leader
epochs and the state of the producers are built from the entries kept.

The original is only ever read. The copy goes to a directory that is new or empty, and is on disk when it is
reported; after a failure nothing of it is left.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from kcli.errors import KcliError, UsageError
from kcli.forensics.repair.segment_repair import (
    RepairMode,
    SegmentCopy,
    SegmentRepair,
    SegmentRepairer,
    SourceSegment,
)
from kcli.protocol.records.batch_header import MAX_OFFSET
from kcli.protocol.topics import TopicPartition
from kcli.storage import disk
from kcli.storage.checkpoints import CheckpointError, read_epochs, read_partition_metadata, write_epochs
from kcli.storage.log.log_config import LogConfig
from kcli.storage.log_paths import (
    CLEANED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    base_offset_of,
    offset_from_name,
    parse_replica_directory,
    segment_path,
)
from kcli.storage.producers.producer_snapshot import CorruptSnapshot, ProducerSnapshots, decode_snapshot
from kcli.storage.producers.producer_state import ProducerStateManager

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PartitionRepair", "RepairMode", "SegmentRepair", "repair_partition", "repair_segment"]

_DEFAULTS = LogConfig()
_NEVER_MS = 2**62
_COPIED = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint|quorum-state")
_COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without an end in the copy: read_committed consumers stop at its first offset."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRepair:
    """The result of repairing the partition at `source`; `notes` name the other differences of the copy."""

    source: str
    target: str
    mode: RepairMode
    segments: tuple[SegmentRepair, ...]
    end_offset: int
    open_transactions: tuple[OpenTransaction, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kept_bytes(self) -> int:
        return sum(segment.kept_bytes for segment in self.segments)

    @property
    def dropped_bytes(self) -> int:
        """Bytes that are not in the copy, without reserved ones."""
        return sum(segment.dropped_bytes for segment in self.segments)

    @property
    def damage_count(self) -> int:
        return sum(segment.damage_count for segment in self.segments)

    @property
    def leaves_valid_out(self) -> bool:
        """Whether valid batches behind the damage were not copied."""
        return self.mode is RepairMode.CUT and any(
            segment.is_behind_cut or segment.goes_on_behind_damage for segment in self.segments
        )


def repair_partition(
    directory: str, target: str, *, mode: RepairMode, is_deep: bool = False, config: LogConfig = _DEFAULTS
) -> PartitionRepair:
    """Copy a replica directory to `target`; with `is_deep`, drop entries with bad records, too.

    `config` has the interval of the indexes. Raises `UsageError` if there is no segment or `target` is not
    empty, and `OSError`.
    """
    segments = find_segments(directory)
    if not segments:
        raise UsageError(f"no segments in `{directory}`")
    with _new_directory(target, directory):
        return PartitionRepairer(directory, target, mode=mode, is_deep=is_deep, config=config).run(
            segments, is_partition=True
        )


def repair_segment(
    path: str, target: str, *, mode: RepairMode, is_deep: bool = False, config: LogConfig = _DEFAULTS
) -> PartitionRepair:
    """Copy one segment, given by its `.log` file, to the directory `target`, like `repair_partition`."""
    name = os.path.basename(path)
    base_offset = offset_from_name(name)
    if base_offset is None or LOG_SUFFIX.strip(".") not in name.split("."):
        raise UsageError(f"not the name of a segment: `{path}`")
    directory = os.path.dirname(path) or "."
    with _new_directory(target, directory):
        return PartitionRepairer(directory, target, mode=mode, is_deep=is_deep, config=config).run(
            [(base_offset, path)], is_partition=False
        )


def find_segments(directory: str) -> list[tuple[int, str]]:
    """Return the segments of a replica as (base offset, path of the log file). Raises `OSError`.

    A compacted segment about to be swapped in counts if the one it replaces is gone.
    """
    names = sorted(os.listdir(directory))
    cleaned = [offset_from_name(name) or 0 for name in names if name.endswith(CLEANED_SUFFIX)]
    segments: dict[int, str] = {}
    # A swap at or above a file that was still being written by the cleaner is not complete.
    limits = {LOG_SUFFIX + SWAP_SUFFIX: min(cleaned, default=MAX_OFFSET), LOG_SUFFIX: MAX_OFFSET}
    for suffix, limit in limits.items():
        for name in names:
            base_offset = base_offset_of(name, suffix)
            if base_offset is not None and base_offset < limit:
                segments[base_offset] = f"{directory}/{name}"
    return sorted(segments.items())


class PartitionRepairer:
    """Repairs one partition, or one segment of it."""

    def __init__(
        self, source: str, target: str, *, mode: RepairMode, is_deep: bool, config: LogConfig
    ) -> None:
        self._config = config
        self._source = source
        self._target = target
        self._mode = mode
        self._is_deep = is_deep
        self._notes: list[str] = []
        self._epochs: list[tuple[int, int]] = []
        name = parse_replica_directory(os.path.basename(os.path.abspath(source)))
        partition = name.topic_partition if name is not None else TopicPartition(source, 0)
        self._state = ProducerStateManager(partition, producer_id_expiration_ms=_NEVER_MS)

    def run(self, segments: list[tuple[int, str]], *, is_partition: bool) -> PartitionRepair:
        first = segments[0][0]
        self._load_state(first)
        repaired, end_offset = self._repair_segments(segments)
        if is_partition:
            self._write_epochs(end_offset)
            self._copy_files()
            ProducerSnapshots(self._target).write(end_offset, self._state.producers.values(), sync=True)
        disk.sync_path(self._target)
        return PartitionRepair(
            source=self._source,
            target=self._target,
            mode=self._mode,
            segments=tuple(repaired),
            end_offset=end_offset,
            open_transactions=tuple(
                OpenTransaction(entry.producer_id, entry.current_txn_first_offset)
                for entry in self._state.producers.values()
                if entry.current_txn_first_offset >= 0
            ),
            notes=tuple(self._notes),
        )

    def _repair_segments(self, segments: list[tuple[int, str]]) -> tuple[list[SegmentRepair], int]:
        repaired: list[SegmentRepair] = []
        end_offset = segments[0][0]
        is_cut = False
        for number, (base_offset, path) in enumerate(segments):
            if is_cut:
                repaired.append(
                    SegmentRepair(
                        source=path,
                        target=None,
                        base_offset=base_offset,
                        source_bytes=os.path.getsize(path),
                        is_behind_cut=True,
                    )
                )
                continue
            copy = SegmentCopy(self._target, base_offset, config=self._config, state=self._state)
            if not number:
                copy.create()
            limit = segments[number + 1][0] if number + 1 < len(segments) else MAX_OFFSET
            repairer = SegmentRepairer(
                SourceSegment(path, base_offset, limit),
                copy=copy,
                mode=self._mode,
                is_deep=self._is_deep,
                next_offset=max(base_offset, end_offset),
            )
            repaired.append(repairer.run())
            is_cut = self._mode is RepairMode.CUT and repaired[-1].damage_count > 0
            if repaired[-1].kept_entries:
                end_offset = repairer.next_offset
            for epoch, start_offset in repairer.epochs:
                if not self._epochs or epoch > self._epochs[-1][0]:
                    self._epochs.append((epoch, start_offset))
        return repaired, end_offset

    def _load_state(self, offset: int) -> None:
        """Load the state of the producers before the first segment, if there is a snapshot."""
        self._state.clear(offset)
        path = segment_path(self._source, offset, SNAPSHOT_SUFFIX)
        try:
            with open(path, "rb") as file:
                self._state.load(decode_snapshot(file.read()), end_offset=offset, now_ms=0)
        except FileNotFoundError:
            return
        except CorruptSnapshot as error:
            self._notes.append(f"the state of the producers begins empty: {error.message}: `{path}`")

    def _write_epochs(self, end_offset: int) -> None:
        """Keep the source's epochs if the batches agree; else take those of the batches, losing others."""
        path = f"{self._source}/{LEADER_EPOCH_CHECKPOINT}"
        epochs = self._epochs
        try:
            known = [entry for entry in read_epochs(path) if entry[1] < end_offset]
            if _agree(known, epochs):
                epochs = known
            elif os.path.exists(path):
                self._notes.append(f"leader epochs are those of the batches, not of `{path}`")
        except CheckpointError as error:
            self._notes.append(f"leader epochs are those of the batches: {error.message}")
        write_epochs(f"{self._target}/{LEADER_EPOCH_CHECKPOINT}", epochs)

    def _copy_files(self) -> None:
        """Copy `partition.metadata`, and the snapshots of a metadata log."""
        try:
            if read_partition_metadata(self._source) is not None:
                self._copy_file(PARTITION_METADATA)
        except CheckpointError as error:
            self._notes.append(f"no `{PARTITION_METADATA}`: {error.message}")
        for name in sorted(os.listdir(self._source)):
            if _COPIED.fullmatch(name):
                self._copy_file(name)
                self._notes.append(f"copied as it is: `{name}`")

    def _copy_file(self, name: str) -> None:
        copy = f"{self._target}/{name}"
        with (
            open(f"{self._source}/{name}", "rb") as source,
            open(copy, "xb", opener=disk.open_file) as target,
        ):
            while data := source.read(_COPY_BYTES):
                target.write(data)
            target.flush()
            disk.sync(target.fileno())


def _agree(known: list[tuple[int, int]], seen: list[tuple[int, int]]) -> bool:
    """Whether `known` epochs and start offsets are in order and include those `seen` in batches."""
    in_order = all(
        epoch < next_epoch and start < next_start
        for (epoch, start), (next_epoch, next_start) in pairwise(known)
    )
    starts = dict(known)
    return in_order and all(starts.get(epoch, MAX_OFFSET) <= first for epoch, first in seen)


@contextmanager
def _new_directory(target: str, source: str) -> Iterator[None]:
    """Make the directory `target`, which must be new or empty and not inside the replica `source`.

    After a failure it is emptied, and removed if it is new.
    """
    inside = os.path.realpath(source) + os.sep
    is_replica = parse_replica_directory(os.path.basename(os.path.realpath(source))) is not None
    if is_replica and (os.path.realpath(target) + os.sep).startswith(inside):
        raise UsageError(f"`{target}` is inside of the directory to repair", hint="name another directory")
    is_new = not os.path.lexists(target)
    if not is_new and (not os.path.isdir(target) or os.listdir(target)):
        raise UsageError(f"`{target}` is not an empty directory", hint="name one that does not exist yet")
    try:
        os.makedirs(target, exist_ok=True)
    except OSError as error:
        raise KcliError(f"cannot create `{error.filename or target}`: {error.strerror}") from error
    try:
        yield
        disk.sync_path(os.path.dirname(os.path.abspath(target)))
    except BaseException:
        for name in os.listdir(target):
            os.unlink(f"{target}/{name}")
        if is_new:
            os.rmdir(target)
        raise
