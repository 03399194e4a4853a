"""The queue of test files from which several processes take their work, each a file at a time.

A long file taken last keeps the other processes waiting, so the longest come first. Tests that share
something expensive to start go to one process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

GROUPS = "tests/interop/test_groups_"
"""Tests of consumer groups, whose members are programs of every client that run on between tests."""
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
    "tests/interop/test_transactions_",
    "tests/interop/test_streams.py",
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


class FileQueue(LoadFileScheduling):
    """Gives files away in the order in which their tests were collected."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # Otherwise those with the most tests would come first, and these are the shortest.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def scope(nodeid: str) -> str:
    """Return what goes to one process together: a file, or the first of those that share something."""
    path = nodeid.split("::", 1)[0]
    for files in (APACHE, TOOLS):
        if path in files:
            return files[0]
    return next((files[0] for files in ((GROUPS,), SPARK) if path.startswith(files)), path)


def put_in_order(items: list[pytest.Item]) -> None:
    """Sort tests by the turns of their files."""
    items.sort(key=lambda item: _turn(item.nodeid))


def _turn(nodeid: str) -> int:
    return next((turn for turn, start in enumerate(LONGEST) if nodeid.startswith(start)), len(LONGEST))
