"""Three kcli nodes in one child process, which lose and get back nodes while the process goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from kcli.control_socket import ask
from tests.support.kcli_broker import BOOTSTRAP, KcliBroker
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NODES = 3
TIMEOUT_SECONDS = 60.0


class KcliCluster:
    """Nodes 1 to `NODES`; `broker` starts, stops and kills the process as a whole."""

    def __init__(
        self, directory: Path, *, settings: Mapping[str, str] | None = None, arguments: Sequence[str] = ()
    ) -> None:
        arguments = ("--port", "0", "--nodes", str(NODES), *arguments)
        self.broker = KcliBroker(directory, settings=settings, arguments=arguments)
        self._dead: set[int] = set()

    @property
    def bootstraps(self) -> dict[int, str]:
        """The address of each node that is there."""
        found = BOOTSTRAP.findall(self.broker.ready_line)[:NODES]
        return {node: each for node, each in enumerate(found, 1) if node not in self._dead}

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes that are there."""
        return ",".join(self.bootstraps.values())

    def kill_node(self, node_id: int) -> None:
        """Have a node end without a goodbye."""
        self._dead.add(node_id)
        self._ask("node.kill", node_id)

    def stop_node(self, node_id: int) -> None:
        """Have a node hand over what it leads, and end."""
        self._dead.add(node_id)
        self._ask("node.stop", node_id)

    def start_node(self, node_id: int) -> None:
        """Have a node start again."""
        self._ask("node.start", node_id)
        self._dead.discard(node_id)

    def freeze(self, node_id: int) -> int:
        """Have a node copy nothing while everything else of it works; the number of the fault."""
        arguments = {"kind": "freeze", "node": node_id}
        added = ask(self.broker.data, "fault.add", timeout_seconds=TIMEOUT_SECONDS, **arguments)
        number: int = added["number"]
        return number

    def clear(self, *faults: int) -> None:
        """End faults."""
        ask(self.broker.data, "fault.clear", timeout_seconds=TIMEOUT_SECONDS, numbers=list(faults))

    def _ask(self, operation: str, node_id: int) -> None:
        ask(self.broker.data, operation, timeout_seconds=TIMEOUT_SECONDS, node=node_id)


def wait_until_in_sync(bootstrap: str) -> None:
    """Every replica of every partition is in sync: the next kill leaves two of three."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    eventually(
        lambda: all(
            len(partition.isrs) == len(partition.replicas)
            for topic in admin.list_topics(timeout=TIMEOUT_SECONDS).topics.values()
            for partition in topic.partitions.values()
        ),
        "every replica is in sync",
    )
