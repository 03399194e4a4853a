"""Groups of tasks that a worker runs in turn: a thousand small partitions are not a thousand tasks to Spark.

Each task keeps its own receipt and files. Large ones stay alone, and there are enough groups for every slot
to have its share of long and short ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.spark.job.task import SplitTask

GROUPS_PER_SLOT = 3
SMALL_BYTES = 16 * 1024 * 1024
"""A group that has so much to read is not added to."""


def grouped(tasks: Sequence[SplitTask], slots: int) -> list[list[tuple[int, SplitTask]]]:
    """Return tasks with their numbers, in order, in groups for so many slots."""
    wanted = GROUPS_PER_SLOT * max(slots, 1)
    most_tasks = -(-len(tasks) // wanted)
    most_bytes = min(SMALL_BYTES, sum(task.split.size_bytes for task in tasks) // wanted)
    groups: list[list[tuple[int, SplitTask]]] = []
    size = 0
    for number, task in enumerate(tasks):
        if (
            not groups
            or len(groups[-1]) >= most_tasks
            or (size and size + task.split.size_bytes > most_bytes)
        ):
            groups.append([])
            size = 0
        groups[-1].append((number, task))
        size += task.split.size_bytes
    return groups
