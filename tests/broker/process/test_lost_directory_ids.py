"""A `meta.properties` that is lost, or has no directory id: the metadata log still names the id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kcli.broker.metadata import metadata_log
from kcli.errors import KcliError
from kcli.storage.dirs.log_directory import read_identity
from tests.broker.process.operated_nodes import created, do, leaders
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path


def lose(log_dir: Path, how: str = "all") -> bytes:
    """Take the id of a log directory away, alone or with everything; return it."""
    identity = read_identity(str(log_dir))
    assert identity is not None
    assert identity.directory_id is not None
    path = log_dir / "meta.properties"
    if how == "all":
        path.unlink()
    else:
        path.write_text(re.sub(r"directory\.id=.*\n", "", path.read_text()))
    return identity.directory_id


def id_of(log_dir: Path) -> bytes | None:
    identity = read_identity(str(log_dir))
    return identity and identity.directory_id


@pytest.mark.parametrize("how", ["all", "id"])
@pytest.mark.parametrize("compaction_bytes", [0, 1 << 20])
async def test_a_directory_takes_its_id_back(
    how: str,
    compaction_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(metadata_log, "COMPACTION_BYTES", compaction_bytes)
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t", partitions=3)
    lost = lose(tmp_path / "node-1", how)
    async with running_cluster(tmp_path) as cluster:
        assert leaders(cluster.publisher.latest) == [1, 1, 1]
    assert id_of(tmp_path / "node-1") == lost
    assert caplog.text.count("has lost its `directory.id`") == 1


async def test_one_of_several_directories_takes_its_id_back(tmp_path: Path) -> None:
    log_dirs = f"{tmp_path}/a,{tmp_path}/b"
    async with running_cluster(tmp_path, log_dirs=log_dirs) as cluster:
        await created(cluster, "t", partitions=4)
    for name in "ab":
        lost = lose(tmp_path / name)
        async with running_cluster(tmp_path, log_dirs=log_dirs) as cluster:
            assert leaders(cluster.publisher.latest) == [1, 1, 1, 1]
        assert id_of(tmp_path / name) == lost


@pytest.mark.parametrize("holds", [(), ("copied-0",)], ids=["nothing", "the data of others"])
async def test_another_directory_in_the_place_of_one_gets_an_id_of_its_own(
    holds: tuple[str, ...], tmp_path: Path
) -> None:
    log_dirs = f"{tmp_path}/a,{tmp_path}/b"
    async with running_cluster(tmp_path, log_dirs=log_dirs) as cluster:
        await created(cluster, "t", partitions=4)
    lost = id_of(tmp_path / "b")
    (tmp_path / "b").rename(tmp_path / "old")
    for name in holds:
        (tmp_path / "b" / name).mkdir(parents=True)
    async with running_cluster(tmp_path, log_dirs=log_dirs):
        pass
    assert id_of(tmp_path / "b") not in {None, lost}


async def test_every_node_takes_its_own_id_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        await created(cluster, "t", partitions=4, replicas=1)
    lost = [lose(tmp_path / f"node-{each}") for each in (1, 2)]
    async with running_cluster(tmp_path, nodes=2) as cluster:
        assert sorted(leaders(cluster.publisher.latest)) == [1, 1, 2, 2]
        await do(cluster, "stop", 2)
        lose(tmp_path / "node-2")
        await do(cluster, "start", 2)
        assert sorted(leaders(cluster.publisher.latest)) == [1, 1, 2, 2]
    assert [id_of(tmp_path / f"node-{each}") for each in (1, 2)] == lost


async def test_no_id_is_given_as_long_as_the_metadata_cannot_be_read(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
    lost = lose(tmp_path / "node-1")
    (path,) = (tmp_path / "node-1" / "__cluster_metadata-0").glob("*.log")
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    with pytest.RaisesGroup(pytest.RaisesExc(KcliError, match="damaged at byte 91"), flatten_subgroups=True):
        async with running_cluster(tmp_path):
            pass
    assert not (tmp_path / "node-1" / "meta.properties").exists()
    path.write_bytes(data)
    async with running_cluster(tmp_path) as cluster:
        assert leaders(cluster.publisher.latest) == [1]
    assert id_of(tmp_path / "node-1") == lost
