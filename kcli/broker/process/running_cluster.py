"""A cluster inside a test, in the test's own process.

    async with running_cluster(nodes=3) as cluster:
        bootstrap = ",".join(cluster.bootstrap_servers)
        ...
        cluster.faults.add("error", api="Produce", code="NOT_LEADER_OR_FOLLOWER", next=3)
        await perform(cluster, "kill", {"node": 2})

The test runs under trio; clients without trio need a thread or process of their own. Faults have the words of
`kcli broker fault add`, operations of `perform` (`kcli.broker.process.fault_operations`) those of a scenario.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kcli.broker.process.cluster import Cluster, ClusterOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def running_cluster(
    data_dir: Path | None = None,
    *,
    nodes: int | None = 1,
    adopt: bool = False,
    kill: bool = False,
    seed: int = 0,
    **properties: str,
) -> AsyncIterator[Cluster]:
    """Run a cluster on free ports of the loopback; stop it in order at the end, or kill it with `kill`.

    Without `data_dir` its data is temporary. Properties are Kafka's, with underscores for dots. `seed`
    decides which requests meet faults with a probability.
    """
    with ExitStack() as stack:
        if data_dir is None:
            data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcli-")))
        cluster = Cluster(
            ClusterOptions(
                data_dir=data_dir,
                nodes=nodes,
                host="127.0.0.1",
                port=0,
                properties={name.replace("_", "."): value for name, value in properties.items()},
                adopt=adopt,
            )
        )
        cluster.faults.seed = seed
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            yield cluster
            if kill:
                nursery.cancel_scope.cancel()
            else:
                cluster.stop()
                await cluster.stopped.wait()
