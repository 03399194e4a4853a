"""Moves and elections in a cluster of Apache Kafka: kcli's tools beside the original ones."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.apache_cluster import ApacheCluster
from tests.support.processes import ChildProcess
from tests.support.reassigning import LASTING, SLOW, Sides, write_plan
from tests.support.waiting import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka_tool: KafkaTools) -> Iterator[ApacheCluster]:
    """Three running nodes with two log directories each."""
    running = ApacheCluster(
        tmp_path_factory.mktemp("cluster"),
        kafka_tool,
        voters=(1,),
        log_dirs=2,
        # A broker that comes back waits until its former session has ended.
        settings={"broker.session.timeout.ms": "5000"},
    )
    running.start()
    yield running
    running.kill()


@pytest.fixture
def moving_brokers(cluster: ApacheCluster) -> str:
    return cluster.bootstrap


def test_a_move_reads_as_with_the_original(sides: Sides, tmp_path: Path) -> None:
    def story(name: str, act: Callable[..., list[str]]) -> str:
        plan = write_plan(tmp_path / f"{name}.json", name, [3, 2], [1, 3])
        sides.create(name, "1:2,2:3")
        sides.fill(name, 2, LASTING)
        lines = act("execute", plan, "--throttle", SLOW)
        sides.known(name, "3,2,1", "1,3,2")
        throttles = sides.theirs("kafka-configs", "--describe", "--topic", name)
        lines += [line for line in throttles if "throttled" in line]
        lines += act("list")
        lines += act("verify", plan, code=3)
        agreed(sides, lambda: sides.describe(name), name)
        lines += act("cancel", plan)
        # The brokers are those of before; their order is what the plan made of it.
        sides.known(name, "2,1", "3,2")
        assert act("list") == ["No partition reassignments found."]
        lines += act("verify", plan, code=3)
        lines += act("execute", plan)
        sides.known(name, "3,2", "1,3")
        assert act("list") == ["No partition reassignments found."]
        lines += act("verify", plan)
        return re.sub(r"data-\d", "data", "\n".join(lines).replace(name, "TOPIC"))

    assert story("moved-a", sides.reassign) == story("moved-b", sides.original_reassign)


def test_waiting_ends_when_all_is_as_planned_and_leaves_no_throttle(sides: Sides, tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.json", "moved-wait", [2, 3], [3, 1])
    sides.create("moved-wait", "1:2,1:3")
    sides.fill("moved-wait", 2)
    lines = sides.ours(
        *("reassign-partitions", "execute", plan, "--throttle", "2000000", "--wait"),
        *("--rollback-file", "back.json"),
    )
    assert "Reassignment of partition moved-wait-1 is completed." in lines
    assert sides.replicas("moved-wait") == ["2,3", "3,1"]
    sides.throttled(anything=False)
    sides.ours("reassign-partitions", "execute", "back.json", "--wait")
    assert sides.replicas("moved-wait") == ["1,2", "1,3"]


def test_throttles_outlive_neither_an_interrupt_nor_the_next_run(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = write_plan(tmp_path / "plan.json", "moved-cut", [3, 2])
    sides.create("moved-cut", "1:2")
    sides.fill("moved-cut", 1, LASTING)

    def begin() -> ChildProcess:
        words = ("reassign-partitions", "execute", plan, "--throttle", SLOW, "--wait")
        process = ChildProcess([sys.executable, "-m", "kcli", *words], stderr=tmp_path / "stderr")
        process.wait_for_line(lambda line: "Successfully" in line, timeout=PATIENCE_SECONDS, what="start")
        sides.throttled(anything=True)
        return process

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    interrupted = begin()
    assert interrupted.stop(signal.SIGINT) == 130
    assert "interrupted: the moves of 1 partition go on, without throttles" in interrupted.errors
    sides.throttled(anything=False)
    sides.ours("reassign-partitions", "verify", plan, "--wait")
    sides.original_reassign("execute", write_plan(tmp_path / "back.json", "moved-cut", [1, 2]))
    eventually(lambda: sides.reassign("list")[0].startswith("No "), "nothing moves")
    begin().kill()
    sides.original_reassign("cancel", plan, "--preserve-throttles")
    sides.throttled(anything=True)
    finished = sides.kcli("reassign-partitions", "execute", str(plan), "--wait")
    assert "removed leftover throttles: broker 1, broker 2, broker 3, topic" in finished.err
    sides.throttled(anything=False)


def test_a_broker_is_drained(sides: Sides, tmp_path: Path) -> None:
    sides.create("moved-drain", "1:3,3:2,2:1,3:1")
    sides.fill("moved-drain", 4, 0.1)
    sides.ours("reassign-partitions", "generate", "--drain", "3", "--plan-file", "drain.json")
    sides.ours("reassign-partitions", "execute", "drain.json", "--wait")
    replicas = sides.replicas("moved-drain")
    assert [sorted(each.split(",")) for each in replicas] == [["1", "2"]] * 4
    assert sorted(each[0] for each in replicas) == ["1", "1", "2", "2"], "leaders are shared"
    verified = sides.theirs(
        "kafka-reassign-partitions", "--verify", "--reassignment-json-file", tmp_path / "drain.json"
    )
    assert "Reassignment of partition moved-drain-0 is completed." in verified


def test_the_number_of_replicas_is_changed(sides: Sides) -> None:
    sides.create("moved-factor", "1,2,3")
    for factor in (3, 1):
        sides.ours(
            *("reassign-partitions", "generate", "moved-factor", "--replication-factor", str(factor)),
            *("--plan-file", f"{factor}.json"),
        )
        sides.ours("reassign-partitions", "execute", f"{factor}.json", "--wait")
        assert [len(each.split(",")) for each in sides.replicas("moved-factor")] == [factor] * 3


def test_replicas_move_between_log_directories_as_with_the_original(
    sides: Sides, cluster: ApacheCluster, tmp_path: Path
) -> None:
    def story(name: str, act: Callable[..., list[str]]) -> str:
        sides.create(name, "1:2")
        sides.fill(name, 1, LASTING)
        eventually(lambda: all(sides.log_dir(name, broker) for broker in (1, 2)), "all replicas are there")
        first, second = (sides.log_dir(name, broker) for broker in (1, 2))
        other = next(str(path) for path in cluster.nodes[1].log_dirs if str(path) != first)
        plan = tmp_path / f"{name}.json"
        entry = {"topic": name, "partition": 0, "replicas": [1, 2], "log_dirs": [other, second]}
        plan.write_text(json.dumps({"partitions": [entry]}))
        lines = act("execute", plan, "--replica-alter-log-dirs-throttle", SLOW)
        lines += act("verify", plan, code=3)
        lines += act("cancel", plan)
        lines += act("execute", plan)
        eventually(lambda: sides.log_dir(name, 1) == other, "the replica lies in the other directory")
        lines += act("verify", plan)
        return re.sub(r"data-\d", "data", "\n".join(lines).replace(name, "TOPIC"))

    assert story("moved-dir-a", sides.reassign) == story("moved-dir-b", sides.original_reassign)
    sides.throttled(anything=False)


def test_log_dirs_move_ends_when_the_replica_lies_there(sides: Sides, cluster: ApacheCluster) -> None:
    sides.create("moved-here", "2:1")
    sides.fill("moved-here", 1, 0.2)
    eventually(lambda: sides.log_dir("moved-here", 2) != "", "the replica is there")
    before = sides.log_dir("moved-here", 2)
    other = next(str(path) for path in cluster.nodes[2].log_dirs if str(path) != before)
    sides.ours("log-dirs", "move", "moved-here:0", "--broker", "2", "--to", other, "--wait")
    assert sides.log_dir("moved-here", 2) == other


def test_plans_that_cannot_be_carried_out(sides: Sides, tmp_path: Path) -> None:
    sides.create("moved-bad", "1:2")
    plans = {
        "no such partition: moved-none-0": write_plan(tmp_path / "topic.json", "moved-none", [1]),
        "no such partition: moved-bad-1": write_plan(tmp_path / "partition.json", "moved-bad", [1], [2]),
        "the cluster has no such broker: 9": write_plan(tmp_path / "broker.json", "moved-bad", [9]),
    }
    for message, plan in plans.items():
        finished = sides.kcli("reassign-partitions", "execute", str(plan), "--throttle", SLOW)
        assert (finished.exit_code, finished.err.splitlines()[0]) == (1, f"error: {message}")
    assert sides.replicas("moved-bad") == ["1,2"]
    sides.throttled(anything=False)


def agreed(sides: Sides, original: Callable[[], list[str]], *options: str) -> None:
    """Wait until kcli describes topics as the original: each may have asked another broker."""
    eventually(
        lambda: sorted(sides.ours("topics", "describe", *options)) == sorted(original()),
        f"both say the same {options}",
        seen=lambda: (sides.ours("topics", "describe", *options), original()),
    )


def test_elections_and_health_while_a_broker_is_down(sides: Sides, cluster: ApacheCluster) -> None:
    sides.create("moved-led", "3:1,3:2,3:1,1:2")
    sides.create("moved-lone", "3")
    sides.create("moved-strict", "3:2,1:2", min_insync_replicas="2")
    node = cluster.nodes[3]
    node.stop()
    eventually(lambda: "Leader: none" in sides.describe("moved-lone")[1], "the broker is missed")
    for flag in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        told = f"--{flag}-partitions"
        agreed(sides, lambda told=told: sides.theirs("kafka-topics", "--describe", told), told)
    agreed(sides, sides.describe)
    for kind, partition, words in (
        ("preferred", "moved-led:0", "its first replica is down or not in sync"),
        ("preferred", "moved-lone:0", "its first replica is down or not in sync"),
        ("unclean", "moved-lone:0", "start a broker that has a replica"),
    ):
        refused = sides.kcli("preferred-replica-election", partition, "--election-type", kind)
        assert (refused.exit_code, refused.out) == (1, ""), refused
        assert words in refused.err
    node.start()
    eventually(
        lambda: not sides.ours("topics", "describe", "--under-replicated-partitions"), "all are in sync"
    )
    elect = ("preferred-replica-election", "--topic", "moved-led", "--partition")
    original = (
        "kafka-leader-election",
        "--election-type",
        "preferred",
        "--topic",
        "moved-led",
        "--partition",
    )
    ours = [*sides.ours(*elect, "0"), *sides.ours(*elect, "0")]
    theirs = [*sides.theirs(*original, "1"), *sides.theirs(*original, "1")]
    assert [line.replace("led-0", "led-1") for line in ours] == theirs
    assert "moved-led-2" in sides.ours("preferred-replica-election")[0]
    assert sides.ours("preferred-replica-election", "--all-topic-partitions") == []


def test_an_unclean_election_leads_on_with_what_is_left(sides: Sides, cluster: ApacheCluster) -> None:
    sides.create("moved-lost", "3:2")
    throttle = ("kafka-configs", "--alter", "--entity-type", "brokers", "--entity-name", "2")
    sides.theirs(*throttle, "--add-config", "follower.replication.throttled.rate=1")
    sides.theirs(
        *("kafka-configs", "--alter", "--topic", "moved-lost"),
        *("--add-config", "follower.replication.throttled.replicas=0:2"),
    )
    cluster.nodes[2].stop()
    sides.fill("moved-lost", 1, 2 * LASTING)
    cluster.nodes[2].start()
    cluster.nodes[3].stop()
    eventually(lambda: "Leader: none" in sides.describe("moved-lost")[1], "nobody leads")
    assert sides.ours("preferred-replica-election", "moved-lost:0", "--type", "unclean") == [
        "Successfully completed leader election (UNCLEAN) for partitions moved-lost-0"
    ]
    eventually(lambda: "Leader: 2" in sides.describe("moved-lost")[1], "2 leads")
    cluster.nodes[3].start()
    sides.theirs(*throttle, "--delete-config", "follower.replication.throttled.rate")
