"""`kcli broker compact`: compacts logs now, of a running broker or of log directories at rest."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from kcli.commands.broker.node import DEFAULT_DATA_DIR, DataDir, ask_process, complete_node
from kcli.commands.shared.formatting import counted, size_text
from kcli.commands.shared.output import OutputFormat, Table, note, warn
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kcli.broker.node.log_cleaner import RoundOptions

    OnProgress = Callable[[Mapping[str, Any]], None]

MOST_SECONDS = 7 * 24 * 3600.0
"""Compaction takes as long as it takes; Ctrl-C ends it."""

BOUNDS = {
    "active_segment": "the active segment",
    "last_stable_offset": "the last stable offset",
    "compaction_lag": "min.compaction.lag.ms",
    "full_map": "the memory for keys: more is left",
}

Partitions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TOPIC[:PARTITION]]...", help="Topics and partitions; by default all that are compacted"
    ),
]
NodeOption = Annotated[
    int | None,
    typer.Option(metavar="ID", min=0, help="Replicas of this node only", autocompletion=complete_node),
]
LogDirs = Annotated[
    str | None,
    typer.Option(
        "--log-dirs",
        metavar="DIR,...",
        help="The log directories of a stopped broker, kcli's or Apache Kafka's",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and write nothing")]
Roll = Annotated[
    bool,
    typer.Option(
        "--roll",
        help="Close the active segment first, so that it is compacted too; with --dry-run, tell what that "
        "would lead to",
    ),
]
IgnoreLag = Annotated[
    bool, typer.Option("--ignore-lag", help="Compact records younger than min.compaction.lag.ms too")
]
Now = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="The time from which the ages of tombstones and records count, instead of the present: "
        "milliseconds or 2025-12-31T23:59:59Z",
    ),
]


class Dropped(NamedTuple):
    """Records that were dropped, by the reason."""

    newer_value: int
    tombstone: int
    aborted: int
    marker: int
    keyless: int

    @property
    def reasons(self) -> str:
        counts = self._asdict().items()
        return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts if count)

    def line(self) -> str:
        return f"dropped {sum(self):,}" + (f" ({self.reasons})" if sum(self) else "")


class CompactedPartition(NamedTuple):
    """One replica: its compacted part before and after; `node` is None for directories at rest.

    `first_dirty_offset` to `end_offset` is what was not compacted before. `bounded_by` is one of `BOUNDS`,
    with the producer of the open transaction if that is the last stable offset.
    """

    node: int | None
    topic: str
    partition: int
    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    dropped: Dropped
    horizons_set: int
    first_dirty_offset: int
    end_offset: int
    bounded_by: str
    producer_id: int | None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def has_nothing(self) -> bool:
        return self.first_dirty_offset >= self.end_offset

    @property
    def bound(self) -> str:
        of = "" if self.producer_id is None else f" of producer {self.producer_id}"
        return BOUNDS[self.bounded_by] + of

    def line(self, *, with_node: bool) -> str:
        where = f"node {self.node}: {self.name}" if with_node else self.name
        if self.has_nothing:
            return f"{where}: nothing to compact from offset {self.first_dirty_offset} on: {self.bound}"
        parts = (
            f"segments {self.segments_before} to {self.segments_after}",
            f"bytes {self.bytes_before:,} to {self.bytes_after:,}",
            f"records {self.records_before:,} to {self.records_after:,}",
            self.dropped.line(),
            f"delete horizons set {self.horizons_set:,}",
            f"dirty offsets {self.first_dirty_offset} to {self.end_offset}",
            f"up to {self.bound}",
        )
        return f"{where}: {', '.join(parts)}"

    def cells(self) -> tuple[object, ...]:
        where = (*(() if self.node is None else (self.node,)), self.name)
        if self.has_nothing:
            nothing = "nothing"
            return (
                *where,
                nothing,
                nothing,
                nothing,
                nothing,
                f"none from {self.first_dirty_offset} on",
                self.bound,
            )
        return (
            *where,
            f"{self.segments_before} to {self.segments_after}",
            f"{size_text(self.bytes_before)} to {size_text(self.bytes_after)}",
            f"{self.records_before:,} to {self.records_after:,}",
            self.dropped.reasons,
            f"{self.first_dirty_offset} to {self.end_offset}",
            self.bound,
        )


class Compacted(NamedTuple):
    """The result of `broker compact`."""

    dry_run: bool
    partitions: tuple[CompactedPartition, ...]
    failures: tuple[KcliError, ...] = ()

    @property
    def shown(self) -> tuple[CompactedPartition, ...]:
        """The replicas that text and table have."""
        return self.partitions

    def lines(self) -> list[str]:
        several = len({each.node for each in self.partitions}) > 1
        return [each.line(with_node=several) for each in self.shown]

    def tables(self) -> list[Table]:
        columns = (
            *(("Node",) if any(each.node is not None for each in self.partitions) else ()),
            *("Partition", "Segments", "Bytes", "Records", "Dropped", "New offsets", "Up to"),
        )
        return [Table(columns, [each.cells() for each in self.shown])] if self.shown else []


class CompactedWhatWasDirty(Compacted):
    """The result for all logs: text and table leave out those with nothing to compact, which are many."""

    __slots__ = ()

    @property
    def shown(self) -> tuple[CompactedPartition, ...]:
        return tuple(each for each in self.partitions if not each.has_nothing)


async def compact(
    context: typer.Context,
    partitions: Partitions = None,
    *,
    node: NodeOption = None,
    log_dirs: LogDirs = None,
    dry_run: DryRun = False,
    roll: Roll = False,
    ignore_lag: IgnoreLag = False,
    now: Now = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputFormat | None = None,
) -> Compacted:
    """Compact logs of topics with `cleanup.policy=compact` now, whatever their share of dirty bytes.

    The last record of each key stays, with its offset. Tombstones stay for `delete.retention.ms` after the
    compaction that meets them first. As in Apache Kafka, the next one that has new records to compact drops
    them; without new records nothing is done, and tombstones stay, whatever `--now` says.

    The active segment stays as it is, because the broker appends to it. With `--roll` the broker closes it
    first, and begins another. At rest it cannot be compacted: only a broker closes segments.

    With `--log-dirs` no broker runs, and the last one has stopped in order; the configurations of topics are
    those in the metadata log there. A dry run may look at the directories of a running broker, too.
    """
    from kcli.commands.shared.times import parse_time

    chosen = [_target(text) for text in partitions or ()]
    now_ms = None if now is None else parse_time(now, "--now")
    if log_dirs is not None:
        source = context.get_parameter_source("data_dir")
        # The directory in the environment may be meant for other commands.
        is_named = source is not None and source.name == "COMMANDLINE"
        for is_given, option in ((node is not None, "--node"), (roll, "--roll"), (is_named, "--data-dir")):
            if is_given:
                raise UsageError(f"`{option}` and `--log-dirs` exclude each other")
    with _progress(output) as on_progress:
        if log_dirs is None:
            answer = ask_process(
                data_dir,
                "log.compact",
                timeout_seconds=MOST_SECONDS,
                on_progress=on_progress,
                node=node,
                partitions=chosen,
                dry_run=dry_run,
                roll=roll,
                ignore_lag=ignore_lag,
                now_ms=now_ms,
            )
        else:
            how = _options(now_ms, on_progress, ignores_lag=ignore_lag, is_dry_run=dry_run)
            answer = _compact_at_rest(log_dirs, chosen, how)
    done = compacted(answer, dry_run=dry_run, are_named=bool(chosen))
    for warning in answer.get("warnings", ()):
        warn(warning)
    if output is not OutputFormat.JSON:
        hidden = len(done.partitions) - len(done.shown)
        if hidden:
            note(f"nothing to compact in {counted(hidden, 'log')}")
        if answer.get("roll_helps"):
            note("hint: `--roll` closes the active segment first")
    return done


@contextmanager
def _progress(output: OutputFormat | None) -> Iterator[OnProgress | None]:
    """Give what shows the progress that a broker tells; None if nothing is shown."""
    if output is OutputFormat.JSON:
        yield None
        return
    from kcli.commands.shared.progress import part_bar

    with part_bar() as show:
        if show is None:
            yield None
        else:
            yield lambda told: show(
                f"log {told['number']} of {told['logs']}: {told['log']}",
                told["bytes_read"],
                told["bytes_to_read"],
            )


def _compact_at_rest(log_dirs: str, chosen: Sequence[object], options: RoundOptions) -> Mapping[str, Any]:
    from kcli.broker.node.compaction_targets import CompactionTargets
    from kcli.broker.node.offline_compaction import compact_directories

    directories = [each.strip() for each in log_dirs.split(",") if each.strip()]
    if not directories:
        raise UsageError("`--log-dirs` cannot be empty")
    return compact_directories(directories, CompactionTargets.from_pairs(chosen), options, report=note)


def _options(
    now_ms: int | None, on_progress: OnProgress | None, *, ignores_lag: bool, is_dry_run: bool
) -> RoundOptions:
    from kcli.broker.node.compaction_progress import CompactionProgress
    from kcli.broker.node.log_cleaner import RoundOptions
    from kcli.broker.waiting.timer import wall_ms

    return RoundOptions(
        now_ms=wall_ms() if now_ms is None else now_ms,
        ignores_lag=ignores_lag,
        is_dry_run=is_dry_run,
        progress=CompactionProgress(on_progress),
    )


def compacted(answer: Mapping[str, Any], *, dry_run: bool, are_named: bool) -> Compacted:
    """Return the result from a broker's answer; without names it is about all logs."""
    kind = Compacted if are_named else CompactedWhatWasDirty
    return kind(
        dry_run,
        tuple(_partition(row) for row in answer["partitions"]),
        tuple(KcliError(each["error"], hint=each["hint"]) for each in answer["failures"]),
    )


def _partition(row: Mapping[str, Any]) -> CompactedPartition:
    return CompactedPartition(**{**row, "dropped": Dropped(**row["dropped"])})


def _target(text: str) -> Sequence[object]:
    """Return the topic and the partition, None for all of them, that an argument names."""
    if ":" not in text:
        from kcli.commands.shared.arguments import not_empty

        return not_empty(text, "topic"), None
    from kcli.commands.shared.topic_filter import parse_partition

    return tuple(parse_partition(text))
