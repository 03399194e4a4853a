"""Metadata that is lost while the replicas are there: the start is refused, and nothing is changed."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.metadata.metadata_log import decoded
from kcli.broker.process.cluster import Cluster, ClusterOptions
from kcli.client.admin import delete_topics
from kcli.client.client import connect
from kcli.errors import KcliError
from kcli.protocol.internal.metadata_records import RegisterBrokerRecord
from kcli.protocol.records.batch import RecordBatch, iter_batches
from tests.broker.process.operated_nodes import created, do, leaders
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.internal.security_records import SecurityRecord

GARBAGE = random.Random(0).randbytes(5000)
LOG = "00000000000000000000.log"


def metadata(data_dir: Path, node_id: int = 1) -> Path:
    return data_dir / f"node-{node_id}" / "__cluster_metadata-0"


def contents(directory: Path, *, indexes: bool = True) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): None if path.is_dir() or path.name == ".lock" else path.read_bytes()
        for path in directory.rglob("*")
        if indexes or path.suffix not in (".index", ".timeindex")
    }


async def refusal(data_dir: Path, *, indexes: bool = True, **options: Any) -> KcliError:
    """The error of a start that is refused and changes nothing, or nothing but `indexes`."""
    before = contents(data_dir, indexes=indexes)
    with pytest.RaisesGroup(KcliError, flatten_subgroups=True) as caught:
        async with trio.open_nursery() as nursery:
            cluster = Cluster(ClusterOptions(data_dir, host="127.0.0.1", port=0, **options))
            await nursery.start(cluster.run)
            nursery.cancel_scope.cancel()
    assert contents(data_dir, indexes=indexes) == before
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


def cut_after(path: Path, is_last: Callable[[MetadataRecord | SecurityRecord], bool]) -> None:
    """Cut a metadata log behind the first batch with a certain record."""
    kept = b""
    for batch in iter_batches(path.read_bytes()):
        assert isinstance(batch, RecordBatch)
        data = bytes(memoryview(batch.buffer)[batch.position :][: batch.size_in_bytes])
        kept += data
        if any(map(is_last, decoded(data).records)):
            break
    assert len(kept) < path.stat().st_size
    path.write_bytes(kept)


def registers(record: MetadataRecord | SecurityRecord) -> bool:
    return isinstance(record, RegisterBrokerRecord)


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
async def test_a_log_that_lost_its_end_between_two_batches_is_refused(tmp_path: Path, kill: bool) -> None:
    async with running_cluster(tmp_path, kill=kill) as cluster:
        await created(cluster, "first")
        await created(cluster, "t")
    path = metadata(tmp_path) / LOG
    whole = path.read_bytes()
    cut_after(path, registers)
    (tmp_path / "node-1" / "a-0").mkdir()  # A directory that says nothing does not hide the others.
    (tmp_path / "node-1" / "a-0" / "partition.metadata").write_bytes(b"torn")
    (tmp_path / "node-1" / "a-0" / LOG).write_bytes(b"")
    error = await refusal(tmp_path, indexes=False)  # Those are made to fit what they index.
    assert error.message == (
        "the metadata log has lost its end: it does not know `first`, `t`, whose data is there: "
        f"`{metadata(tmp_path)}`"
    )
    assert error.hint is not None
    assert error.hint.startswith("restore it from a copy; without one, `--adopt` takes in")
    path.write_bytes(whole)
    async with running_cluster(tmp_path) as cluster:
        assert sorted(cluster.publisher.latest.topics) == ["first", "t"]


async def test_topics_that_a_cut_log_does_not_know_are_adopted(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
    cut_after(metadata(tmp_path) / LOG, registers)
    async with running_cluster(tmp_path, adopt=True) as cluster:
        assert leaders(cluster.publisher.latest) == [1]


async def test_a_node_that_was_down_when_a_topic_was_deleted_starts(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        await created(cluster, "t", on=(1, 2))
        await created(cluster, "kept", on=(1,))
        await do(cluster, "stop", 2)
        async with connect(cluster.bootstrap_servers[0]) as client:
            assert await delete_topics(client, ["t"]) == {"t": None}
    assert (tmp_path / "node-2" / "t-0").exists()
    async with running_cluster(tmp_path, nodes=2) as cluster:
        assert list(cluster.publisher.latest.topics) == ["kept"]


@pytest.mark.parametrize("has_snapshot", [True, False], ids=["snapshot", "log"])
async def test_a_directory_that_was_offline_when_its_topic_was_deleted_is_taken(
    has_snapshot: bool, tmp_path: Path
) -> None:
    log_dirs = f"{tmp_path}/a,{tmp_path}/b"
    async with running_cluster(tmp_path, log_dirs=log_dirs) as cluster:
        await created(cluster, "t")
        (broker,) = cluster.brokers
        replica, kept = broker.replica_manager.partition("t", 0).log.directory, tmp_path / "kept"
        shutil.copytree(replica, kept)
        async with connect(cluster.bootstrap_servers[0]) as client:
            assert await delete_topics(client, ["t"]) == {"t": None}
        if has_snapshot:
            cluster.election.copies[1].restart_from(cluster.publisher.latest)
    kept.rename(replica)
    async with running_cluster(tmp_path, log_dirs=log_dirs) as cluster:
        assert not cluster.publisher.latest.topics


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


async def test_copied_topics_in_a_new_directory_are_refused_unless_they_are_adopted(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "from") as cluster:
        await created(cluster, "t")
    shutil.copytree(tmp_path / "from" / "node-1" / "t-0", tmp_path / "to" / "node-1" / "t-0")
    error = await refusal(tmp_path / "to")
    assert "is missing, and the node has replicas" in error.message
    assert error.hint is not None
    assert "`--adopt` takes in" in error.hint


async def test_copied_topics_in_a_new_directory_are_adopted(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "from") as cluster:
        await created(cluster, "t")
    shutil.copytree(tmp_path / "from" / "node-1" / "t-0", tmp_path / "to" / "node-1" / "t-0")
    async with running_cluster(tmp_path / "to", adopt=True) as cluster:
        assert leaders(cluster.publisher.latest) == [1]
