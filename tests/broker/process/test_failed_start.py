"""A start that fails before anything is served: what it made goes, what was there before stays."""

from __future__ import annotations

import os
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.process.cluster import Cluster, ClusterOptions
from kcli.errors import KcliError
from kcli.storage.dirs.log_directory import RESTORE_HINT
from kcli.storage.disk import make_directory, remove_empty
from tests.broker.process.operated_nodes import created, do
from tests.support.ports import free_ports
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Finished


@contextmanager
def taken_port(of_nodes: int) -> Iterator[int]:
    """The port of the first of so many nodes, where that of the last is taken."""
    first, *_, last = free_ports(of_nodes)
    with socket.create_server(("127.0.0.1", last)):
        yield first


def contents(directory: Path) -> dict[str, bytes | None]:
    """Everything below a directory, by its path: the bytes of files but locks, which name a process."""
    return {
        str(path.relative_to(directory)): None if path.is_dir() or path.name == ".lock" else path.read_bytes()
        for path in directory.rglob("*")
    }


async def fail_to_start(data_dir: Path, nodes: int = 3, **options: Any) -> None:
    with taken_port(nodes) as port, pytest.RaisesGroup(KcliError, flatten_subgroups=True) as caught:
        cluster = Cluster(ClusterOptions(data_dir, nodes=nodes, host="127.0.0.1", port=port, **options))
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
    assert "Address already in use" in str(caught.value.exceptions)


async def test_new_directories_go_with_those_above_them(tmp_path: Path) -> None:
    await fail_to_start(tmp_path / "a" / "b")
    assert contents(tmp_path) == {}


async def test_the_directories_that_properties_name_go_too(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "disk" / "two"]
    roots[0].mkdir()
    await fail_to_start(tmp_path / "data", properties={"log.dirs": ",".join(map(str, roots))})
    assert contents(tmp_path) == {"one": None}


async def test_the_nodes_that_there_were_stay_as_they_were(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        await created(cluster, "t")
    before = contents(tmp_path)
    assert "node-2/meta.properties" in before
    await fail_to_start(tmp_path, nodes=3)
    assert contents(tmp_path) == before
    async with running_cluster(tmp_path, nodes=None) as cluster:
        assert [*cluster.nodes] == [1, 2]


@pytest.mark.parametrize("files", [[], [".lock"], ["notes.txt"], [".lock", "t-0/partition.metadata"]])
async def test_what_was_in_a_directory_stays(files: list[str], tmp_path: Path) -> None:
    node = tmp_path / "node-1"
    node.mkdir()
    for name in files:
        path = node / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("kept" if name != ".lock" else "")
    before = contents(tmp_path)
    await fail_to_start(tmp_path)
    # A lock file that somebody may wait for stays.
    assert {**before, **({"node-1/.lock": None} if files else {})} == contents(tmp_path)


async def test_a_directory_that_another_process_uses_stays(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
        before = contents(tmp_path)
        with pytest.RaisesGroup(pytest.RaisesExc(KcliError, match="in use by"), flatten_subgroups=True):
            async with trio.open_nursery() as nursery:
                options = ClusterOptions(tmp_path, nodes=3, host="127.0.0.1", port=free_ports(3)[0])
                await nursery.start(Cluster(options).run)
        assert contents(tmp_path) == before


async def test_a_node_that_cannot_be_added_leaves_nothing(tmp_path: Path) -> None:
    first, second = free_ports(2)
    async with running_cluster(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{first}") as cluster:
        before = os.listdir(tmp_path)
        taken = socket.create_server(("127.0.0.1", second))
        with taken, pytest.raises(KcliError, match="Address already in use"):
            await do(cluster, "add")
        assert os.listdir(tmp_path) == before
        await do(cluster, "add")
        assert [*cluster.nodes] == [1, 2]


def test_the_command_leaves_no_data_directory(tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    with taken_port(2) as port:
        where = ("--data-dir", str(tmp_path / "new" / "data"), "--host", "127.0.0.1", "--port", str(port))
        finished = kcli("broker", "start", "--nodes", "2", *where)
    assert finished.exit_code == 1
    assert "Address already in use" in finished.err
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("text", ["", "cluster=?\n"])
@pytest.mark.parametrize("damaged", ["one", "two"])
def test_a_damaged_identity_is_refused_and_nothing_is_changed(
    damaged: str, text: str, tmp_path: Path, kcli: Callable[..., Finished]
) -> None:
    log_dirs = ",".join(str(tmp_path / name) for name in ("one", "two"))

    async def make_replicas() -> None:
        async with running_cluster(tmp_path, log_dirs=log_dirs) as cluster:
            await created(cluster, "t", partitions=2)

    trio.run(make_replicas)
    for name in ("one", "two"):
        path = tmp_path / name / "meta.properties"
        path.write_text(re.sub(r"directory\.id=.*\n", "", path.read_text()))
    (tmp_path / damaged / "meta.properties").write_text(text)
    before = contents(tmp_path)
    where = ("--data-dir", str(tmp_path), "--override", f"log.dirs={log_dirs}", "--port", "0")
    finished = kcli("broker", "start", *where)
    path = tmp_path / damaged / "meta.properties"
    assert finished.exit_code == 1
    assert finished.err.splitlines() == [
        f"error: `{path}` is damaged: it names neither a node nor a cluster",
        f"hint: {RESTORE_HINT}",
    ]
    assert contents(tmp_path) == before


async def test_a_cluster_that_gets_another_id_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
    assert "with the cluster id" not in caplog.text
    (tmp_path / "node-1" / "meta.properties").unlink()
    async with running_cluster(tmp_path, nodes=1) as cluster:
        told = f"no `meta.properties` with the cluster id: it is {cluster.cluster_id} from now on"
    assert [each.message for each in caplog.records if each.message.endswith(told)] == [
        f"`{tmp_path}/node-1` has metadata of a cluster, but {told}"
    ]


async def test_another_id_is_told_of_no_start_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
    (tmp_path / "node-1" / "meta.properties").unlink()
    await fail_to_start(tmp_path, nodes=3)
    assert "with the cluster id" not in caplog.text


# --- directories that are made ---------------------------------------------------------------------------


def test_what_is_made_is_noted_and_goes_where_it_is_empty(tmp_path: Path) -> None:
    made: list[str] = []
    for name in ("a/b/c", "a/d", "a/b/c", "a"):
        make_directory(str(tmp_path / name), made)
    assert made == [str(tmp_path / name) for name in ("a", "a/b", "a/b/c", "a/d")]
    (tmp_path / "a" / "d" / "file").touch()
    remove_empty(made)
    assert contents(tmp_path) == {"a": None, "a/d": None, "a/d/file": b""}


@pytest.mark.parametrize("name", ["file", "file/below", "dangling"])
def test_what_is_no_directory_is_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.symlink("nowhere", tmp_path / "dangling")
    made: list[str] = []
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        make_directory(str(tmp_path / name), made)
    assert made == []
