"""Summary: what a run did."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcli.spark.job.receipt import Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets `start` (included) to `end` (excluded) that nobody could read any more, or that damage took."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """What was exported of one partition by the plans of a run."""

    topic: str
    partition: int
    start: int
    end: int
    rows: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run did; all zeros when there was nothing new."""

    target: str
    committed_plans: tuple[int, ...] = ()
    resumed: bool = False
    """Whether the first of them had been begun by an earlier run."""
    partitions: tuple[PartitionSummary, ...] = ()
    files: int = 0
    bytes_written: int = 0
    counters: Counters = field(default_factory=Counters)
    gaps: tuple[Gap, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
