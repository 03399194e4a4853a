"""Moves and elections in a kcli process with six nodes: Apache's tools and kcli's, which print the same."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.control_socket import ask
from tests.support.kcli_broker import BOOTSTRAP, KcliBroker
from tests.support.processes import ChildProcess
from tests.support.producing import read_partition
from tests.support.reassigning import LASTING, SLOW, Sides, write_plan
from tests.support.steady_load import SteadyLoad
from tests.support.waiting import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

NODES = 6
OPERATION_SECONDS = 60.0


class Nodes:
    """The process, and what is done to single nodes of it."""

    def __init__(self, directory: Path) -> None:
        self.process = KcliBroker(
            directory,
            arguments=("--port", "0", "--nodes", str(NODES)),
            settings={
                "auto.leader.rebalance.enable": "false",
                "broker.heartbeat.interval.ms": "500",
                "broker.session.timeout.ms": "2000",
            },
        )
        self.process.start()
        self.bootstrap = ",".join(BOOTSTRAP.findall(self.process.ready_line)[:NODES])

    def act(self, operation: str, node: int) -> None:
        """Stop, start or kill a node."""
        ask(self.process.data, f"node.{operation}", timeout_seconds=OPERATION_SECONDS, node=node)

    def partition(self, node: int, name: str) -> Path:
        """The directory of a replica."""
        return self.process.data / f"node-{node}" / name


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Six running nodes."""
    running = Nodes(tmp_path_factory.mktemp("nodes"))
    yield running
    assert running.process.stop() == 0


@pytest.fixture
def moving_brokers(nodes: Nodes) -> str:
    return nodes.bootstrap


def test_partitions_move_to_other_nodes_under_load(sides: Sides, nodes: Nodes, tmp_path: Path) -> None:
    def story(name: str, act: Callable[..., list[str]]) -> list[str]:
        plan = write_plan(tmp_path / f"{name}.json", name, [4, 5, 6], [5, 6, 4])
        sides.create(name, "1:2:3,2:3:1", min_insync_replicas="2")
        sides.fill(name, 2, 3.0)
        with SteadyLoad(nodes.bootstrap, name, 2, per_second=500) as load:
            lines = act("execute", plan, "--throttle", SLOW)
            lines += act("list")
            lines += act("verify", plan, code=3)
            assert sides.ours("topics", "describe", name) == sides.describe(name)
            lines += act("cancel", plan)
            sides.settled()
            lines += act("verify", plan, code=3)
            lines += act("execute", plan, "--throttle", "50000000")
            sides.settled()
            lines += act("verify", plan)
            ends = load.stop()
        assert sides.replicas(name) == ["4,5,6", "5,6,4"]
        for partition, end in ends.items():
            records = read_partition(nodes.bootstrap, name, partition)
            values = [record.value for record in records if len(record.value or b"") < 100]
            assert values == [f"{partition}:{number}".encode() for number in range(end)]
        return [line.replace(name, "TOPIC") for line in lines]

    assert story("moved-a", sides.reassign) == story("moved-b", sides.original_reassign)
    sides.throttled(anything=False)
    for name in ("moved-a-0", "moved-b-1"):
        logs = [(nodes.partition(node, name) / f"{0:020}.log").read_bytes() for node in (4, 5, 6)]
        assert logs[0] == logs[1] == logs[2] != b""
        eventually(
            lambda name=name: not any(nodes.partition(node, name).exists() for node in (1, 2, 3)),
            "the old directories are gone",
        )


def test_a_node_is_drained_and_replicas_are_added(sides: Sides) -> None:
    sides.create("moved-drain", "6:1,2:6,6:3,4:5")
    sides.fill("moved-drain", 4, 0.1)
    sides.reassign("generate", "moved-drain", "--drain", "6", "--plan-file", "drain.json")
    finished = sides.kcli("reassign-partitions", "execute", "drain.json", "--wait", "-o", "json")
    assert finished.exit_code == 0, finished
    assert "to copy: 3 replicas, 300." in finished.err
    replicas = sides.replicas("moved-drain")
    assert not any("6" in each for each in replicas)
    assert replicas[3] == "4,5", "what need not move stays"
    sides.ours(
        "reassign-partitions",
        "generate",
        "moved-drain",
        "--replication-factor",
        "3",
        "--plan-file",
        "more.json",
    )
    sides.ours("reassign-partitions", "execute", "more.json", "--wait")
    assert [each.count(",") for each in sides.replicas("moved-drain")] == [2] * 4


