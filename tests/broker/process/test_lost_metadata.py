"""Metadata that is lost while the replicas are there: the start is refused, and nothing is changed."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.process.cluster import Cluster, ClusterOptions
from kcli.errors import KcliError
from tests.broker.process.operated_nodes import created, leaders
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path

GARBAGE = random.Random(0).randbytes(5000)
LOG = "00000000000000000000.log"


def metadata(data_dir: Path, node_id: int = 1) -> Path:
    return data_dir / f"node-{node_id}" / "__cluster_metadata-0"


def contents(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): None if path.is_dir() or path.name == ".lock" else path.read_bytes()
        for path in directory.rglob("*")
    }


async def refusal(data_dir: Path, **options: Any) -> KcliError:
    """The error of a start that is refused and changes nothing."""
    before = contents(data_dir)
    with pytest.RaisesGroup(KcliError, flatten_subgroups=True) as caught:
        async with trio.open_nursery() as nursery:
            cluster = Cluster(ClusterOptions(data_dir, host="127.0.0.1", port=0, **options))
            await nursery.start(cluster.run)
            nursery.cancel_scope.cancel()
    assert contents(data_dir) == before
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, KcliError)
    return error


def lose(directory: Path, how: str) -> None:
    if how == "missing":
        shutil.rmtree(directory)
    elif how == "no files":
        for path in directory.iterdir():
            path.unlink()
    else:
        (directory / LOG).write_bytes(GARBAGE if how == "garbage" else b"")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("missing", "is missing, and the node has replicas: `{}`"),
        ("no files", "is empty, and the node has replicas: `{}`"),
        ("no bytes", "is empty, and the node has replicas: `{}`"),
        ("garbage", f"is damaged from its first byte on, and the node has replicas: `{{}}/{LOG}`"),
    ],
)
async def test_a_start_that_would_forget_all_topics_is_refused(how: str, said: str, tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
    directory = metadata(tmp_path)
    kept = tmp_path / "kept"
    shutil.copytree(directory, kept)
    lose(directory, how)
    for nodes in (None, 1, 2):
        error = await refusal(tmp_path, nodes=nodes)
        assert error.message == f"the metadata log {said.format(directory)}"
        assert error.hint is not None
        assert error.hint.startswith("restore it from a copy; without one, ")
        assert "`--adopt`" in error.hint
    shutil.rmtree(directory, ignore_errors=True)
    kept.rename(directory)
    async with running_cluster(tmp_path) as cluster:
        assert leaders(cluster.publisher.latest) == [1]


@pytest.mark.parametrize("how", ["missing", "no files", "no bytes", "garbage"])
async def test_a_node_without_replicas_begins_anew(how: str, tmp_path: Path) -> None:
    async with running_cluster(tmp_path, kill=True):
        pass
    lose(metadata(tmp_path), how)
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")


@pytest.mark.parametrize("how", ["missing", "no bytes", "garbage"])
async def test_a_copy_that_another_node_has_is_enough(how: str, tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        await created(cluster, "t", on=(1,))
    lose(metadata(tmp_path), how)
    async with running_cluster(tmp_path, nodes=1) as cluster:
        assert leaders(cluster.publisher.latest) == [1]
    lose(metadata(tmp_path, 2), how)
    async with running_cluster(tmp_path, nodes=2) as cluster:
        assert leaders(cluster.publisher.latest) == [1]


async def test_a_torn_batch_behind_a_whole_one_is_still_cut(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
    path = metadata(tmp_path) / LOG
    path.write_bytes(path.read_bytes() + GARBAGE[:50])
    async with running_cluster(tmp_path) as cluster:
        assert leaders(cluster.publisher.latest) == [1]


async def test_topics_are_adopted_where_the_metadata_is_gone(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
    lose(metadata(tmp_path), "garbage")
    error = await refusal(tmp_path, adopt=True)
    assert error.hint is not None
    assert "without one, move it away: `--adopt` takes in" in error.hint
    lose(metadata(tmp_path), "missing")
    async with running_cluster(tmp_path, adopt=True) as cluster:
        assert leaders(cluster.publisher.latest) == [1]


async def test_copied_topics_in_a_new_directory_are_adopted(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "from") as cluster:
        await created(cluster, "t")
    shutil.copytree(tmp_path / "from" / "node-1" / "t-0", tmp_path / "to" / "node-1" / "t-0")
    async with running_cluster(tmp_path / "to", adopt=True) as cluster:
        assert leaders(cluster.publisher.latest) == [1]
