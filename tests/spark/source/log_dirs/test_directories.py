"""Which directories are replicas, whose they are, and which replica of a partition is read."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kcli.errors import KcliError, UsageError
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import uuid_to_text
from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource
from kcli.spark.source.source import SplitLimits, TopicIdentity
from kcli.spark.split import OffsetInterval
from kcli.storage.checkpoints import write_partition_metadata
from tests.spark.source.log_dirs.log_dir import ORDERS, LogDir, read_all, stored_rows

if TYPE_CHECKING:
    from pathlib import Path

HEX = "0123456789abcdef" * 2
SOME_ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))


def identify(directory: Path, cluster_id: str) -> None:
    (directory / "meta.properties").write_text(f"#\nversion=1\ncluster.id={cluster_id}\nnode.id=1\n")


def new_log(root: Path, count: int, cluster_id: str | None = "a-cluster") -> LogDir:
    """A log directory of a broker that stopped."""
    root.parent.mkdir(exist_ok=True)
    log = LogDir(root)
    log.fill(count)
    if cluster_id is not None:
        identify(root, cluster_id)
    return log.close()


def test_replicas_are_told_by_their_names(tmp_path: Path) -> None:
    for name in (
        "orders-0",
        "orders-1",
        "with-dash-12",
        "__consumer_offsets-3",
        f"gone-0.{HEX}-delete",
        f"moving-0.{HEX}-future",
        f"lost-0.{HEX}-stray",
        "orders-0-delete",
        "orders-x",
        "-5",
        "lost+found",
        "__cluster_metadata-0",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    assert LogDirsSource([str(tmp_path)]).topics() == [
        TopicIdentity("__consumer_offsets", None, (3,)),
        TopicIdentity("orders", None, (0, 1)),
        TopicIdentity("with-dash", None, (12,)),
    ]


def test_identity_is_what_the_small_files_say(tmp_path: Path) -> None:
    log = new_log(tmp_path / "node", 3)
    write_partition_metadata(str(log.directory), SOME_ID)
    source = log.source()
    assert source.cluster_id() == "a-cluster"
    assert source.topics() == [TopicIdentity("orders", uuid_to_text(SOME_ID), (0,))]


def test_a_copy_without_its_small_files_has_no_identity(tmp_path: Path) -> None:
    log = new_log(tmp_path / "node", 3, cluster_id=None)
    assert log.source().cluster_id() is None
    (log.directory / "partition.metadata").write_text("version: 0\ntopic_id: rubbish\n")
    assert log.source().topics() == [TopicIdentity("orders", None, (0,))]


def test_a_directory_that_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory"):
        LogDirsSource([str(tmp_path / "nowhere")]).topics()


def test_a_partition_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    log = new_log(tmp_path / "node", 3)
    with pytest.raises(KcliError, match=r"`orders-7` is not in"):
        log.source().earliest([TopicPartition("orders", 7)])


def test_partitions_may_be_spread_over_directories(tmp_path: Path) -> None:
    one, other = new_log(tmp_path / "one", 3), new_log(tmp_path / "other", 5)
    other.directory.rename(other.root / "orders-1")
    source = LogDirsSource([str(one.root), str(other.root), str(one.root)])
    assert source.topics() == [TopicIdentity("orders", None, (0, 1))]
    ends = source.latest([ORDERS, TopicPartition("orders", 1)], read_committed=False)
    assert list(ends.values()) == [3, 5]


def test_two_clusters_are_refused(tmp_path: Path) -> None:
    one, other = new_log(tmp_path / "one", 3), new_log(tmp_path / "other", 3, "b-cluster")
    source = LogDirsSource([str(one.root), str(other.root)])
    with pytest.raises(KcliError, match="two clusters"):
        source.cluster_id()
    with pytest.raises(KcliError, match="two clusters"):
        source.latest([ORDERS], read_committed=False)


def test_two_topics_of_one_name_are_refused(tmp_path: Path) -> None:
    one, other = new_log(tmp_path / "one", 3), new_log(tmp_path / "other", 5)
    write_partition_metadata(str(one.directory), SOME_ID)
    write_partition_metadata(str(other.directory), OTHER_ID)
    source = LogDirsSource([str(one.root), str(other.root)])
    with pytest.raises(KcliError, match="two topics of one name"):
        source.topics()
    with pytest.raises(KcliError, match="two topics of one name"):
        source.latest([ORDERS], read_committed=False)
    os.unlink(one.directory / "partition.metadata")
    assert source.topics() == [TopicIdentity("orders", uuid_to_text(OTHER_ID), (0,))]


@pytest.mark.parametrize("first", ["one", "other"])
def test_the_most_complete_replica_is_read(tmp_path: Path, first: str) -> None:
    one, other = new_log(tmp_path / "one", 30), new_log(tmp_path / "other", 50)
    roots = sorted((str(one.root), str(other.root)), key=lambda root: not root.endswith(first))
    notes: list[str] = []
    source = LogDirsSource(roots, notes.append)
    assert source.latest([ORDERS], read_committed=False) == {ORDERS: 50}
    assert notes == [f"of the replicas of one partition `{other.directory}` is read, not `{one.directory}`"]
    other.write_mark(20)
    assert source.latest([ORDERS], read_committed=False) == {ORDERS: 30}
    assert source.earliest([ORDERS]) == {ORDERS: 0}


def test_of_replicas_that_end_alike_the_one_that_starts_first_is_read(tmp_path: Path) -> None:
    one, other = new_log(tmp_path / "one", 50), new_log(tmp_path / "other", 50)
    one.write_log_start(10)
    assert LogDirsSource([str(one.root), str(other.root)]).earliest([ORDERS]) == {ORDERS: 0}


def test_the_data_directory_of_a_kcli_broker_holds_those_of_its_nodes(tmp_path: Path) -> None:
    new_log(tmp_path / "data" / "node-1", 3)
    log = new_log(tmp_path / "data" / "node-2", 4)
    (tmp_path / "data" / "node-x").mkdir()
    source = LogDirsSource([str(tmp_path / "data")])
    assert source.cluster_id() == "a-cluster"
    assert source.latest([ORDERS], read_committed=False) == {ORDERS: 4}
    assert log.directory.is_dir()


def test_a_replica_may_be_given_by_itself(tmp_path: Path) -> None:
    log = new_log(tmp_path / "node", 30)
    shutil.copytree(log.directory, log.root / "payments-2")
    source = LogDirsSource([str(log.directory)])
    assert source.topics() == [TopicIdentity("orders", None, (0,))]
    assert source.cluster_id() == "a-cluster"
    log.write_mark(12)
    assert source.latest([ORDERS], read_committed=False) == {ORDERS: 12}
    both = LogDirsSource([str(log.directory), str(log.root / "payments-2")])
    assert [topic.name for topic in both.topics()] == ["orders", "payments"]
    assert [topic.name for topic in LogDirsSource([str(log.directory), str(log.root)]).topics()] == [
        "orders",
        "payments",
    ]


def test_paths_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(tmp_path / "node", 30)
    monkeypatch.chdir(tmp_path)
    source = LogDirsSource(["node"])
    assert source.latest([ORDERS], read_committed=False) == {ORDERS: 30}
    splits = source.splits({ORDERS: OffsetInterval(0, 30)}, SplitLimits(), read_committed=False)
    monkeypatch.chdir("/")
    assert read_all(splits) == stored_rows(log.directory)
