"""Finishing a plan: every file under its final name, nothing else of the plan left, then the commit.

Tasks of an earlier run and failed attempts may have left files behind at any point. A receipt counts only if
its files are there, as large as it says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.protocol.topics import TopicPartition
from kcli.spark.export.log.commit import Commit, Gap
from kcli.spark.export.log.receipt import Counters
from kcli.spark.export.log.receipts import Receipts
from kcli.spark.export.target.layout import (
    DEAD_VALUES,
    STATE,
    Layout,
    copied_path,
    parsed_name,
    plan_path,
    receipts_path,
)
from kcli.spark.export.target.local_target import temporary_name
from kcli.spark.split import BatchMark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.spark.export.log.export_log import ExportLog
    from kcli.spark.export.log.plan import Plan
    from kcli.spark.export.log.receipt import Receipt, WrittenFile
    from kcli.spark.split import Split

GONE = "retention removed it before it was read"
DAMAGED = "damaged"
LOST = "it was gone, or another log was in its place, before the export was resumed"


class PlanFinishing:
    """Brings one plan of a target to its commit, or rolls it back."""

    def __init__(self, log: ExportLog, plan: Plan) -> None:
        self._log = log
        self._target = log.target
        self._receipts = Receipts(log.target)
        self._plan = plan

    def recover(self) -> dict[int, Receipt]:
        """Publish the tasks that an earlier run finished, remove all else; return the finished ones."""
        target, plan = self._target, self._plan
        target.make_directory(receipts_path(plan.number))
        with target.when_no_task_writes(receipts_path(plan.number)):
            done = self.keep_one_each({})
            self._sweep(self._roots(), done.values(), recursive=True)
        return done

    def keep_one_each(self, known: Mapping[int, Receipt]) -> dict[int, Receipt]:
        """Return the one receipt that counts of each task, published; withdraw the others.

        It is the one known from its task's result, else that of the smallest attempt.
        """
        done: dict[int, Receipt] = {}
        others = []
        for receipt in sorted(self._receipts.tidied(self._plan), key=lambda one: (one.index, one.attempt)):
            named = known.get(receipt.index)
            is_other = receipt.index in done or (named is not None and named.attempt != receipt.attempt)
            if not is_other and self._receipts.publish(receipt):
                done[receipt.index] = receipt
            else:
                others.append(receipt)
        for receipt in others:
            self._receipts.withdraw(receipt)
        return done

    def commit(self, done: Mapping[int, Receipt], lost: Iterable[Gap], *, now_ms: int) -> Commit:
        """Write the commit: all tasks are done, and from here on their files count."""
        log, plan = self._log, self._plan
        directories = sorted({file.path.rpartition("/")[0] for file in files_of(done.values())})
        self._sweep(directories, done.values(), recursive=False)
        copies = self._copies()
        directories = sorted({*directories, *(file.path.rpartition("/")[0] for file in copies)})
        self._target.sync_directories([*directories, receipts_path(plan.number)])
        receipts = [done[index] for index in sorted(done)]
        written = Commit(
            number=plan.number,
            plan_id=plan.plan_id,
            committed_ms=now_ms,
            overwrites=plan.overwrites,
            topics={**({} if plan.overwrites else log.topics), **plan.identity.topics},
            ranges=plan.ranges,
            next_offsets=plan.next_offsets,
            splits=len(plan.tasks),
            marks=_marks(plan, receipts),
            files=(*(replace(file, temporary=None) for one in receipts for file in one.files), *copies),
            dead_letters=tuple(
                replace(file, temporary=None) for one in receipts for file in one.dead_letters
            ),
            counters=sum((one.counters for one in receipts), Counters()),
            gaps=(*plan.gaps, *lost, *_gaps(plan, receipts)),
            resets=plan.resets,
            keeps_resets=plan.keeps_resets,
        )
        log.write_commit(written)
        return written

    def roll_back(self) -> None:
        """Remove the plan and everything that was written for it."""
        target, directory = self._target, receipts_path(self._plan.number)
        target.make_directory(directory)
        with target.when_no_task_writes(directory):
            for receipt in self._receipts.tidied(self._plan):
                self._receipts.withdraw(receipt)
            for entry in target.list(directory):
                target.remove(entry.path)
            self._sweep(self._roots(), (), recursive=True)
            for root in filter(None, self._roots()):
                target.remove_empty_directories(root)
        target.remove_empty_directories(directory)
        for file in self._partly_reset():
            path = copied_path(file.path, self._plan.number)
            target.remove(path)
            target.remove(temporary_name(path, f"{self._plan.number:08x}"))
        target.remove(plan_path(self._plan.number))
        self._log.pending = None

    def _copies(self) -> list[WrittenFile]:
        """Write the rows that go on counting of files that this plan resets in part."""
        files = self._partly_reset()
        if not files:
            return []
        from kcli.spark.export.writing.kept_rows import write_copy

        return [write_copy(self._target, file, self._plan) for file in files]

    def _partly_reset(self) -> list[WrittenFile]:
        """Return the shared files of earlier commits in which some partitions begin again, and not all."""
        resets = self._plan.resets
        if not resets or self._plan.overwrites:
            return []
        files = [one.file for one in self._log.live_files() if not one.is_of_old_log]
        return [
            file
            for file in files
            if len({(file.topic, part.partition) in resets for part in file.pieces}) == 2
        ]

    def _sweep(self, directories: Iterable[str], keep: Iterable[Receipt], *, recursive: bool) -> None:
        """Remove the plan's files that the receipts to keep do not name."""
        target, plan = self._target, self._plan
        kept = {file.path for file in files_of(keep)}
        stems = {one.stem for one in plan.tasks}
        stems |= {Layout(()).stem(one.splits, plan.number) for one in plan.tasks}  # of dead letters
        for directory in {*directories, DEAD_VALUES}:
            for entry in target.list(directory, recursive=recursive):
                if entry.path in kept or (not directory and entry.path.startswith(f"{STATE}/")):
                    continue
                name = parsed_name(entry.path)
                if name is not None and name.stem in stems:
                    target.remove(entry.path)

    def _roots(self) -> set[str]:
        """Return the directories under which all files of the plan are."""
        return {self._plan.options.layout.directory(one.splits[0]) for one in self._plan.tasks}


