"""Plans: files as Kafka's tools write them, what is refused in them, what they mean beside the cluster."""

from __future__ import annotations

import pytest

from kcli.assignors.replica_placer import Candidate
from kcli.client.admin import PartitionReassignment
from kcli.client.metadata import TopicPartition
from kcli.commands.reassignment_moves import (
    Move,
    compare,
    follower_throttles,
    leader_throttles,
    moves_of,
    moving_brokers,
    propose,
)
from kcli.commands.reassignment_plan import (
    parse_brokers,
    parse_election,
    parse_plan,
    parse_topics,
    plan_json,
)
from kcli.commands.reassignment_view import cleared_lines
from kcli.errors import KcliError, UsageError

FOO0, FOO1, FOO10, BAR0 = (
    TopicPartition(*each) for each in (("foo", 0), ("foo", 1), ("foo", 10), ("bar", 0))
)
WRITTEN_BY_KAFKA = (
    '{"version":1,"partitions":[{"topic":"bar","partition":0,"replicas":[3],"log_dirs":["any"]},'
    '{"topic":"foo","partition":1,"replicas":[1,2],"log_dirs":["any","any"]}]}'
)


def test_a_plan_of_kafka_is_read_and_written_alike() -> None:
    plan = parse_plan(WRITTEN_BY_KAFKA, "plan.json")
    assert plan == {BAR0: (3,), FOO1: (1, 2)}
    assert plan_json({FOO1: (1, 2), BAR0: (3,)}) == WRITTEN_BY_KAFKA


def test_version_and_log_directories_may_be_missing() -> None:
    assert parse_plan('{"partitions":[{"topic":"foo","partition":0,"replicas":[2,1]}]}', "p") == {
        FOO0: (2, 1)
    }
    assert parse_topics('{"topics":[{"topic":"foo"},{"topic":"bar"}]}', "t") == ["foo", "bar"]
    assert parse_election('{"partitions":[{"topic":"foo","partition":1}]}', "e") == [FOO1]


def entry(fields: str) -> str:
    return '{"partitions":[{"topic":"foo","partition":0,' + fields + "}]}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "`p` is not JSON"),
        ("[]", "`p` holds no list of `partitions`"),
        ('{"version":2,"partitions":[]}', "`p` has a version that is not known: 2"),
        ('{"version":"1","partitions":[]}', '`p` has a version that is not known: "1"'),
        ('{"version":true,"partitions":[]}', "`p` has a version that is not known: true"),
        ('{"version":1}', "`p` holds no list of `partitions`"),
        ('{"partitions":[]}', "`p` holds an empty list of `partitions`"),
        ('{"partitions":[1]}', "`p` holds an entry without topic and partition"),
        ('{"partitions":[{"topic":"foo","replicas":[1]}]}', "`p` holds an entry without topic and partition"),
        ('{"partitions":[{"topic":"foo","partition":-1}]}', "`p` holds an entry without topic and partition"),
        (entry('"replicas":1'), "`p` has no replicas for foo-0"),
        (entry('"replicas":[true]'), "`p` has no replicas for foo-0"),
        (entry('"replicas":["1"]'), "`p` has no replicas for foo-0"),
        (entry('"replicas":[-1]'), "`p` has no replicas for foo-0"),
        (entry('"replicas":[]'), "`p` has an empty list of replicas for foo-0"),
        (entry('"replicas":[1,2,1]'), "`p` names a broker twice for foo-0: 1"),
        (entry('"replicas":[1,2],"log_dirs":["any"]'), "not as many log directories as replicas for foo-0"),
        (entry('"replicas":[1],"log_dirs":["/d"]'), "`p` names a log directory for foo-0: /d"),
        (
            '{"partitions":[{"topic":"foo","partition":0,"replicas":[1]},'
            '{"topic":"foo","partition":0,"replicas":[2]}]}',
            "`p` names a partition twice: foo-0",
        ),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_plan(text, "p")
    assert complaint in refused.value.message


@pytest.mark.parametrize("text", ["", "1,,2", "one", "1,2,1"])
def test_a_list_of_brokers_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="--broker-list"):
        parse_brokers(text)


def test_the_order_of_replicas_counts() -> None:
    plan = {FOO0: (1, 2), FOO1: (1, 2), FOO10: (2, 3), BAR0: (1,)}
    current = {FOO0: (1, 2), FOO1: (2, 1), FOO10: (9,)}
    moving = {FOO10: PartitionReassignment((2, 3, 1), (3,), (1,))}
    assert [state.line() for state in compare(plan, current, moving)] == [
        "There is no active reassignment of partition bar-0, but replica set is  rather than 1.",
        "Reassignment of partition foo-0 is completed.",
        "There is no active reassignment of partition foo-1, but replica set is 2,1 rather than 1,2.",
        "Reassignment of partition foo-10 is still in progress.",
    ]


def test_a_proposal_keeps_the_number_of_partitions_and_of_replicas() -> None:
    current = {TopicPartition("t", index): (9, 8, 7) for index in range(10)} | {BAR0: (9,)}
    brokers = [Candidate(node_id) for node_id in range(5)]
    proposed = propose(current, brokers, start_index=2, shift=1)
    placed = [proposed[TopicPartition("t", index)] for index in range(10)]
    digits = " ".join("".join(map(str, replicas)) for replicas in placed)
    assert digits == "240 301 412 023 134 201 312 423 034 140"
    assert proposed[BAR0] == (2,)


@pytest.mark.parametrize(
    ("candidates", "complaint"),
    [
        ([Candidate(1)], "topic `foo` has 2 replicas, but only 1 brokers are given"),
        ([Candidate(1, "a"), Candidate(2)], "not all brokers have a rack: 2"),
    ],
)
def test_what_cannot_be_proposed(candidates: list[Candidate], complaint: str) -> None:
    with pytest.raises(KcliError) as refused:
        propose({FOO0: (1, 2)}, candidates, start_index=0, shift=0)
    assert refused.value.message == complaint


def test_throttles_are_of_the_sources_and_of_the_destinations() -> None:
    moving = {FOO1: PartitionReassignment((4, 1, 2), (4,), (1,))}
    moves = moves_of({FOO10: (2, 3), FOO1: (5, 2)}, {FOO10: (1, 2), FOO1: (4, 1, 2)}, moving)
    assert moves == {
        FOO1: Move(frozenset({1, 2}), frozenset({5})),
        FOO10: Move(frozenset({1, 2}), frozenset({3})),
    }
    assert leader_throttles(moves) == {"foo": "10:1,10:2,1:1,1:2"}
    assert follower_throttles(moves) == {"foo": "10:3,1:5"}
    assert moving_brokers(moves) == [1, 2, 3, 5]


def test_sets_are_listed_as_java_does() -> None:
    assert cleared_lines([17, 2, 1], ["foo"]) == [
        "Clearing broker-level throttles on brokers 1,17,2",
        "Clearing topic-level throttles on topic foo",
    ]
