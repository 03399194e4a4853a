"""ExportSession: a locked target, and the plans that a run commits to it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.export.failures import TargetRefused, is_final
from kcli.spark.export.finishing import PlanFinishing
from kcli.spark.export.log.commit import RunTotals
from kcli.spark.export.log.export_log import ExportLog, check_ours
from kcli.spark.export.log.lock import locked
from kcli.spark.export.options import Mode
from kcli.spark.export.planning import find_new_offsets, make_plan, remaining
from kcli.spark.export.target.layout import DEAD_BATCHES, LOG, STATE
from kcli.spark.export.writing.split_task import SplitTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcli.spark.export.engine import Engine, Progress
    from kcli.spark.export.log.commit import Summary
    from kcli.spark.export.log.lock import Lock
    from kcli.spark.export.log.plan import Plan, PlannedTask
    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.options import ExportOptions
    from kcli.spark.export.planning import NewOffsets
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import Source

_MAX_ROUNDS = 4


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class ExportSession:
    """A run and its locked target; `open_session` makes one."""

    def __init__(
        self,
        source: Source,
        log: ExportLog,
        options: ExportOptions,
        engine: Engine,
        progress: Progress,
        *,
        lock: Lock,
        now_ms: Callable[[], int],
    ) -> None:
        self.source = source
        self.log = log
        self.options = options
        self._engine = engine
        self._progress = progress
        self._lock = lock
        self._now_ms = now_ms
        self._totals = RunTotals(log.target.uri, log.target.state_uri)

    def resume(self) -> bool:
        """Finish the plan that an earlier run began; return whether that was all this run had to do."""
        plan = self.log.pending
        if plan is None:
            return False
        if not resumes(plan, self.options):
            if self.options.mode is Mode.SNAPSHOT:
                raise TargetRefused(
                    f"`{self.log.target.uri}` holds another export that was begun and not finished",
                    hint="finish it with the command that began it, or take an empty directory",
                )
            PlanFinishing(self.log, plan).roll_back()
            return False
        plan.identity.check_cluster(self.source.cluster_id(), self.log.target.uri)
        self._progress.note(f"resuming plan {plan.number}, begun by an earlier run")
        self._totals.resumed = True
        self._finish(plan)
        return self.options.mode is not Mode.APPEND

    def news(self) -> NewOffsets:
        return find_new_offsets(self.source, self.log, self.options)

    def export(self, news: NewOffsets) -> bool:
        """Plan and export new offsets; return whether there were any."""
        plan = make_plan(self.source, self.log, self.options, news, now_ms=self._now_ms())
        if plan is None:
            if not self.log.commits:
                self._totals.found_nothing(news.ranges)
            return False
        self.log.write_plan(plan)
        self._finish(plan)
        return True

    def summary(self, seconds: float) -> Summary:
        return self._totals.summary(seconds)

    def _finish(self, plan: Plan) -> None:
        """Run the unfinished tasks of a plan and commit it; repeat if files disappeared meanwhile."""
        finishing = PlanFinishing(self.log, plan)
        done = finishing.recover()
        try:
            for _ in range(_MAX_ROUNDS):
                left, lost = remaining(self.source, plan, done, self.options.rules)
                if not left:
                    self._lock.check()
                    self._totals.add(finishing.commit(done, lost, now_ms=self._now_ms()))
                    self.log.remove_dropped()
                    self.log.retire_resets()
                    return
                done |= self._run(plan, left)
                done = finishing.keep_one_each(done)
        except KcliError as error:
            if is_final(error):
                finishing.roll_back()
            raise
        raise KcliError(
            f"files of plan {plan.number} keep disappearing from `{self.log.target.uri}`",
            hint="something else removes files there; run it again when that has ended",
        )

    def _run(self, plan: Plan, left: Sequence[PlannedTask]) -> dict[int, Receipt]:
        tasks = self._tasks(plan, left)
        self._progress.planned(len(tasks), sum(one.size_bytes for one in left))
        receipts: dict[int, Receipt] = {}

        def on_done(receipt: Receipt) -> None:
            receipts[receipt.index] = receipt
            self._progress.finished(receipt)

        self._engine.run(tasks, on_done, self._progress)
        return receipts

    def _tasks(self, plan: Plan, left: Sequence[PlannedTask]) -> list[SplitTask]:
        reader = self.source.reader()
        # A file's identity names only its own topic: thousands of topics would outweigh its rows.
        identities = {
            topic: replace(plan.identity, topics={topic: plan.identity.topics.get(topic)})
            for topic in {one.splits[0].topic for one in left}
        }
        return [
            SplitTask(
                target=self.log.target,
                plan=plan.number,
                plan_id=plan.plan_id,
                index=one.index,
                splits=one.splits,
                stem=one.stem,
                planned=plan.range_of(one.splits[0]),
                identity=identities[one.splits[0].topic],
                reader=reader,
                options=plan.options,
            )
            for one in left
        ]


def _tidy(target: Target) -> None:
    """Remove temporary files that a crash left in the log."""
    for directory in (STATE, LOG, DEAD_BATCHES):
        for entry in target.list(directory):
            if entry.path.rpartition("/")[2].startswith("."):
                target.remove(entry.path)


def resumes(plan: Plan, options: ExportOptions) -> bool:
    """Return whether a run goes on with a plan that it finds.

    A run in append mode finishes any plan; other modes only a plan with the same options.
    """
    return options.mode is Mode.APPEND or plan.asked == options.fingerprint()


@contextmanager
def open_session(
    source: Source,
    target: Target,
    options: ExportOptions,
    engine: Engine,
    progress: Progress,
    *,
    now_ms: Callable[[], int] = wall_ms,
) -> Iterator[ExportSession]:
    """Lock a target and remove what a crash left in its log; unlock it after the block."""
    check_ours(target, options.mode)
    options = replace(options, limits=replace(options.limits, task_slots=engine.slots))
    with locked(target, now_ms) as lock:
        log = ExportLog.load(target)
        log.check_mode(options.mode)
        log.check_whole()
        try:
            _tidy(target)
            log.remove_dropped()
            log.retire_resets()
            yield ExportSession(source, log, options, engine, progress, lock=lock, now_ms=now_ms)
        finally:
            if not log.has_plan:
                log.remove_traces()
                lock.forget()