def test_what_cannot_be_carried_out_changes_nothing(sides: Sides, nodes: Nodes, tmp_path: Path) -> None:
    sides.create("moved-bad", "1:2")
    nodes.act("kill", 5)
    eventually(lambda: "(id: 5" not in "".join(sides.ours("cluster", "nodes")), "the node is missed")
    for replicas, complaint in (
        ([5, 1], "broker 5 is down: replicas cannot move there"),
        ([9], "the cluster has no such broker: 9"),
    ):
        plan = write_plan(tmp_path / f"{replicas[0]}.json", "moved-bad", replicas)
        finished = sides.kcli("reassign-partitions", "execute", str(plan), "--throttle", SLOW)
        assert (finished.exit_code, finished.err.splitlines()[0]) == (1, f"error: {complaint}")
        refused = sides.tools(
            "kafka-reassign-partitions",
            "--bootstrap-server",
            nodes.bootstrap,
            "--execute",
            "--reassignment-json-file",
            plan,
        )
        assert (refused.code, refused.lines[0]) == (1, f"Error: Unknown broker id {replicas[0]}")
    nodes.act("start", 5)
    unknown = ("--topic", "moved-none", "--partition", "0")
    assert sides.kcli("preferred-replica-election", *unknown).exit_code == 1
    elected = sides.theirs("kafka-leader-election", "--election-type", "preferred", *unknown, code=1)
    assert "UnknownTopicOrPartitionException" in elected[0]
    assert sides.replicas("moved-bad") == ["1,2"]
    sides.throttled(anything=False)


def test_elections_and_health_while_a_node_is_down(sides: Sides, nodes: Nodes) -> None:
    sides.create("moved-led", "3:1,3:2,3:1,1:2")
    sides.create("moved-lone", "3")
    sides.create("moved-strict", "3:2,1:2", min_insync_replicas="2")
    nodes.act("stop", 3)
    eventually(lambda: "Leader: none" in sides.describe("moved-lone")[1], "the node is missed")
    for flag in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        ours = sides.ours("topics", "describe", f"--{flag}-partitions")
        assert ours != [], flag
        assert sorted(ours) == sorted(sides.theirs("kafka-topics", "--describe", f"--{flag}-partitions"))
    assert sorted(sides.ours("topics", "describe")) == sorted(sides.describe())
    for kind, partition, name in (
        ("preferred", "moved-led:0", "PreferredLeaderNotAvailableException"),
        ("preferred", "moved-lone:0", "PreferredLeaderNotAvailableException"),
        ("unclean", "moved-lone:0", "EligibleLeadersNotAvailableException"),
    ):
        refused = sides.kcli("preferred-replica-election", partition, "--election-type", kind)
        assert (refused.exit_code, refused.out) == (1, ""), refused
        topic, _, index = partition.partition(":")
        where = ("--topic", topic, "--partition", index)
        lines = sides.theirs("kafka-leader-election", "--election-type", kind, *where, code=1)
        assert name in lines[0]
    nodes.act("start", 3)
    eventually(
        lambda: not sides.ours("topics", "describe", "--under-replicated-partitions"), "all are in sync"
    )
    elect = ("preferred-replica-election", "--topic", "moved-led", "--partition")
    original = ("kafka-leader-election", "--election-type", "preferred", *elect[1:])
    ours = [*sides.ours(*elect, "0"), *sides.ours(*elect, "0")]
    theirs = [*sides.theirs(*original, "1"), *sides.theirs(*original, "1")]
    assert [line.replace("led-0", "led-1") for line in ours] == theirs
    assert (
        "moved-led-2"
        in sides.theirs("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")[0]
    )
    assert sides.ours("preferred-replica-election") == []


def test_an_unclean_election_leads_on_with_what_is_left(sides: Sides, nodes: Nodes) -> None:
    sides.create("moved-lost", "3:2")
    nodes.act("kill", 2)
    eventually(lambda: "Isr: 3\t" in sides.describe("moved-lost")[1], "the follower is missed")
    sides.fill("moved-lost", 1, 0.1)
    nodes.act("kill", 3)
    eventually(lambda: "Leader: none" in sides.describe("moved-lost")[1], "nobody leads")
    nodes.act("start", 2)
    assert sides.theirs(
        *("kafka-leader-election", "--election-type", "unclean", "--topic", "moved-lost", "--partition", "0")
    ) == ["Successfully completed leader election (UNCLEAN) for partitions moved-lost-0"]
    assert "Leader: 2" in sides.describe("moved-lost")[1]
    assert sides.theirs("kafka-get-offsets", "--topic", "moved-lost") == ["moved-lost:0:0"], "as it must"
    nodes.act("start", 3)
    behind = ("topics", "describe", "--under-replicated-partitions")
    eventually(lambda: not sides.ours(*behind), "all are in sync")


