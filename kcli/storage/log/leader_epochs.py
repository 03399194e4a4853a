"""LeaderEpochs: the offset at which each leader of a partition began to write.

They are kept in memory and in `leader-epoch-checkpoint`. Epochs and start offsets both increase strictly; an
entry that would break this removes those in its way, since the newest leader is right (KIP-101, Kafka class
`LeaderEpochFileCache`). A follower asks its leader where an epoch ended and truncates its log to there.

Unlike Kafka's, the file is written at once but synced only with the log: a power failure can lose only the
epochs of batches above the recovery point, which recovery reads from the batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from kcli.storage.checkpoints import CheckpointError, read_epochs, write_epochs
from kcli.storage.log_paths import LEADER_EPOCH_CHECKPOINT

if TYPE_CHECKING:
    from collections.abc import Callable

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class LeaderEpochs:
    """The epochs of one replica, in ascending order."""

    __slots__ = ("_epochs", "_start_offsets", "changes", "directory", "latest_epoch", "synced_changes")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH
        self.changes = 0
        """How often the checkpoint was written."""
        self.synced_changes = 0
        """The value of `changes` at the last sync."""

    def load(self, report: Callable[[str], None]) -> None:
        """Read the checkpoint; a malformed one is reported and counts as empty. Raises `OSError`."""
        try:
            entries = read_epochs(self.path)
        except CheckpointError as error:
            report(f"leader epochs are lost: {error}")
            return
        for epoch, start_offset in entries:
            self._put(epoch, start_offset)

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def first_epoch(self) -> int:
        """The lowest epoch, -1 without one."""
        return self._epochs[0] if self._epochs else UNDEFINED_EPOCH

    def entries(self) -> list[tuple[int, int]]:
        """Return all (epoch, start offset) pairs."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` began at `start_offset`, unless it is known. Raises `OSError`."""
        if epoch == self.latest_epoch and start_offset >= self._start_offsets[-1]:
            return
        former = self._epochs, self._start_offsets
        self._put(epoch, start_offset)
        self._write(former)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch at or below the one asked for, (-1, -1) if unknown.

        An epoch below all known ones ends where the first known one starts.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        if above == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        return self._epochs[above - 1] if above else epoch, self._start_offsets[above]

    def epoch_for(self, offset: int) -> int:
        """Return the epoch in which an offset was written, -1 if unknown."""
        slot = bisect_right(self._start_offsets, offset)
        return self._epochs[slot - 1] if slot else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or above the new end of the log. Raises `OSError`."""
        keep = bisect_left(self._start_offsets, max(end_offset, 0))
        if keep < len(self._epochs):
            former = self._epochs, self._start_offsets
            self._keep(slice(0, keep))
            self._write(former)

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that end at or below the log start; the one that spans it now begins there."""
        below = bisect_right(self._start_offsets, start_offset)
        if below and (below > 1 or self._start_offsets[0] != start_offset):
            former = self._epochs, self._start_offsets
            self._keep(slice(below - 1, None))
            self._start_offsets[0] = start_offset
            self._write(former)

    def clear(self) -> None:
        """Drop all epochs. Raises `OSError`."""
        former = self._epochs, self._start_offsets
        self._keep(slice(0, 0))
        self._write(former)

    @property
    def path(self) -> str:
        return f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"

    def _put(self, epoch: int, start_offset: int) -> None:
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"no leader epoch {epoch} can start at offset {start_offset}")
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._start_offsets, start_offset))
        self._keep(slice(0, keep))
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.latest_epoch = epoch

    def _keep(self, kept: slice) -> None:
        self._epochs = self._epochs[kept]
        self._start_offsets = self._start_offsets[kept]
        self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def _write(self, former: tuple[list[int], list[int]]) -> None:
        """Write the checkpoint; after an `OSError` the epochs are the `former` ones again, as in the file."""
        try:
            write_epochs(self.path, self.entries(), sync=False)
        except OSError:
            self._epochs, self._start_offsets = former
            self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
            raise
        self.changes += 1
