"""LeaderEpochCheck and SnapshotCheck: whether the files of a replica besides segments agree with its log.

Leader epochs and their start offsets both increase strictly, and each batch has the epoch of its offset.

A producer snapshot is the state after everything below its offset. It is compared when the log reaches that
offset, unless records before it were compacted away or damaged. A producer that wrote long ago may be missing
in it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.verification.findings import Finding, FindingKind
from kcli.forensics.verification.offset_index_check import NO_OFFSET_DUE
from kcli.protocol.records.batch_header import next_sequence
from kcli.protocol.records.record import NO_PRODUCER_ID
from kcli.storage.checkpoints import CheckpointError, read_epochs, read_small_file
from kcli.storage.log_paths import LEADER_EPOCH_CHECKPOINT, SNAPSHOT_SUFFIX
from kcli.storage.producers.producer_snapshot import MAX_BYTES, CorruptSnapshot, decode_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.forensics.verification.packed_batches import PackedBatches
    from kcli.forensics.verification.segment_chain import ReplicaListing
    from kcli.protocol.records.batch import RecordBatch
    from kcli.storage.producers.producer_entry import ProducerStateEntry


NO_EPOCH = -1


class LeaderEpochCheck:
    """Takes the sound batches with another epoch than `epoch`, and those that end at or past `next_start`."""

    def __init__(self, directory: str, report: Callable[[Finding], None]) -> None:
        self.path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._report = report
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._is_usable = True
        self._highest = NO_EPOCH
        self._pending: tuple[str, int, int, int, int] | None = None
        """A batch that does not fit: path, position, offset, its epoch, and that of the checkpoint."""
        self._told: set[int] = set()
        self.epoch = NO_EPOCH
        self.next_start = NO_OFFSET_DUE

    def load(self) -> None:
        """Read the checkpoint. Raises `OSError`."""
        try:
            entries = read_epochs(self.path)
        except CheckpointError as error:
            self._say(FindingKind.LEADER_EPOCHS_DAMAGED, error.message)
            self._is_usable = False
            return
        previous = (-1, -1)
        for entry in entries:
            epoch, start = entry
            if epoch <= previous[0] or start <= previous[1]:
                message = f"epoch {epoch} from offset {start} comes after {previous[0]} from {previous[1]}"
                self._say(FindingKind.LEADER_EPOCHS_ORDER, message, start)
                self._is_usable = False
            previous = entry
            self._epochs.append(epoch)
            self._starts.append(start)

    def take_run(self, path: str, run: PackedBatches) -> None:
        """Take those of sound batches that the check needs."""
        first, last = run.leader_epochs[0], run.last_offsets[-1]
        if first == self.epoch and last < self.next_start and run.leader_epochs.count(first) == len(run):
            return
        batches = zip(run.positions, run.leader_epochs, run.base_offsets, run.last_offsets, strict=True)
        for position, epoch, offset, last in batches:
            if epoch != self.epoch or last >= self.next_start:
                self.take(path, position, epoch, offset, last)

    def take(self, path: str, position: int, epoch: int, offset: int, last_offset: int) -> None:
        """Check the epoch of a batch with these offsets, at a position of a log file."""
        self.epoch = epoch
        self.next_start = NO_OFFSET_DUE
        self._settle(epoch)
        if epoch < NO_EPOCH:
            message = f"impossible leader epoch {epoch}"
            self._report(Finding(path, FindingKind.LEADER_EPOCHS_MISMATCH, message, position, offset))
            return
        if epoch < self._highest:
            if epoch >= 0:
                message = f"leader epoch {epoch} after {self._highest}"
                self._report(Finding(path, FindingKind.LEADER_EPOCH_GOING_BACK, message, position, offset))
            return
        if not self._is_usable or epoch < 0:
            self._highest = epoch
            return
        slot = bisect_right(self._starts, offset)
        known = self._epochs[slot - 1] if slot else NO_EPOCH
        if slot < len(self._starts):
            self.next_start = self._starts[slot]
        # Records below the first entry were deleted: the entry was moved to the beginning of the log.
        is_deleted = not slot and bool(self._starts) and epoch <= self._epochs[0]
        if is_deleted or (known == epoch and last_offset < self.next_start):
            self._highest = epoch
            return
        if epoch not in self._told:
            self._pending = path, position, offset, epoch, known
            self.next_start = -NO_OFFSET_DUE

    def _settle(self, epoch: int | None) -> None:
        """Report a batch that does not fit; if the next one has its epoch, the checkpoint is wrong."""
        if self._pending is None:
            return
        path, position, offset, found, known = self._pending
        self._pending = None
        what = "nothing" if known < 0 else f"epoch {known}"
        kind = FindingKind.LEADER_EPOCHS_MISMATCH
        if epoch == found:
            self._told.add(found)
            self._say(kind, f"{what} for offset {offset}, the batches have epoch {found}", offset)
        else:
            message = f"leader epoch {found}, `{self.path}` says {what}"
            self._report(Finding(path, kind, message, position, offset))

    def finish(self, log_end: int | None) -> None:
        """Report epochs that begin past the end of the log, if that is known."""
        self._settle(None)
        for epoch, start in zip(self._epochs, self._starts, strict=True):
            if log_end is not None and start > log_end:
                message = f"epoch {epoch} begins at offset {start}, the log ends at {log_end}"
                self._say(FindingKind.LEADER_EPOCHS_PAST_LOG, message, start)

    def _say(self, kind: FindingKind, message: str, offset: int | None = None) -> None:
        self._report(Finding(self.path, kind, message, None, offset))


MAX_PRODUCERS = 50_000
"""How many producers are followed; with more of them, snapshots are not compared with the log."""


class Written(NamedTuple):
    """The last batch of a producer; sequence and offset are -1 if its epoch has none yet."""

    epoch: int
    sequence: int
    offset: int


class SnapshotCheck:
    """Follows the producers, and checks each snapshot when the log reaches its offset, `due`."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._report = report
        self._waiting: list[int] = []
        self._written: dict[int, Written] = {}
        self._first_offset = NO_OFFSET_DUE
        self.is_comparable = True
        """Whether every batch since the first one was seen."""
        self.due = NO_OFFSET_DUE

    def load(self, listing: ReplicaListing) -> None:
        self._listing = listing
        self._waiting = listing.snapshots[::-1]
        self._settle_due()

    def take(self, batch: RecordBatch) -> None:
        if self._first_offset == NO_OFFSET_DUE:
            self._first_offset = batch.base_offset
        known = self._written.get(batch.producer_id)
        if not batch.is_control:
            written = Written(batch.producer_epoch, batch.last_sequence, batch.last_offset)
        elif known is not None and known.epoch == batch.producer_epoch:
            return
        else:
            written = Written(batch.producer_epoch, -1, -1)
        self._written[batch.producer_id] = written
        if len(self._written) > MAX_PRODUCERS:
            self.give_up()

    def take_run(self, run: PackedBatches) -> None:
        """Follow what producers wrote without transactions."""
        last = dict(zip(run.producer_ids, range(len(run)), strict=True))
        last.pop(NO_PRODUCER_ID, None)
        if self._first_offset == NO_OFFSET_DUE:
            self._first_offset = next(
                offset
                for offset, producer in zip(run.base_offsets, run.producer_ids, strict=True)
                if producer >= 0
            )
        for producer, at in last.items():
            delta = run.last_offsets[at] - run.base_offsets[at]
            sequence = next_sequence(run.sequences[at], delta)
            self._written[producer] = Written(run.producer_epochs[at], sequence, run.last_offsets[at])
        if len(self._written) > MAX_PRODUCERS:
            self.give_up()

    def give_up(self) -> None:
        """Note that the state of the producers can no longer be known from the log."""
        self.is_comparable = False
        self._written.clear()

    def reach(self, offset: int) -> None:
        """Check the snapshots up to an offset that the log has reached. Raises `OSError`."""
        while self._waiting and self._waiting[-1] <= offset:
            self._check(self._waiting.pop())
        self._settle_due()

    def finish(self, log_end: int | None) -> None:
        """Check the other snapshots; report those past the end of the log. Raises `OSError`."""
        if log_end is None:
            self.give_up()
        else:
            self.reach(log_end)
        for offset in reversed(self._waiting):
            self.give_up()
            self._check(offset)
            if log_end is not None:
                path = self._listing.path(offset, SNAPSHOT_SUFFIX)
                message = f"the log ends at {log_end}, before offset {offset}"
                self._report(Finding(path, FindingKind.SNAPSHOT_MISMATCH, message, None, offset))
        self._waiting.clear()

    def _settle_due(self) -> None:
        self.due = self._waiting[-1] if self._waiting else NO_OFFSET_DUE

    def _check(self, offset: int) -> None:
        path = self._listing.path(offset, SNAPSHOT_SUFFIX)
        try:
            rows = decode_rows(read_small_file(path, MAX_BYTES))
        except (CorruptSnapshot, CheckpointError) as error:
            self._report(Finding(path, FindingKind.SNAPSHOT_DAMAGED, error.message, 0, offset))
            return
        except FileNotFoundError:
            return  # a running broker has removed it
        newest: dict[int, ProducerStateEntry] = {}
        for row in rows:
            earlier = newest.get(row.producer_id)
            if earlier is not None and not row.continues(earlier):
                self._mismatch(path, row, "is there twice")
            newest[row.producer_id] = row
        for producer in newest.values():
            problem = self._problem(producer, offset)
            if problem is not None:
                self._mismatch(path, producer, problem)

    def _mismatch(self, path: str, producer: ProducerStateEntry, problem: str) -> None:
        message = f"producer {producer.producer_id} {problem}"
        self._report(Finding(path, FindingKind.SNAPSHOT_MISMATCH, message, None, producer.last_offset))

    def _problem(self, producer: ProducerStateEntry, offset: int) -> str | None:
        """Return what is wrong with a producer in the snapshot at an offset, None if nothing is."""
        last = max(producer.last_offset, producer.current_txn_first_offset)
        if last >= offset:
            return f"reaches to offset {last}, past the snapshot's own {offset}"
        if not self.is_comparable or producer.last_offset < self._first_offset:
            return None
        found = Written(producer.producer_epoch, producer.last_sequence, producer.last_offset)
        written = self._written.get(producer.producer_id)
        if written == found:
            return None
        return f"is there with {_text(found)}, the log has {_text(written)}"


def _text(written: Written | None) -> str:
    if written is None:
        return "nothing of it"
    return f"epoch {written.epoch}, sequence {written.sequence}, offset {written.offset}"
