"""A whole cluster in the test's own process, on loopback ports of the system's choice."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from kcli.broker.cluster import Cluster, ClusterOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def running_cluster(
    data_dir: Path, *, nodes: int | None = 1, adopt: bool = False, kill: bool = False, **properties: str
) -> AsyncIterator[Cluster]:
    """Run a cluster on `data_dir`; stop it in order at the end, or cut it off with `kill`.

    Properties are Kafka's with underscores for dots. A test fails when a node does, unless it has taken the
    failure out of `Cluster.failed`.
    """
    options = ClusterOptions(
        data_dir=data_dir,
        nodes=nodes,
        host="127.0.0.1",
        port=0,
        properties={name.replace("_", "."): value for name, value in properties.items()},
        adopt=adopt,
    )
    cluster = Cluster(options)
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        yield cluster
        if kill:
            nursery.cancel_scope.cancel()
        else:
            cluster.stop()
            await cluster.stopped.wait()
    assert not cluster.failed
