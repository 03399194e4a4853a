"""Whether `leader-epoch-checkpoint` agrees with the batches of a partition.

Epochs and start offsets both increase strictly, and each batch was written in the epoch of its offset.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kcli.storage.checkpoints import CheckpointError, read_epochs
from kcli.storage.log_paths import LEADER_EPOCH_CHECKPOINT
from kcli.storage.verification.finding_kinds import FindingKind
from kcli.storage.verification.findings import Finding
from kcli.storage.verification.offset_index import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.storage.verification.sound_run import SoundRun

NO_EPOCH = -1


class LeaderEpochCheck:
    """Takes the sound batches that have another epoch than `epoch`, or end at or past `next_start`."""

    def __init__(self, directory: str, report: Callable[[Finding], None]) -> None:
        self.path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._report = report
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._is_usable = True
        self._highest = NO_EPOCH
        self._pending: tuple[str, int, int, int, int] | None = None
        """A batch that does not fit: path, position, offset, its epoch and the checkpoint's."""
        self._told: set[int] = set()
        self.epoch = NO_EPOCH
        self.next_start = NEVER

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

    def take_run(self, path: str, run: SoundRun) -> None:
        """Take those among sound batches that are to be taken."""
        first, last = run.leader_epochs[0], run.last_offsets[-1]
        if first == self.epoch and last < self.next_start and run.leader_epochs.count(first) == len(run):
            return
        batches = zip(run.positions, run.leader_epochs, run.base_offsets, run.last_offsets, strict=True)
        for position, epoch, offset, last in batches:
            if epoch != self.epoch or last >= self.next_start:
                self.take(path, position, epoch, offset, last)

    def take(self, path: str, position: int, epoch: int, offset: int, last_offset: int) -> None:
        """Compare the epoch of the batch of these offsets at a position of a log file."""
        self.epoch = epoch
        self.next_start = NEVER
        self._settle(epoch)
        if epoch < NO_EPOCH:
            message = f"leader epoch {epoch} cannot be"
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
        # Below the first entry are records that were deleted: it was moved to where the log begins since.
        is_deleted = not slot and bool(self._starts) and epoch <= self._epochs[0]
        if is_deleted or (known == epoch and last_offset < self.next_start):
            self._highest = epoch
            return
        if epoch not in self._told:
            self._pending = path, position, offset, epoch, known
            self.next_start = -NEVER

    def _settle(self, epoch: int | None) -> None:
        """Tell of a batch that does not fit: if the next one agrees with it, the checkpoint is wrong."""
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
