"""What a cluster decides about nodes, leaders and features, as Kafka's own tools and clients see it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from kcli.control_socket import ask
from tests.support.kcli_broker import BOOTSTRAP, KcliBroker
from tests.support.producing import read_partition
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

NODES = 4
FIRST = {"kafka-features", "kafka-metadata-quorum"}
OPERATION_SECONDS = 60.0
SETTINGS = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}


class Cluster:
    """Four nodes in one process, Apache's tools, and confluent-kafka's admin client."""

    def __init__(self, directory: Path, tools: KafkaTools, **settings: str) -> None:
        self.process = KcliBroker(
            directory, arguments=("--port", "0", "--nodes", str(NODES)), settings={**SETTINGS, **settings}
        )
        self._tools = tools
        self.start()

    def start(self) -> None:
        """Start the process."""
        self.process.start()
        # The first node is there in every test.
        self.bootstrap = BOOTSTRAP.findall(self.process.ready_line)[0]

    def ask(self, operation: str, **arguments: object) -> Any:
        """Have the process do something."""
        return ask(self.process.data, operation, timeout_seconds=OPERATION_SECONDS, **arguments)

    def act(self, operation: str, *nodes: int) -> None:
        """Stop, start or kill nodes."""
        for node in nodes:
            self.ask(f"node.{operation}", node=node)

    def tool(self, tool: str, *arguments: str, code: int = 0, to: str = "server") -> list[str]:
        """Run a tool of Apache Kafka; what it prints, line by line, without repeated blanks."""
        server = (f"--bootstrap-{to}", self.bootstrap)
        # Some tools want it before the verb, others behind.
        words = (*server, *arguments) if tool in FIRST else (*arguments, *server)
        result = self._tools(tool, *words)
        assert result.code == code, result
        return [re.sub(r"\s+", " ", line).strip() for line in result.lines if line.strip()]

    def create(self, topic: str, assignment: str, **configs: str) -> None:
        """Create a topic of one partition: `1:2` has replicas on nodes 1 and 2."""
        options = [
            word for name in configs for word in ("--config", f"{name.replace('_', '.')}={configs[name]}")
        ]
        self.tool("kafka-topics", "--create", "--topic", topic, "--replica-assignment", assignment, *options)

    def describe(self, topic: str) -> dict[str, str]:
        """What `kafka-topics` tells of partition 0: leader, replicas, in sync, eligible."""
        line = next(
            each for each in self.tool("kafka-topics", "--describe", "--topic", topic) if "Partition:" in each
        )
        # While it moves, more `Replicas:` follow.
        return dict(reversed(re.findall(r"(\w+):(?: ([\d,]+|none))?(?= |$)", line)))

    def is_so(self, topic: str, **expected: str) -> bool:
        """Whether partition 0 is as expected; in-sync replicas in any order."""
        found = self.describe(topic)
        return all(sorted(found[name].split(",")) == sorted(expected[name].split(",")) for name in expected)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka_tool: KafkaTools) -> Iterator[Cluster]:
    """A cluster in which leadership stays where it is."""
    running = Cluster(
        tmp_path_factory.mktemp("cluster"), kafka_tool, **{"auto.leader.rebalance.enable": "false"}
    )
    yield running
    assert running.process.stop() == 0


def finalized(cluster: Cluster) -> dict[str, str]:
    lines = cluster.tool("kafka-features", "describe")
    return dict(re.findall(r"Feature: (\S+) .*FinalizedVersionLevel: (\S+)", "\n".join(lines)))


def test_features_are_told_lowered_and_raised_and_stay_so(cluster: Cluster) -> None:
    elr = "eligible.leader.replicas.version"
    everything = {
        elr: "1",
        "group.version": "1",
        "metadata.version": "4.3-IV0",
        "transaction.version": "2",
    }
    assert finalized(cluster) == everything
    lower = ("kafka-features", "downgrade", "--feature", f"{elr}=0")
    assert cluster.tool(*lower, "--dry-run") == [f"{elr} can be downgraded to 0."]
    assert finalized(cluster) == everything
    assert cluster.tool(*lower) == [f"{elr} was downgraded to 0."]
    assert cluster.process.stop() == 0
    cluster.start()
    assert finalized(cluster) == {**everything, elr: "0"}
    raised = cluster.tool("kafka-features", "upgrade", "--feature", f"{elr}=1")
    assert raised == [f"{elr} was upgraded to 1."]
    assert finalized(cluster) == everything


@pytest.mark.parametrize(
    ("direction", "feature", "reason"),
    [
        ("downgrade", "metadata.version=29", "it would lose metadata that the lower level does not know"),
        ("upgrade", "group.version=2", "the controller supports only 0 to 1"),
        ("upgrade", "transaction.version=3", "the controller supports only 0 to 2"),
        ("upgrade", "share.version=1", "the controller does not support this feature"),
    ],
)
def test_a_level_that_cannot_be_is_refused(
    cluster: Cluster, direction: str, feature: str, reason: str
) -> None:
    lines = cluster.tool("kafka-features", direction, "--feature", feature, code=1)
    name, level = feature.split("=")
    assert lines[0] == f"Could not {direction} {name} to {level}. `{name}` cannot be {level}: {reason}"


def test_every_node_is_a_voter_and_level(cluster: Cluster) -> None:
    status = dict(
        line.split(": ", 1) for line in cluster.tool("kafka-metadata-quorum", "describe", "--status")
    )
    assert status["LeaderId"] in {"1", "2", "3", "4"}
    assert (status["MaxFollowerLag"], status["CurrentObservers"]) == ("0", "[]")
    assert re.findall(r'"id": (\d+), "directoryId": "\S{22}"', status["CurrentVoters"]) == list("1234")
    rows = [line.split() for line in cluster.tool("kafka-metadata-quorum", "describe", "--replication")[1:]]
    # Told by leadership first; the end of every log is the same.
    assert sorted(row[0] for row in rows) == list("1234")
    assert {(row[2], row[3]) for row in rows} == {(status["HighWatermark"], "0")}
    assert sorted(row[6] for row in rows) == ["Follower"] * 3 + ["Leader"]


def confluent_elects(cluster: Cluster, type_name: str, topic: str) -> str | None:
    """Hold an election with confluent-kafka; the name of the error, if there is one."""
    from confluent_kafka import ElectionType, TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partition = TopicPartition(topic, 0)
    elected = admin.elect_leaders(getattr(ElectionType, type_name), [partition]).result(timeout=60)
    error = elected[partition]
    return None if error is None else str(error.name())


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("kafka-metadata-quorum", ("describe", "--replication", "--human-readable")),
        ("kafka-features", ("describe",)),
        ("kafka-configs", ("--describe", "--entity-type", "brokers", "--entity-name", "2")),
        ("kafka-reassign-partitions", ("--list",)),
        ("kafka-cluster", ("cluster-id",)),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_every_node_is_a_controller_to_tools_that_want_one(
    cluster: Cluster, tool: str, words: tuple[str, ...]
) -> None:
    def told(to: str) -> list[str]:
        # How long ago a node was heard of changes from one answer to the next.
        return [re.sub(r"\d+ ms ago", "N ms ago", line) for line in cluster.tool(tool, *words, to=to)]

    # The controller knows only the heartbeats of its own epoch.
    eventually(lambda: told("controller") == told("server") != [], "both say the same")


@pytest.mark.parametrize("node", ["", "1", "2"])
def test_configurations_are_changed_by_way_of_controllers(cluster: Cluster, node: str) -> None:
    brokers = ("--entity-type", "brokers", *(("--entity-name", node) if node else ("--entity-default",)))
    cluster.tool(
        "kafka-configs", "--alter", *brokers, "--add-config", "num.replica.fetchers=2", to="controller"
    )
    described = cluster.tool("kafka-configs", "--describe", *brokers)
    assert any(line.startswith("num.replica.fetchers=2 ") for line in described)
    cluster.tool(
        "kafka-configs", "--alter", *brokers, "--delete-config", "num.replica.fetchers", to="controller"
    )


def test_the_endpoints_of_controllers_are_those_of_all_nodes(cluster: Cluster) -> None:
    head, *rows = cluster.tool("kafka-cluster", "list-endpoints", to="controller")
    assert head == "ID HOST PORT RACK ENDPOINT_TYPE"
    assert [row.split()[0] for row in sorted(rows)] == ["1", "2", "3", "4"]
    assert all(row.endswith(" controller") for row in rows)


def test_leadership_is_given_back_on_demand(cluster: Cluster) -> None:
    cluster.create("given-back", "2:3")
    assert confluent_elects(cluster, "PREFERRED", "given-back") == "ELECTION_NOT_NEEDED"
    cluster.act("kill", 2)
    eventually(lambda: cluster.is_so("given-back", Leader="3", Isr="3"), "3 leads")
    assert confluent_elects(cluster, "PREFERRED", "given-back") == "PREFERRED_LEADER_NOT_AVAILABLE"
    cluster.act("start", 2)
    eventually(lambda: cluster.is_so("given-back", Leader="3", Isr="2,3"), "2 is back")
    assert confluent_elects(cluster, "PREFERRED", "given-back") is None
    assert cluster.is_so("given-back", Leader="2", Isr="2,3")
    words = ("--election-type", "preferred", "--topic", "given-back", "--partition", "0")
    assert cluster.tool("kafka-leader-election", *words) == [
        "Valid replica already elected for partitions given-back-0"
    ]


def produce(cluster: Cluster, topic: str, *values: str, acks: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": acks})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def test_who_was_in_sync_leads_again_without_losing_anything(cluster: Cluster) -> None:
    cluster.create("eligible", "2:3", min_insync_replicas="2")
    produce(cluster, "eligible", "a", "b", acks="all")
    cluster.act("stop", 2)
    eventually(lambda: cluster.is_so("eligible", Leader="3", Isr="3", Elr="2"), "2 is eligible")
    cluster.act("kill", 3)
    eventually(lambda: cluster.is_so("eligible", Leader="none", Isr="", Elr="2,3"), "both are")
    assert cluster.describe("eligible")["LastKnownElr"] == "3"
    cluster.act("start", 2)
    eventually(lambda: cluster.is_so("eligible", Leader="2", Isr="2", Elr="3"), "2 leads")
    cluster.act("start", 3)
    eventually(lambda: cluster.is_so("eligible", Leader="2", Isr="2,3", Elr=""), "all are back")
    values = [record.value for record in read_partition(cluster.bootstrap, "eligible", 0)]
    assert values == [b"a", b"b"]


def test_an_unclean_election_revives_a_partition_at_the_price_of_records(cluster: Cluster) -> None:
    cluster.create("revived", "3:4")
    produce(cluster, "revived", "kept", acks="all")
    cluster.act("kill", 4)
    eventually(lambda: cluster.is_so("revived", Leader="3", Isr="3"), "3 is alone")
    produce(cluster, "revived", "lost", acks="all")
    cluster.act("kill", 3)
    cluster.act("start", 4)
    eventually(lambda: cluster.is_so("revived", Leader="none"), "nobody leads")
    assert confluent_elects(cluster, "PREFERRED", "revived") == "PREFERRED_LEADER_NOT_AVAILABLE"
    words = ("--election-type", "unclean", "--topic", "revived", "--partition", "0")
    assert cluster.tool("kafka-leader-election", *words) == [
        "Successfully completed leader election (UNCLEAN) for partitions revived-0"
    ]
    assert cluster.is_so("revived", Leader="4", Isr="4")
    produce(cluster, "revived", "new", acks="all")
    cluster.act("start", 3)
    eventually(lambda: cluster.is_so("revived", Leader="4", Isr="3,4"), "3 follows")
    assert [each.value for each in read_partition(cluster.bootstrap, "revived", 0)] == [b"kept", b"new"]
    logs = [
        (cluster.process.data / f"node-{node}" / "revived-0" / f"{0:020}.log").read_bytes() for node in (3, 4)
    ]
    assert logs[0] == logs[1] != b""


def test_a_topic_of_as_many_replicas_as_nodes_is_created_while_one_is_down(cluster: Cluster) -> None:
    cluster.act("stop", 4)
    cluster.tool(
        "kafka-topics", "--create", "--topic", "wide", "--partitions", "1", "--replication-factor", "4"
    )
    assert cluster.is_so("wide", Replicas="1,2,3,4", Isr="1,2,3")
    cluster.act("start", 4)
    eventually(lambda: cluster.is_so("wide", Isr="1,2,3,4"), "4 has caught up")


def test_a_topic_that_is_deleted_while_a_node_is_down_is_gone_from_it_when_it_returns(
    cluster: Cluster,
) -> None:
    cluster.create("doomed", "2:3")
    produce(cluster, "doomed", "old", acks="all")
    directory = cluster.process.data / "node-3" / "doomed-0"
    assert directory.exists()
    cluster.act("stop", 3)
    cluster.tool("kafka-topics", "--delete", "--topic", "doomed")
    assert "doomed" not in cluster.tool("kafka-topics", "--list")
    assert directory.exists()
    cluster.create("doomed", "2:3")
    produce(cluster, "doomed", "new", acks="all")
    cluster.act("start", 3)
    eventually(lambda: cluster.is_so("doomed", Leader="2", Isr="2,3"), "3 has the new topic")
    logs = [
        (cluster.process.data / f"node-{node}" / "doomed-0" / f"{0:020}.log").read_bytes() for node in (2, 3)
    ]
    assert logs[0] == logs[1]
    assert b"new" in logs[0]
    assert b"old" not in logs[0]


def test_a_move_and_a_deletion_end_although_the_controller_s_node_is_lost(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create("travelling", "1:2")
    cluster.create("leaving", "1:4")
    produce(cluster, "travelling", "a", acks="all")
    plan = tmp_path / "plan.json"
    plan.write_text(
        '{"version":1,"partitions":[{"topic":"travelling","partition":0,"replicas":[2,4]}]}', encoding="utf-8"
    )
    words = ("--reassignment-json-file", str(plan))
    cluster.act("move-controller", 3)
    # The tool moves nothing to a node that is missed, and one that copies would be done at once.
    frozen = cluster.ask("fault.add", kind="freeze", node=4)["number"]
    cluster.tool("kafka-reassign-partitions", "--execute", *words)
    cluster.act("kill", 4)
    cluster.tool("kafka-topics", "--delete", "--topic", "leaving")
    cluster.act("kill", 3)
    assert cluster.is_so("travelling", Replicas="2,4,1")
    assert (cluster.process.data / "node-4" / "leaving-0").exists()
    cluster.ask("fault.clear", numbers=[frozen])
    cluster.act("start", 4)
    eventually(lambda: cluster.is_so("travelling", Leader="2", Replicas="2,4", Isr="2,4"), "it has moved")
    eventually(lambda: not (cluster.process.data / "node-4" / "leaving-0").exists(), "it is deleted")
    eventually(lambda: not (cluster.process.data / "node-1" / "travelling-0").exists(), "the old is gone")
    cluster.act("start", 3)
    values = [each.value for each in read_partition(cluster.bootstrap, "travelling", 0)]
    assert values == [b"a"]


def brokers(cluster: Cluster) -> set[int]:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return {node.id for node in admin.describe_cluster().result(timeout=60).nodes}


def test_a_node_that_is_unregistered_is_forgotten_until_it_comes_back(
    cluster: Cluster, kafka_tool: KafkaTools
) -> None:
    refused = kafka_tool("kafka-cluster", "unregister", "--id", "4", "--bootstrap-server", cluster.bootstrap)
    assert (refused.code, refused.output) == (1, "")
    assert "PolicyViolationException: node 4 is running: stop it first" in refused.errors
    assert brokers(cluster) == {1, 2, 3, 4}
    cluster.act("stop", 4)
    assert cluster.tool("kafka-cluster", "unregister", "--id", "4") == ["Broker 4 is no longer registered."]
    rows = cluster.tool("kafka-metadata-quorum", "describe", "--replication")[1:]
    assert sorted(row.split()[0] for row in rows) == list("123")
    cluster.act("start", 4)
    eventually(lambda: brokers(cluster) == {1, 2, 3, 4}, "4 is back")


def test_leadership_goes_back_by_itself(tmp_path: Path, kafka_tool: KafkaTools) -> None:
    cluster = Cluster(tmp_path, kafka_tool, **{"leader.imbalance.check.interval.seconds": "1"})
    try:
        cluster.create("balanced", "2:3:4")
        cluster.act("kill", 2)
        eventually(lambda: cluster.is_so("balanced", Leader="3"), "3 leads")
        cluster.act("start", 2)
        eventually(lambda: cluster.is_so("balanced", Leader="2", Isr="2,3,4"), "2 leads again")
    finally:
        assert cluster.process.stop() == 0
