"""The queue of test files from which several processes take their work, each a file at a time.

Whoever takes a long file last keeps all others waiting, so that the longest come first. Before them come
files with tests that are to run alone: at the beginning nobody is in the middle of something long that they
would have to wait for. Files that share what is expensive to start go to one process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SPARK = "tests/spark/test_"
"""Tests in one Spark session, which is a JVM that takes seconds to start."""

LONGEST = (
    "tests/interop/test_clients_matrix.py",
    "tests/interop/test_spark_connector.py",
    SPARK,
    "tests/interop/test_real_input.py",
    "tests/interop/test_spark_cluster.py",
    "tests/interop/test_spark_crashes.py",
    "tests/interop/test_consumer_groups_tool.py",
    "tests/interop/test_spark_end_to_end.py",
    "tests/interop/test_reassignments",
    "tests/interop/test_groups_",
    "tests/interop/test_durable.py",
    "tests/commands/test_spark_export.py",
    "tests/broker/schedules/",
    "tests/interop/test_hostile_bytes.py",
    "tests/interop/",
)
"""How the files begin that take longest, in this order."""


class FileQueue(LoadFileScheduling):
    """Gives files away in the order in which their tests were collected."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # Otherwise those with the most tests would come first, and these are the shortest.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


def is_alone(item: pytest.Item) -> bool:
    """Whether no other test may run beside it."""
    return item.get_closest_marker("alone") is not None


def put_in_order(items: list[pytest.Item]) -> None:
    """Sort tests by the turns of their files; in a file those come first that are alone."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    items[:] = [
        item
        for tests in sorted(files.values(), key=_turn)
        for item in sorted(tests, key=is_alone, reverse=True)
    ]


def _turn(tests: list[pytest.Item]) -> tuple[float, int]:
    """The more of a file is alone, the less do others wait for the rest of it."""
    alone = sum(map(is_alone, tests)) / len(tests)
    name = tests[0].nodeid
    return -alone, next((turn for turn, start in enumerate(LONGEST) if name.startswith(start)), len(LONGEST))
