"""The dry run: what an export would read. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kcli.protocol.topics import TopicPartition
from kcli.spark.export.export_session import resumes
from kcli.spark.export.log.commit import Commit
from kcli.spark.export.log.export_log import ExportLog, check_ours
from kcli.spark.export.log.receipts import Receipts
from kcli.spark.export.options import Mode
from kcli.spark.export.planning import find_new_offsets, make_plan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.spark.export.log.commit import Gap
    from kcli.spark.export.log.plan import Plan, PlannedTask
    from kcli.spark.export.options import ExportOptions
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import Source
    from kcli.spark.split import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    topic: str
    partition: int
    start: int
    end: int
    records: int
    """At most: offsets without a record, after compaction and of transactions, count too."""
    size_bytes: int
    splits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    target: str
    resumes_plan: int | None
    """The plan of an earlier run that is finished first."""
    partitions: tuple[PlannedPartition, ...]
    files: int
    """About how many files; several dates make more."""
    gaps: tuple[Gap, ...] = ()


def plan_export(source: Source, target: Target, options: ExportOptions, *, slots: int = 1) -> DryRun:
    """Return what an export would read; raise the error that it would end with at once."""
    check_ours(target, options.mode)
    log = ExportLog.load(target)
    log.check_mode(options.mode)
    log.check_whole()
    options = replace(options, limits=replace(options.limits, task_slots=slots))
    pending = log.pending if log.pending and resumes(log.pending, options) else None
    tasks: list[PlannedTask] = []
    plan: Plan | None = None
    if pending is not None:
        done = {receipt.index for receipt in Receipts(target).of(pending)}
        tasks += [one for one in pending.tasks if one.index not in done]
        log.last = _as_if_committed(pending)
    if pending is None or options.mode is Mode.APPEND:
        plan = make_plan(source, log, options, find_new_offsets(source, log, options), now_ms=0)
        tasks += plan.tasks if plan else ()
    return DryRun(
        target=target.uri,
        resumes_plan=pending.number if pending else None,
        partitions=_partitions(split for one in tasks for split in one.splits),
        files=len(tasks),
        gaps=plan.gaps if plan else (),
    )


def _partitions(splits: Iterable[Split]) -> tuple[PlannedPartition, ...]:
    by_partition: dict[TopicPartition, list[Split]] = {}
    for split in splits:
        by_partition.setdefault(TopicPartition(split.topic, split.partition), []).append(split)
    return tuple(
        PlannedPartition(
            topic=topic,
            partition=partition,
            start=min(split.start for split in found),
            end=max(split.end for split in found),
            records=sum(split.end - split.start for split in found),
            size_bytes=sum(split.size_bytes for split in found),
            splits=len(found),
        )
        for (topic, partition), found in sorted(by_partition.items())
    )


def _as_if_committed(plan: Plan) -> Commit:
    """Return the commit that the log will have when a plan is finished, for planning only."""
    return Commit(
        number=plan.number,
        plan_id=plan.plan_id,
        committed_ms=0,
        overwrites=plan.overwrites,
        topics=dict(plan.identity.topics),
        ranges=plan.ranges,
        next_offsets=plan.next_offsets,
        splits=len(plan.tasks),
        marks=plan.marks,
    )
