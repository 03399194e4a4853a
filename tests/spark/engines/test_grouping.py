"""Which tasks a worker runs one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kcli.spark.engines.spark_engine import SMALL_BYTES, grouped

MB = 1024 * 1024


@dataclass
class Task:
    """As much of a task as grouping looks at."""

    size_bytes: int


def sizes_of(sizes: list[int], slots: int) -> list[list[int]]:
    """Group tasks of these sizes; return the sizes of each group, and see that order and numbers stay."""
    tasks = [Task(size) for size in sizes]
    groups = grouped(tasks, slots)  # type: ignore[arg-type]
    assert [number for group in groups for number, _ in group] == list(range(len(sizes)))
    assert all(tasks[number] is task for group in groups for number, task in group)
    return [[task.size_bytes for _, task in group] for group in groups]


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([5], [[5]]),
        ([9, 5, 1, 1, 1, 1], [[9], [5], [1], [1], [1], [1]]),
        ([SMALL_BYTES] * 8, [[SMALL_BYTES]] * 8),
        ([0] * 12, [[0, 0]] * 6),
        ([600, *[1] * 12], [[600], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1]]),
    ],
    ids=["none", "one", "no more than slots want", "large ones", "of unknown size", "small beside large"],
)
def test_small_tasks_share_a_group(sizes: list[int], groups: list[list[int]]) -> None:
    assert sizes_of(sizes, slots=2) == groups


def test_a_thousand_small_partitions_are_few_groups_that_every_slot_has_some_of() -> None:
    groups = sizes_of([MB] * 40 + [1000] * 960, slots=4)
    assert 12 <= len(groups) <= 40
    assert max(map(sum, groups)) <= SMALL_BYTES
