"""Nodes that lack descriptors for a while: no directory and no node fails, and all goes on by itself."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from kcli.client.admin import NewTopic, create_topics
from kcli.client.client import connect
from kcli.errors import KcliError
from kcli.storage import disk
from tests.broker.process.operated_nodes import QUICK, created, leaders, until
from tests.support import waiting
from tests.support.ledger import Ledger
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster


@contextmanager
def no_descriptors_below(directory: Path) -> Iterator[list[str]]:
    """Let opening files below a directory fail; yield the paths, once for each time."""
    refused: list[str] = []
    open_file = disk.open_file

    def refusing(path: str | os.PathLike[str], flags: int) -> int:
        if os.fspath(path).startswith(f"{directory}/"):
            refused.append(os.fspath(path))
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_file(path, flags)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "open_file", refusing)
        yield refused


def is_well(cluster: Cluster) -> bool:
    """Whether no directory of any node is offline."""
    managers = [node.broker.log_manager for node in cluster.nodes.values()]
    return not cluster.failed and not any(manager.directories.offline for manager in managers)


async def test_a_topic_whose_logs_could_not_be_made_is_served_as_soon_as_they_can(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **QUICK) as cluster:
        with no_descriptors_below(tmp_path) as refused:
            await created(cluster, "t")
            await waiting.until(lambda: len(refused) > 2)  # It was tried again.
        assert is_well(cluster)
        broker = cluster.nodes[1].broker
        await waiting.until(lambda: ("t", 0) in broker.replica_manager.partitions)
        async with connect(",".join(cluster.bootstrap_servers)) as client:
            again = (await create_topics(client, [NewTopic("u", partitions=1, replication_factor=1)]))["u"]
        assert not isinstance(again, KcliError)


@pytest.mark.interop
async def test_a_follower_that_lacked_descriptors_catches_up(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **QUICK) as cluster:
        await created(cluster, "t", on=(1, 2))
        ledger = Ledger(cluster.bootstrap_servers[0], "t", {"acks": "1", "enable.idempotence": False})
        follower = cluster.nodes[2].broker.replica_manager.partitions["t", 0].log
        await waiting.until(lambda: follower.log_end_offset > 50)
        with no_descriptors_below(tmp_path / "node-2") as refused:
            follower.close_handlers()
            end = follower.log_end_offset
            await waiting.until(lambda: len(refused) > 2)
            assert follower.log_end_offset <= end + 1
        await waiting.until(lambda: follower.log_end_offset > end + 100)
        await until(cluster, lambda image: image.topics["t"].partitions[0].isr == (1, 2))
        assert is_well(cluster)
        assert leaders(cluster.publisher.latest) == [1]
        await trio.to_thread.run_sync(ledger.close)
        assert ledger.failures == []
