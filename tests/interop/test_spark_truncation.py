"""An unclean election takes what was exported, and the log grows beyond it: an export is not fooled."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.topics import TopicPartition
from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource
from tests.interop.test_truncation import (
    SETTINGS,
    TOPIC,
    create,
    in_sync,
    lose_what_node_2_has_alone,
    produce,
)
from tests.spark.export.exporting import offsets_in
from tests.support.copies import copy_running
from tests.support.kcli_cluster import KcliCluster
from tests.support.spark_exports import ExportProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.interop

OFTEN = {"replica.high.watermark.checkpoint.interval.ms": "100"}
"""A directory is read up to the high watermark that is written down there."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KcliCluster]:
    running = KcliCluster(tmp_path, settings={**SETTINGS, **OFTEN})
    running.broker.start()
    yield running
    assert running.broker.stop() == 0


class Lake:
    """A target, and the runs that export to it."""

    def __init__(self, target: Path, *source: str) -> None:
        self.target = target
        self._source = source

    def export(self, *arguments: str) -> dict[str, object]:
        log = self.target.with_suffix(".log")
        options = ("--to", str(self.target), "--engine", "local", *self._source, *arguments)
        with ExportProcess(log, TOPIC, *options) as process:
            _, output = process.wait()
        found: dict[str, object] = json.loads(output)
        return found

    def refused(self) -> dict[str, str]:
        failure = self.export()["failure"]
        assert isinstance(failure, dict)
        return failure

    def offsets(self) -> list[int]:
        return offsets_in(self.target)[TOPIC, 0]


def test_an_unclean_election_is_found_by_the_next_export(cluster: KcliCluster, tmp_path: Path) -> None:
    create(cluster)
    produce(cluster, "kept")
    cluster.kill_node(3)
    eventually(lambda: in_sync(cluster) == (2, [2]), "2 is alone")
    produce(cluster, "lost", "lost", "lost")
    backup = tmp_path / "backup"
    from_broker = Lake(tmp_path / "lake", "-b", cluster.bootstrap)
    from_directory = Lake(tmp_path / "lake-2", "--log-dir", str(backup))
    copy_log(cluster, 2, backup, end=4)
    for lake in (from_broker, from_directory):
        lake.export()
        assert lake.offsets() == [0, 1, 2, 3]

    lose_what_node_2_has_alone(cluster)
    produce(cluster, *["new"] * 6)
    copy_log(cluster, 3, backup, end=8)

    for lake in (Lake(from_broker.target, "-b", cluster.bootstrap), from_directory):
        failure = lake.refused()
        assert failure["kind"] == "data-loss"
        assert f"{TOPIC}-0 is not what it was" in failure["error"]
        assert "offsets 1 to 3 are others than those read before" in failure["error"]
        assert lake.offsets() == [0, 1, 2, 3]

        summary = lake.export("--no-fail-on-data-loss")
        gaps = summary["gaps"]
        assert isinstance(gaps, list)
        assert [(gap["start"], gap["end"]) for gap in gaps] == [(1, 4)]
        assert lake.offsets() == list(range(8))
        produced = lake.export()
        assert (produced["gaps"], lake.offsets()) == ([], list(range(8)))


def copy_log(cluster: KcliCluster, node_id: int, destination: Path, *, end: int) -> None:
    """Take a copy of a node's log directory while it runs, once that says so itself where the log ends."""
    node = cluster.broker.data / f"node-{node_id}"
    partition = TopicPartition(TOPIC, 0)

    def is_whole() -> bool:
        shutil.rmtree(destination, ignore_errors=True)
        copy_running(node, destination)
        latest = LogDirsSource([str(destination)]).latest([partition], read_committed=False)
        return "replication-offset-checkpoint" in os.listdir(destination) and latest[partition] == end

    eventually(is_whole, f"a copy of the log up to offset {end}")
