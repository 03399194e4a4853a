"""The queue of test files from which several processes take their work, each a file at a time.

Whoever takes a long file last keeps all others waiting, so that the longest come first. Before them come the
tests that are to run alone, one after another in one process, and the others get nothing to do until then:
whoever was in the middle of something long would have to be waited for. What shares something expensive to
start goes to one process.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    import pytest
    from xdist.workermanage import WorkerController

GROUPS = "tests/interop/test_groups_"
"""Tests of consumer groups, whose members are programs of every client that run on between tests.

Those that are to run alone go with them: the longest of them have the same members.
"""
SPARK = ("tests/spark/engines/", "tests/spark/datasource/", "tests/spark/test_")
"""Tests in one Spark session, which is a JVM that takes seconds to start."""
APACHE = (
    "tests/interop/test_clients_matrix.py",
    "tests/interop/test_spark_connector.py",
    "tests/interop/test_on_disk.py",
    "tests/interop/test_kcli_client.py",
    "tests/interop/test_brokers_reader.py",
    "tests/interop/test_group_formatters.py",
)
"""Tests of one Apache Kafka broker, which is a JVM that works even when nobody asks it anything."""
TOOLS = (
    "tests/interop/test_consumer_groups_tool.py",
    "tests/interop/test_groups_tools.py",
    "tests/interop/test_apache_tools.py",
    "tests/interop/test_kcli_tools.py",
    "tests/interop/test_franz_requests.py",
)
"""Tests of another one and of its tools: they would take too long together with the others."""

LONGEST = (
    GROUPS,
    *APACHE,
    *TOOLS,
    *SPARK,
    "tests/interop/test_real_input.py",
    "tests/interop/test_spark_cluster.py",
    "tests/interop/test_spark_crashes.py",
    "tests/interop/test_spark_end_to_end.py",
    "tests/interop/test_reassignments",
    "tests/interop/test_durable.py",
    "tests/commands/export/test_spark_export.py",
    "tests/broker/schedules/",
    "tests/interop/test_hostile_",
    "tests/interop/",
    "tests/spark/",
    "tests/commands/",
    "tests/protocol/messages/test_codecs.py",
    "tests/broker/metering/",
)
"""How the files begin that take longest, in this order."""

ALONE = "alone"
"""The file that names the tests that are to run alone: marks do not come with the tests' names."""


class FileQueue(LoadFileScheduling):
    """Gives files away in the order in which their tests were collected; `directory` is that of the lanes."""

    def __init__(self, config: pytest.Config, log: Any, directory: Path) -> None:
        super().__init__(config, log)
        self._directory = directory
        self._leader: WorkerController | None = None
        # Otherwise those with the most tests would come first, and these are the shortest.
        config.option.loadscopereorder = False

    @cached_property
    def _alone(self) -> frozenset[str]:
        return frozenset((self._directory / ALONE).read_text(encoding="utf-8").splitlines())

    @cached_property
    def _alone_left(self) -> set[str]:
        return {*self._alone} & {*(self.collection or ())}

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid, self._alone)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self._alone_left:
            self._leader = self._leader or node
            if node is not self._leader:
                return
        super()._assign_work_unit(node)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        if self._alone_left:
            self._alone_left.discard(self.registered_collections[node][item_index])
            if not self._alone_left:
                # As at the beginning: a process runs nothing until it knows what comes next.
                self.schedule()
                self.schedule()

    def remove_node(self, node: WorkerController) -> str | None:
        if node is self._leader:
            self._alone_left.clear()
        return super().remove_node(node)


def scope(nodeid: str, alone: Collection[str]) -> str:
    """What goes to one process together: a file, or those that share something."""
    path = nodeid.split("::", 1)[0]
    if nodeid in alone:
        return GROUPS
    for files in (APACHE, TOOLS):
        if path in files:
            return files[0]
    return next((files[0] for files in ((GROUPS,), SPARK) if path.startswith(files)), path)


def is_alone(item: pytest.Item) -> bool:
    """Whether no other test may run beside it."""
    return item.get_closest_marker("alone") is not None


def put_in_order(items: list[pytest.Item]) -> None:
    """Sort tests by the turns of their files, and those that are alone before all others."""
    items.sort(key=lambda item: (not is_alone(item), _turn(item.nodeid)))


def write_alone(items: list[pytest.Item], directory: Path) -> None:
    """Tell the queue which tests are to run alone."""
    names = "".join(f"{item.nodeid}\n" for item in items if is_alone(item))
    (directory / ALONE).write_text(names, encoding="utf-8")


def _turn(nodeid: str) -> int:
    return next((turn for turn, start in enumerate(LONGEST) if nodeid.startswith(start)), len(LONGEST))