def files_of(receipts: Iterable[Receipt]) -> list[WrittenFile]:
    """Return all files of receipts, including dead letters."""
    return [file for one in receipts for file in (*one.files, *one.dead_letters)]


def _marks(plan: Plan, receipts: Iterable[Receipt]) -> dict[TopicPartition, tuple[BatchMark, ...]]:
    """Return the last batch of each leader epoch of each partition that was read up to this plan.

    The mark of earlier plans stays: the log may have been truncated before it after this plan was made, while
    its tasks read.
    """
    found = [(one, mark) for one, marks in plan.marks.items() for mark in marks]
    reads = [read for one in receipts for read in one.reads]
    found += [(TopicPartition(one.topic, one.partition), mark) for one in reads for mark in one.marks]
    ends: dict[TopicPartition, dict[int, int]] = {}
    for partition, (offset, epoch) in found:
        by_epoch = ends.setdefault(partition, {})
        by_epoch[epoch] = max(offset, by_epoch.get(epoch, offset))
    return {
        one: tuple(sorted(BatchMark(offset, epoch) for epoch, offset in by_epoch.items()))
        for one, by_epoch in ends.items()
    }


def _gaps(plan: Plan, receipts: Iterable[Receipt]) -> Iterable[Gap]:
    """Yield offsets that are damaged, and those that were gone before a resumed task read them."""
    for receipt in receipts:
        reads = {one.partition: one for one in receipt.reads}
        for split in plan.tasks[receipt.index].splits:
            read = reads.get(split.partition)
            if read is None:
                yield _gap(split, split.start, split.end, LOST)
                continue
            if read.start > split.start:
                yield _gap(split, split.start, read.start, GONE)
            for start, end in read.missing:
                yield _gap(split, start, end, DAMAGED)


def _gap(split: Split, start: int, end: int, reason: str) -> Gap:
    return Gap(topic=split.topic, partition=split.partition, start=start, end=end, reason=reason)