def test_log_dirs_and_the_quorum_are_told(sides: Sides, nodes: Nodes) -> None:
    sides.create("moved-sized", "1:6")
    sides.fill("moved-sized", 1, 0.1)
    assert sides.log_dir("moved-sized", 6) == str(nodes.process.data / "node-6")
    described = ("describe", "--topic-list", "moved-sized", "-o", "text")
    ours = json.loads(sides.ours("log-dirs", *described)[-1])
    theirs = json.loads(sides.theirs("kafka-log-dirs", "--describe", "--topic-list", "moved-sized")[-1])
    assert ours == theirs
    status = sides.theirs("kafka-metadata-quorum", "describe", "--status")
    assert re.search(r"LeaderId: +[1-6]$", "\n".join(status), re.MULTILINE)
    head, *rows = sides.theirs("kafka-metadata-quorum", "describe", "--replication")
    assert head.split("\t")[0].strip() == "NodeId"
    assert sorted(row.split("\t")[0].strip() for row in rows) == [str(node) for node in range(1, NODES + 1)]


def test_waiting_outlives_the_destination_and_the_controller(
    sides: Sides, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = write_plan(tmp_path / "plan.json", "moved-through", [4, 5])
    sides.create("moved-through", "2:3")
    sides.fill("moved-through", 1, 4.0)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    words = ("reassign-partitions", "execute", plan, "--throttle", "1000000", "--wait")
    process = ChildProcess([sys.executable, "-m", "kcli", *words], stderr=tmp_path / "stderr")
    process.wait_for_line(lambda line: "Successfully" in line, timeout=PATIENCE_SECONDS, what="start")
    nodes.act("kill", 5)
    nodes.act("kill", 1)
    eventually(lambda: "(id: 1 " not in "".join(sides.ours("cluster", "nodes")), "the node is missed")
    nodes.act("start", 5)
    nodes.act("start", 1)
    process.wait_for_line(lambda line: line.endswith("is completed."), timeout=PATIENCE_SECONDS, what="end")
    code = process.process.wait(timeout=PATIENCE_SECONDS)
    process.kill()
    assert code == 0, process.errors
    assert sides.replicas("moved-through") == ["4,5"]
    eventually(lambda: len(sides.ours("cluster", "nodes")) == NODES, "all nodes are back")
    sides.throttled(anything=False)
    assert len(read_partition(nodes.bootstrap, "moved-through", 0)) == 400


def test_replicas_move_between_log_directories(
    kcli: Callable[..., Finished],
    kafka_tool: KafkaTools,
    new_kcli_broker: Callable[..., KcliBroker],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    roots = {"log.dirs": ",".join(str(tmp_path / name) for name in ("one", "two"))}
    broker = new_kcli_broker(roots, arguments=("--nodes", "2")).start()
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", broker.bootstrap)
    sides = Sides(kcli, kafka_tool, broker.bootstrap)
    directories = [str(tmp_path / name / "node-1") for name in ("one", "two")]

    def story(name: str, act: Callable[..., list[str]]) -> str:
        sides.create(name, "1:2")
        sides.fill(name, 1, LASTING)
        here = sides.log_dir(name, 1)
        (other,) = (each for each in directories if each != here)
        plan = tmp_path / f"{name}.json"
        entry = {"topic": name, "partition": 0, "replicas": [1, 2], "log_dirs": [other, "any"]}
        plan.write_text(json.dumps({"partitions": [entry]}))
        lines = act("execute", plan, "--replica-alter-log-dirs-throttle", SLOW)
        lines += act("verify", plan, code=3)
        lines += act("cancel", plan)
        assert sides.log_dir(name, 1) == here
        lines += act("execute", plan)
        eventually(lambda: sides.log_dir(name, 1) == other, "the replica lies in the other directory")
        lines += act("verify", plan)
        assert len(read_partition(broker.bootstrap, name, 0)) == 800
        text = "\n".join(lines).replace(name, "TOPIC").replace(other, "THERE").replace(here, "HERE")
        return re.sub(r"/(one|two)/node-2", "/ANY/node-2", text)

    assert story("moved-dir-a", sides.reassign) == story("moved-dir-b", sides.original_reassign)
    there = next(each for each in directories if each != sides.log_dir("moved-dir-a", 1))
    sides.ours("log-dirs", "move", "moved-dir-a:0", "--broker", "1", "--to", there, "--wait")
    assert sides.log_dir("moved-dir-a", 1) == there
    refused = sides.kcli("log-dirs", "move", "moved-dir-a:0", "--broker", "1", "--to", "/nowhere")
    assert (refused.exit_code, refused.out) == (1, "")
    assert "the broker has no such log directory" in refused.err
