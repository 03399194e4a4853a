"""Reassignments and elections: the whole output in each format, errors and exit codes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from kcli.client import admin
from kcli.client.admin import TopicPartition, TopicPartitionReplica
from kcli.commands.reassignment.cluster import replicas_of
from kcli.commands.reassignment.plan import Plan, parse_plan
from kcli.commands.reassignment.progress import wait_for_moves
from kcli.commands.reassignment.view import Copy
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.commands.conftest import Transcript
from tests.commands.fake_cluster import DEFAULTS, FakeCluster
from tests.conftest import Finished

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
    seed = "--start-index 0 --shift 0 --disable-rack-aware --strategy spread"
    transcript(
        "reassign_generate",
        "reassign-partitions generate orders --broker-list 1,2 --disable-rack-aware",
        "reassign-partitions generate orders --broker-list 1,2 --disable-rack-aware -o table",
        f"reassign-partitions generate orders --broker-list 2,1 {seed}",
        f"reassign-partitions generate --topics-to-move-json-file t.json --broker-list 1,2 {seed} -o json",
        "reassign-partitions generate orders --replication-factor 2 --disable-rack-aware",
        "reassign-partitions generate clicks --replication-factor 1 --disable-rack-aware -o table",
        "reassign-partitions generate orders --drain 1 --disable-rack-aware --plan-file made.json",
        "reassign-partitions generate clicks --broker-list 1,2 --disable-rack-aware",
    )
    assert parse_plan(Path("made.json").read_text(), "made.json").replicas == {
        TopicPartition("orders", index): (2,) for index in (0, 1)
    }


def test_partitions_of_a_topic_keep_their_different_numbers_of_replicas(
    moves: FakeCluster, transcript: Transcript
) -> None:
    moves.more_nodes = tuple(admin.ClusterNode(node_id, "more.example", 9092) for node_id in (4, 5))
    moves.add("uneven", [1, 2], [4, 5, 1])
    spread = "--strategy spread --start-index 0 --shift 0 --disable-rack-aware"
    transcript(
        "reassign_generate_uneven",
        "reassign-partitions generate --drain 5 --disable-rack-aware",
        "reassign-partitions generate uneven --drain 4,5 --disable-rack-aware",
        "reassign-partitions generate uneven --broker-list 1,2,4 --disable-rack-aware",
        f"reassign-partitions generate uneven --broker-list 1,2 {spread}",
        f"reassign-partitions generate uneven --broker-list 1,2 --replication-factor 2 {spread}",
    )


def test_plans_that_cannot_be_proposed(moves: FakeCluster, transcript: Transcript) -> None:
    Path("there.json").touch()
    transcript(
        "reassign_generate_refused",
        "reassign-partitions generate orders --broker-list 1,2",
        "reassign-partitions generate clicks --broker-list 1",
        "reassign-partitions generate --drain 1 --disable-rack-aware",
        "reassign-partitions generate --drain 9",
        "reassign-partitions generate orders --broker-list 1,9",
        "reassign-partitions generate orders --broker-list 1,3",
        "reassign-partitions generate orders --broker-list 1,1",
        "reassign-partitions generate orders --broker-list one",
        "reassign-partitions generate orders orders --broker-list 1",
        "reassign-partitions generate orders --all-topics --broker-list 1",
        "reassign-partitions generate orders",
        "reassign-partitions generate --broker-list 1",
        "reassign-partitions generate orders --broker-list 1 --plan-file there.json",
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
    Path("gone.json").write_text('{"partitions":[{"topic":"gone","partition":0,"replicas":[1]}]}')
    transcript(
        "reassign_verify",
        "reassign-partitions verify plan.json",
        "reassign-partitions verify plan.json -o json",
        "reassign-partitions verify gone.json",
    )
    assert moves.topics["orders"].configs == {}
    assert moves.broker_configs["2"] == {}


def test_execute_waits_until_all_is_done(moves: FakeCluster, transcript: Transcript) -> None:
    moves.looks_left = 2
    transcript(
        "reassign_wait",
        "reassign-partitions execute plan.json --throttle 5000 --wait --rollback-file back.json",
        "reassign-partitions execute plan.json --rollback-file back.json",
    )
    assert moves.broker_configs["1"] == moves.topics["orders"].configs == {}
    back = parse_plan(Path("back.json").read_text(), "back.json")
    assert back.replicas == {TopicPartition("orders", 0): (1,), TopicPartition("orders", 1): (1,)}
    moves.looks_left = 2
    transcript("reassign_wait_json", "reassign-partitions execute back.json --wait -o json")


def test_a_broker_that_hears_of_the_end_later_is_asked_again(
    moves: FakeCluster, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {TopicPartition("orders", index): (1,) for index in (0, 1)}
    late = [before, before]

    async def hears_later(*arguments: Any, **options: Any) -> Any:
        return late.pop() if late and not moves.moving else await replicas_of(*arguments, **options)

    monkeypatch.setattr("kcli.commands.reassignment.execution.replicas_of", hears_later)
    for verb in ("execute", "verify"):
        moves.looks_left = 2
        finished = kcli("reassign-partitions", verb, "plan.json", "--wait")
        assert finished.exit_code == 0, finished
        assert "Reassignment of partition orders-1 is completed." in finished.out
        assert not late
        late.append(before)


def test_an_interrupt_removes_throttles_and_says_what_goes_on(
    moves: FakeCluster, transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        await trio.sleep_forever()

    monkeypatch.setattr("kcli.commands.reassignment.progress.wait_for_moves", interrupted)
    transcript("reassign_interrupted", "reassign-partitions execute plan.json --throttle 5000 --wait")
    assert moves.broker_configs["1"] == moves.topics["orders"].configs == {}
    assert len(moves.moving) == 2


def test_the_next_run_removes_throttles_that_were_left(moves: FakeCluster, transcript: Transcript) -> None:
    moves.broker_configs["2"] = {THROTTLES[2]: "5000"}
    moves.topics["clicks"].configs = {THROTTLES[0]: "0:1"}
    moves.looks_left = 2
    transcript("reassign_leftovers", "reassign-partitions execute plan.json --wait")
    assert moves.broker_configs["2"] == moves.topics["clicks"].configs == {}


def test_throttles_for_good_are_nobodys_leftovers(moves: FakeCluster, kcli: Callable[..., Finished]) -> None:
    moves.broker_configs["2"] = {THROTTLES[2]: "5000"}
    moves.topics["clicks"].configs = {THROTTLES[0]: "*"}
    assert kcli("reassign-partitions", "execute", "plan.json").exit_code == 0
    assert moves.broker_configs["2"] == {THROTTLES[2]: "5000"}
    assert moves.topics["clicks"].configs == {THROTTLES[0]: "*"}


async def test_progress_is_told_every_ten_seconds(
    moves: FakeCluster, autojump_clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan({TopicPartition("orders", index): (2,) for index in (0, 1)})
    current = dict.fromkeys(plan.replicas, (1,))
    await moves.alter_partition_reassignments(None, plan.replicas)
    moves.looks_left = 25
    copies = [Copy(TopicPartitionReplica("orders", index, 2), 100 * (index + 1)) for index in (0, 1)]
    await wait_for_moves(None, plan, current, copies)  # type: ignore[arg-type]
    line = "2 partitions on the move, 0 B of 300 B, 0 B/s\n"
    assert capsys.readouterr().err == 2 * line


def test_a_plan_is_cancelled(moves: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "reassign_cancel",
        "reassign-partitions execute plan.json",
        "reassign-partitions cancel plan.json",
        "reassign-partitions cancel plan.json --preserve-throttles",
    )


def test_plans_that_are_refused(moves: FakeCluster, transcript: Transcript) -> None:
    for name, index, broker in (("partition", 7, 1), ("broker", 0, 9), ("down", 0, 3)):
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
        "reassign-partitions execute down.json",
        *(f"reassign-partitions execute {name}.json" for name in ("partition", "broker", "version", "empty")),
        "reassign-partitions execute plan.json --throttle 5000",
    )
    assert moves.topics["orders"].configs == {}, "throttles that were set for nothing are removed"
    assert moves.broker_configs["1"] == {}


def test_leaders_are_elected(
    cluster: FakeCluster, transcript: Transcript, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.add("orders", [1, 2], [2, 1])
    cluster.add("clicks", [1])
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
        "preferred-replica-election --topic orders --partition 0 --election-type UNCLEAN -o json",
        "preferred-replica-election orders:0 --admin.config nothing.properties",
        "preferred-replica-election --path-to-json-file some.json",
        "preferred-replica-election --path-to-json-file twice.json",
        "preferred-replica-election --path-to-json-file nothing.json",
        "preferred-replica-election orders:0 --all-topic-partitions",
        "preferred-replica-election orders",
        "preferred-replica-election orders clicks:0 -o json",
        "preferred-replica-election orders orders:1",
        "preferred-replica-election orders orders",
        "preferred-replica-election others",
        "preferred-replica-election orders:first",
        "preferred-replica-election orders:0 orders:0",
        "preferred-replica-election --topic orders",
    )
