"""A whole cluster in the test's own process, on loopback ports of the system's choice."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kcli.broker.process import running_cluster as room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster


@asynccontextmanager
async def running_cluster(
    data_dir: Path, *, nodes: int | None = 1, adopt: bool = False, kill: bool = False, **properties: str
) -> AsyncIterator[Cluster]:
    """Run a cluster on `data_dir`; stop it in order at the end, or cut it off with `kill`.

    Properties are Kafka's with underscores for dots. A test fails when a node does, unless it has taken the
    failure out of `Cluster.failed`.
    """
    running = room.running_cluster(data_dir, nodes=nodes, adopt=adopt, kill=kill, seed=0, **properties)
    async with running as cluster:
        yield cluster
    assert not cluster.failed
