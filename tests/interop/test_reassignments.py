"""Moves and elections in a cluster of Apache Kafka: kcli's tools beside the original ones."""

from __future__ import annotations

import json
import random
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.support.apache_cluster import ApacheCluster
from tests.support.group_tool import eventually
from tests.support.processes import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

SLOW = "20000"
"""Bytes a second: a move of two megabytes does not end meanwhile."""


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


class Sides:
    """The same action by kcli and by Apache's tools."""

    def __init__(self, kcli: Callable[..., Finished], tools: KafkaTools, bootstrap: str) -> None:
        self.kcli = kcli
        self.tools = tools
        self.bootstrap = bootstrap

    def ours(self, *arguments: str | Path, code: int = 0) -> list[str]:
        """kcli's lines."""
        finished = self.kcli(*map(str, arguments))
        assert finished.exit_code == code, finished
        return finished.out.splitlines()

    def theirs(self, tool: str, *arguments: str | Path, code: int = 0) -> list[str]:
        """The original tool's lines."""
        result = self.tools(tool, "--bootstrap-server", self.bootstrap, *arguments)
        assert result.code == code, result
        return result.lines

    def reassign(self, verb: str, *arguments: str | Path, code: int = 0) -> list[str]:
        """The lines of a verb of kcli."""
        return self.ours("reassign-partitions", verb, *arguments, code=code)

    def original_reassign(self, verb: str, *arguments: str | Path, code: int = 0) -> list[str]:
        """The lines of the original tool, whose exit code tells nothing."""
        words = ("--reassignment-json-file", *arguments) if arguments else ()
        return self.theirs("kafka-reassign-partitions", f"--{verb}", *words)

    def log_dir(self, topic: str, broker: int) -> str:
        """Where the first partition of a topic lies."""
        described = self.theirs("kafka-log-dirs", "--describe", "--topic-list", topic)[-1]
        found = [
            log_dir["logDir"]
            for each in json.loads(described)["brokers"]
            for log_dir in each["logDirs"]
            if each["broker"] == broker and any(not entry["isFuture"] for entry in log_dir["partitions"])
        ]
        # While two directories are swapped there may be none, or both.
        return str(found[0]) if len(found) == 1 else ""

    def create(self, topic: str, assignment: str, **configs: str) -> None:
        """Create a topic whose partitions are where they are told to be."""
        options = [f"--config={name.replace('_', '.')}={value}" for name, value in configs.items()]
        self.theirs(
            "kafka-topics", "--create", "--topic", topic, "--replica-assignment", assignment, *options
        )
        eventually(lambda: self._is_led(topic), f"{topic} is led")

    def _is_led(self, topic: str) -> bool:
        found = self.tools(
            "kafka-topics", "--bootstrap-server", self.bootstrap, "--describe", "--topic", topic
        )
        return found.code == 0 and "Leader: none" not in found.output

    def describe(self, *topic: str) -> list[str]:
        """How the original tool describes a topic, or all of them."""
        named = ("--topic", *topic) if topic else ()
        return self.theirs("kafka-topics", "--describe", *named)

    def replicas(self, topic: str) -> list[str]:
        """The replicas of each partition."""
        return re.findall(r"Replicas: (\S*)\tIsr", "\n".join(self.describe(topic)))

    def throttles(self) -> list[str]:
        """Throttles that are set anywhere."""
        lines = []
        for kind in ("brokers", "topics"):
            lines += self.theirs("kafka-configs", "--describe", "--entity-type", kind)
        return [line for line in lines if "throttled" in line]

    def fill(self, topic: str, partitions: int, megabytes: float = 2.0) -> None:
        """Produce random bytes to each partition."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        noise = random.Random(topic)
        for _ in range(round(megabytes * 100)):
            for partition in range(partitions):
                producer.produce(topic, noise.randbytes(10_000), partition=partition)
        assert producer.flush(30) == 0


@pytest.fixture
def sides(
    kcli: Callable[..., Finished],
    kafka_tool: KafkaTools,
    cluster: ApacheCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Sides]:
    """Both sides, in an empty directory; topics named `moved…` are deleted afterwards."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", cluster.bootstrap)
    monkeypatch.chdir(tmp_path)
    both = Sides(kcli, kafka_tool, cluster.bootstrap)
    yield both
    both.theirs("kafka-topics", "--delete", "--if-exists", "--topic", "moved.*")


def write_plan(path: Path, topic: str, *replicas: Sequence[int]) -> Path:
    """Write a plan for the partitions of a topic."""
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(each)} for index, each in enumerate(replicas)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


