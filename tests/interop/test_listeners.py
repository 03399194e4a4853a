"""Several nodes with several listeners: clients work by way of each, and are told its ports alone."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_ports
from tests.support.toolchain import need

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop

NODES = 3
LINES = [f"line {number}" for number in range(100)]


def kcat(mode: str, port: int, *options: str, records: str = "") -> str:
    """Run kcat to its end; what it prints."""
    command = ["kcat", mode, "-b", f"127.0.0.1:{port}", *options]
    finished = subprocess.run(command, input=records, capture_output=True, text=True, timeout=60, check=True)
    return finished.stdout


def test_every_listener_has_ports_of_all_nodes_and_tells_no_others(tmp_path: Path) -> None:
    need("kcat")
    ports = free_ports(2 * NODES)
    inside, outside = ports[:NODES], ports[NODES:]
    settings = {
        "listeners": f"INSIDE://127.0.0.1:{inside[0]},OUTSIDE://127.0.0.1:{outside[0]}",
        "advertised.listeners": f"OUTSIDE://localhost:{outside[0]},INSIDE://127.0.0.1:{inside[0]}",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "min.insync.replicas": "2",
    }
    broker = KcliBroker(tmp_path, arguments=("--nodes", str(NODES)), settings=settings)
    with closing(broker):
        broker.start()
        assert f"127.0.0.1:{inside[0]},127.0.0.1:{inside[1]},127.0.0.1:{inside[2]} " in broker.ready_line
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{outside[1]}"})
        admin.create_topics([NewTopic("t", NODES, NODES)])["t"].result(60)
        told = admin.list_topics("t", timeout=60)
        assert [str(told.brokers[each]) for each in (1, 2, 3)] == [
            f"localhost:{outside[node - 1]}/{node}" for node in (1, 2, 3)
        ]
        assert {partition.leader for partition in told.topics["t"].partitions.values()} == {1, 2, 3}
        known = json.loads(kcat("-L", inside[0], "-J"))["brokers"]
        assert {each["id"]: each["name"] for each in known} == {
            node: f"127.0.0.1:{inside[node - 1]}" for node in (1, 2, 3)
        }
        kcat("-P", outside[0], "-t", "t", "-X", "acks=all", records="".join(f"{line}\n" for line in LINES))
        consumed = kcat("-C", inside[2], "-t", "t", "-o", "beginning", "-e", "-q")
        assert sorted(consumed.splitlines()) == sorted(LINES)
        assert broker.stop() == 0
