"""Whether the producer snapshots of a replica are whole, and say what the log does.

A snapshot is the state that everything below its offset leaves. It is held against the batches when the log
reaches that offset, unless records were compacted away or damaged before. A producer that wrote long ago may
be missing in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.record import NO_PRODUCER_ID
from kcli.protocol.records.batch_header import next_sequence
from kcli.storage.checkpoints import CheckpointError, read_small_file
from kcli.storage.log_paths import SNAPSHOT_SUFFIX
from kcli.storage.producer_snapshot import MAX_BYTES, CorruptSnapshot, decode_rows
from kcli.storage.verification.finding_kinds import FindingKind
from kcli.storage.verification.findings import Finding
from kcli.storage.verification.offset_index import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.records.batch import RecordBatch
    from kcli.storage.producer_state import ProducerStateEntry
    from kcli.storage.verification.segment_chain import ReplicaListing
    from kcli.storage.verification.sound_run import SoundRun

MAX_PRODUCERS = 50_000
"""How many producers are followed; with more of them, snapshots are checked by themselves alone."""


class Written(NamedTuple):
    """What a producer wrote last; sequence and offset are -1 if its epoch has no batch yet."""

    epoch: int
    sequence: int
    offset: int


class SnapshotCheck:
    """Follows the producers, and looks at each snapshot once the log reaches its offset, `due`."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._report = report
        self._waiting: list[int] = []
        self._written: dict[int, Written] = {}
        self._first_offset = NEVER
        self.is_comparable = True
        """Whether every batch since the first one was seen."""
        self.due = NEVER

    def load(self, listing: ReplicaListing) -> None:
        """Take the snapshots that are to be looked at."""
        self._listing = listing
        self._waiting = listing.snapshots[::-1]
        self._settle_due()

    def take(self, batch: RecordBatch) -> None:
        """Follow what a producer wrote."""
        if self._first_offset == NEVER:
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

    def take_run(self, run: SoundRun) -> None:
        """Follow what producers wrote without transactions."""
        last = dict(zip(run.producer_ids, range(len(run)), strict=True))
        last.pop(NO_PRODUCER_ID, None)
        if self._first_offset == NEVER:
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
        """Take note that the log does not tell the whole state any more."""
        self.is_comparable = False
        self._written.clear()

    def reach(self, offset: int) -> None:
        """Look at the snapshots up to an offset that the log has reached. Raises `OSError`."""
        while self._waiting and self._waiting[-1] <= offset:
            self._check(self._waiting.pop())
        self._settle_due()

    def finish(self, log_end: int | None) -> None:
        """Look at the others; none may be past the end of the log, if that is known. Raises `OSError`."""
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
        self.due = self._waiting[-1] if self._waiting else NEVER

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
        """Return what is wrong with a producer in the snapshot at an offset."""
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