def test_a_move_reads_as_with_the_original(sides: Sides, tmp_path: Path) -> None:
    def story(name: str, act: Callable[..., list[str]]) -> list[str]:
        plan = write_plan(tmp_path / f"{name}.json", name, [3, 2], [1, 3])
        sides.create(name, "1:2,2:3")
        sides.fill(name, 2)
        lines = act("execute", plan, "--throttle", SLOW)
        throttles = sides.theirs("kafka-configs", "--describe", "--topic", name)
        lines += [line for line in throttles if "throttled" in line]
        lines += act("list")
        lines += act("verify", plan, code=3)
        described = sides.ours("topics", "describe", name)
        assert described == sides.describe(name)
        lines += act("cancel", plan)
        eventually(lambda: act("list") == ["No partition reassignments found."], "nothing moves")
        # The brokers are those of before; their order is what the plan made of it.
        assert sides.replicas(name) == ["2,1", "3,2"]
        lines += act("verify", plan, code=3)
        lines += act("execute", plan)
        eventually(lambda: act("list") == ["No partition reassignments found."], "nothing moves")
        lines += act("verify", plan)
        assert sides.replicas(name) == ["3,2", "1,3"]
        return [re.sub(r"data-\d", "data", line.replace(name, "TOPIC")) for line in lines]

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
    assert sides.throttles() == []
    sides.ours("reassign-partitions", "execute", "back.json", "--wait")
    assert sides.replicas("moved-wait") == ["1,2", "1,3"]


def test_throttles_outlive_neither_an_interrupt_nor_the_next_run(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = write_plan(tmp_path / "plan.json", "moved-cut", [3, 2])
    sides.create("moved-cut", "1:2")
    sides.fill("moved-cut", 1)

    def begin() -> ChildProcess:
        words = ("reassign-partitions", "execute", plan, "--throttle", SLOW, "--wait")
        process = ChildProcess([sys.executable, "-m", "kcli", *words], stderr=tmp_path / "stderr")
        process.wait_for_line(lambda line: "Successfully" in line, timeout=30, what="start")
        assert sides.throttles() != []
        return process

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    interrupted = begin()
    assert interrupted.stop(signal.SIGINT) == 130
    assert "interrupted: the moves of 1 partitions go on, without throttles" in interrupted.errors
    assert sides.throttles() == []
    sides.ours("reassign-partitions", "verify", plan, "--wait")
    sides.original_reassign("execute", write_plan(tmp_path / "back.json", "moved-cut", [1, 2]))
    eventually(lambda: sides.reassign("list")[0].startswith("No "), "nothing moves")
    begin().kill()
    sides.original_reassign("cancel", plan, "--preserve-throttles")
    assert sides.throttles() != []
    finished = sides.kcli("reassign-partitions", "execute", str(plan), "--wait")
    assert "removed throttles that were left behind: broker 1, broker 2, broker 3, topic" in finished.err
    assert sides.throttles() == []


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
    def story(name: str, act: Callable[..., list[str]]) -> list[str]:
        sides.create(name, "1:2")
        sides.fill(name, 1, 1.0)
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
        return [re.sub(r"data-\d", "data", line.replace(name, "TOPIC")) for line in lines]

    assert story("moved-dir-a", sides.reassign) == story("moved-dir-b", sides.original_reassign)
    assert sides.throttles() == []


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
    assert sides.throttles() == []


def test_elections_and_health_while_a_broker_is_down(sides: Sides, cluster: ApacheCluster) -> None:
    sides.create("moved-led", "3:1,3:2,3:1,1:2")
    sides.create("moved-lone", "3")
    sides.create("moved-strict", "3:2,1:2", min_insync_replicas="2")
    node = cluster.nodes[3]
    node.stop()
    eventually(lambda: "Leader: none" in sides.describe("moved-lone")[1], "the broker is missed")
    for flag in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        ours = sides.ours("topics", "describe", f"--{flag}-partitions")
        assert sorted(ours) == sorted(sides.theirs("kafka-topics", "--describe", f"--{flag}-partitions"))
    assert sorted(sides.ours("topics", "describe")) == sorted(sides.describe())
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
    # The throttle lets one fetch of a megabyte through.
    sides.fill("moved-lost", 1, 3.0)
    cluster.nodes[2].start()
    cluster.nodes[3].stop()
    eventually(lambda: "Leader: none" in sides.describe("moved-lost")[1], "nobody leads")
    assert sides.ours("preferred-replica-election", "moved-lost:0", "--type", "unclean") == [
        "Successfully completed leader election (UNCLEAN) for partitions moved-lost-0"
    ]
    assert "Leader: 2" in sides.describe("moved-lost")[1]
    cluster.nodes[3].start()
    sides.theirs(*throttle, "--delete-config", "follower.replication.throttled.rate")
