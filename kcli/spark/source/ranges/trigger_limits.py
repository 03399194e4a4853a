"""The arithmetic of triggers: how far the next plan of a stream reads, and whether it is due."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.topics import TopicPartition

DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """How much new data a trigger takes at most, how much it waits for, and how long."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = DEFAULT_MAX_TRIGGER_DELAY_MS


def limit_offsets(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], max_offsets: int
) -> dict[TopicPartition, int]:
    """Return ends with about `max_offsets` before them, spread over partitions by their backlog.

    A partition with a backlog advances by at least one. `start` must name every partition of `end` (new ones
    with their earliest offset). As in Spark's source the shares are rounded down.
    """
    backlog = {partition: max(0, end[partition] - start[partition]) for partition in end}
    total = sum(backlog.values())
    if total <= max_offsets:
        return dict(end)
    limited = {}
    for partition, size in backlog.items():
        share = max_offsets * (size / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        limited[partition] = min(end[partition], start[partition] + step) if size else end[partition]
    return limited


def is_due(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    limits: TriggerLimits,
    *,
    waited_ms: float,
) -> bool:
    """Return whether there is enough new data for a plan, or the longest wait is over.

    `waited_ms` counts from the last plan. A stream without `min_offsets` is always due.
    """
    if limits.min_offsets is None or waited_ms >= limits.max_delay_ms:
        return True
    new = sum(end[partition] - start.get(partition, 0) for partition in end)
    return new >= limits.min_offsets
