"""Reassignments and elections, whole: output in each format, errors and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.client import admin
from kcli.client.admin import TopicPartition
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.commands.conftest import Transcript
from tests.commands.fake_cluster import DEFAULTS, FakeCluster

THROTTLES = (
    *("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"),
    *("leader.replication.throttled.rate", "follower.replication.throttled.rate"),
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


@pytest.fixture
def moves(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCluster:
    """A cluster of two brokers with two topics, where partitions move; the working directory is empty."""
    for name in THROTTLES:
        monkeypatch.setitem(DEFAULTS, name, "")
    cluster.add("orders", [1], [1], [2])
    cluster.add("clicks", [1, 2])
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(
        '{"partitions":[{"topic":"orders","partition":0,"replicas":[2]},'
        '{"topic":"orders","partition":1,"replicas":[2,1]}]}'
    )
    return cluster


def test_a_plan_is_proposed(moves: FakeCluster, transcript: Transcript) -> None:
    Path("t.json").write_text('{"version":1,"topics":[{"topic":"clicks"}]}')
    seed = "--start-index 0 --shift 0 --disable-rack-aware"
    transcript(
        "reassign_generate",
        f"reassign-partitions generate orders --broker-list 2,1 {seed}",
        f"reassign-partitions generate --topics-to-move-json-file t.json --broker-list 1,2 {seed} -o json",
        "reassign-partitions generate orders --broker-list 1,2",
        f"reassign-partitions generate clicks --broker-list 1 {seed}",
        "reassign-partitions generate orders --broker-list 1,9",
        "reassign-partitions generate orders --broker-list 1,1",
        "reassign-partitions generate orders orders --broker-list 1",
        "reassign-partitions generate orders",
        "reassign-partitions generate --broker-list 1",
        "reassign-partitions generate --topics-to-move-json-file nothing.json --broker-list 1",
    )


def test_a_plan_is_carried_out(moves: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "reassign_execute",
        "reassign-partitions list",
        "reassign-partitions verify plan.json --preserve-throttles",
        "reassign-partitions execute plan.json --throttle 5000",
        "reassign-partitions list",
        "reassign-partitions list -o table",
        "reassign-partitions verify --reassignment-json-file plan.json -o table",
        "reassign-partitions execute plan.json",
        "reassign-partitions execute plan.json --additional -o json",
    )
    assert moves.topics["orders"].configs == {THROTTLES[0]: "0:1,1:1", THROTTLES[1]: "0:2,1:2"}
    assert moves.broker_configs["2"] == dict.fromkeys(THROTTLES[2:4], "5000")
    moves._finish_moves()
    transcript(
        "reassign_verify",
        "reassign-partitions verify plan.json",
        "reassign-partitions verify plan.json -o json",
    )
    assert moves.topics["orders"].configs == {}
    assert moves.broker_configs["2"] == {}


def test_a_plan_is_cancelled(moves: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "reassign_cancel",
        "reassign-partitions execute plan.json",
        "reassign-partitions cancel plan.json",
        "reassign-partitions cancel plan.json --preserve-throttles",
    )


def test_plans_that_are_refused(moves: FakeCluster, transcript: Transcript) -> None:
    for name, index, broker in (("partition", 7, 1), ("broker", 0, 9)):
        Path(f"{name}.json").write_text(
            f'{{"partitions":[{{"topic":"orders","partition":{index},"replicas":[{broker}]}}]}}'
        )
    Path("version.json").write_text('{"version":2,"partitions":[]}')
    Path("empty.json").write_text('{"partitions":[]}')
    moves.refused = {
        TopicPartition("orders", index): KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 2 is down.")
        for index in (0, 1)
    }
    transcript(
        "reassign_refused",
        "reassign-partitions execute",
        "reassign-partitions execute nothing.json",
        "reassign-partitions execute plan.json --throttle 0",
        "reassign-partitions execute plan.json --reassignment-json-file plan.json",
        *(f"reassign-partitions execute {name}.json" for name in ("partition", "broker", "version", "empty")),
        "reassign-partitions execute plan.json --throttle 5000",
    )
    assert moves.topics["orders"].configs == {}, "throttles that were set for nothing are removed"
    assert moves.broker_configs["1"] == {}


def test_leaders_are_elected(
    cluster: FakeCluster, transcript: Transcript, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    codes = {0: ErrorCode.NONE, 1: ErrorCode.ELECTION_NOT_NEEDED, 2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}

    async def elect(
        client: object, kind: admin.ElectionType, partitions: list[TopicPartition] | None
    ) -> dict[TopicPartition, KafkaError | None]:
        wanted = [TopicPartition("orders", 0)] if partitions is None else partitions
        return {each: KafkaError(codes[each.partition]) if codes[each.partition] else None for each in wanted}

    monkeypatch.setattr("kcli.client.admin.elect_leaders", elect)
    monkeypatch.chdir(tmp_path)
    Path("some.json").write_text('{"partitions":[{"topic":"orders","partition":1}]}')
    Path("twice.json").write_text(
        '{"partitions":[{"topic":"orders","partition":1},{"topic":"orders","partition":1}]}'
    )
    transcript(
        "preferred_replica_election",
        "preferred-replica-election",
        "preferred-replica-election orders:0 orders:1 orders:2",
        "preferred-replica-election orders:0 orders:1 orders:2 -o table",
        "preferred-replica-election --topic orders --partition 0 --election-type unclean -o json",
        "preferred-replica-election --path-to-json-file some.json",
        "preferred-replica-election --path-to-json-file twice.json",
        "preferred-replica-election --path-to-json-file nothing.json",
        "preferred-replica-election orders:0 --all-topic-partitions",
        "preferred-replica-election orders",
        "preferred-replica-election orders:0 orders:0",
        "preferred-replica-election --topic orders",
    )
