"""Plans: files of Kafka's tools, refused files, and the state of a cluster beside a plan."""

from __future__ import annotations

import pytest

from kcli.client.admin import PartitionReassignment, ReplicaPlace, TopicPartitionReplica
from kcli.commands.reassignment.plan import (
    MoveMap,
    PartitionMove,
    Plan,
    parse_brokers,
    parse_election,
    parse_plan,
    parse_topics,
    plan_json,
)
from kcli.commands.reassignment.view import Copy, cleared_lines
from kcli.errors import UsageError
from kcli.protocol.topics import TopicPartition

FOO0, FOO1, FOO10, BAR0 = (
    TopicPartition(*each) for each in (("foo", 0), ("foo", 1), ("foo", 10), ("bar", 0))
)
WRITTEN_BY_KAFKA = (
    '{"version":1,"partitions":[{"topic":"bar","partition":0,"replicas":[3],"log_dirs":["any"]},'
    '{"topic":"foo","partition":1,"replicas":[1,2],"log_dirs":["any","any"]}]}'
)


def test_a_plan_of_kafka_is_read_and_written_alike() -> None:
    plan = parse_plan(WRITTEN_BY_KAFKA, "plan.json")
    assert plan == Plan({BAR0: (3,), FOO1: (1, 2)})
    assert plan_json({FOO1: (1, 2), BAR0: (3,)}) == WRITTEN_BY_KAFKA


def test_log_directories_are_read_and_written() -> None:
    first, second = TopicPartitionReplica("foo", 0, 1), TopicPartitionReplica("foo", 0, 2)
    text = plan_json({FOO0: (1, 2)}, {first: ReplicaPlace("/d1"), second: ReplicaPlace(None, 0, "/d2")})
    assert '"log_dirs":["/d1","any"]' in text
    assert parse_plan(text, "p") == Plan({FOO0: (1, 2)}, {first: "/d1"})


def test_the_document_of_a_proposal_stands_for_its_plan() -> None:
    document = '{"current":{"version":1,"partitions":[]},"proposed":' + WRITTEN_BY_KAFKA + "}"
    assert parse_plan(document, "p") == parse_plan(WRITTEN_BY_KAFKA, "p")


def test_version_and_log_directories_may_be_missing() -> None:
    assert parse_plan('{"partitions":[{"topic":"foo","partition":0,"replicas":[2,1]}]}', "p") == Plan(
        {FOO0: (2, 1)}
    )
    assert parse_topics('{"topics":[{"topic":"foo"},{"topic":"bar"}]}', "t") == ["foo", "bar"]
    assert parse_election('{"partitions":[{"topic":"foo","partition":1}]}', "e") == [FOO1]


def entry(fields: str) -> str:
    return '{"partitions":[{"topic":"foo","partition":0,' + fields + "}]}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "`p` is not JSON"),
        ("[" * 100_000, "`p` is nested too deeply"),
        (entry('"replicas":[1]').replace("foo", "\\ud800"), '`p` names a topic that cannot exist: "\\ud800"'),
        ("[]", "`p` holds no list of `partitions`"),
        ('{"version":2,"partitions":[]}', "`p` has an unknown version: 2"),
        ('{"version":"1","partitions":[]}', '`p` has an unknown version: "1"'),
        ('{"version":true,"partitions":[]}', "`p` has an unknown version: true"),
        ('{"version":1}', "`p` holds no list of `partitions`"),
        ('{"partitions":[]}', "`p` holds an empty list of `partitions`"),
        ('{"partitions":[1]}', "`p`, entry 1: it must be an object, not 1"),
        ('{"partitions":[{"topic":"foo","replicas":[1]}]}', "`p`, entry 1: `partition` is missing"),
        ('{"partitions":[{"partition":0,"replicas":[1]}]}', "`p`, entry 1: `topic` is missing"),
        ('{"partitions":[{"topic":"","partition":0}]}', "`p`, entry 1: `topic` is empty"),
        ('{"partitions":[{"topic":7,"partition":0}]}', "`p`, entry 1: `topic` must be a name, not 7"),
        (
            '{"partitions":[{"topic":"mv","partition":"0","replicas":[2,3]}]}',
            '`p`, entry 1: `partition` must be a number, not "0"',
        ),
        (
            '{"partitions":[{"topic":"foo","partition":-1}]}',
            "`p`, entry 1: `partition` must be from 0 to 2147483647, not -1",
        ),
        (
            '{"partitions":[{"topic":"foo","partition":0,"replicas":[1]},{"topic":"bar"}]}',
            "`p`, entry 2: `partition` is missing",
        ),
        ('{"partitions":[{"topic":"foo","partition":0}]}', "`p`, entry 1: `replicas` is missing"),
        (entry('"replicas":1'), "`p`, entry 1: `replicas` must be a list, not 1"),
        (entry('"replicas":[true]'), "`p`, entry 1: `replicas` must hold ids of brokers, not true"),
        (entry('"replicas":["1"]'), '`p`, entry 1: `replicas` must hold ids of brokers, not "1"'),
        (entry('"replicas":[-1]'), "`p`, entry 1: `replicas` must hold ids of brokers, not -1"),
        (entry('"replicas":[]'), "`p`, entry 1: `replicas` is empty"),
        (entry('"replicas":[1,2,1]'), "`p` names a broker twice for foo-0: 1"),
        (
            entry('"replicas":[1,2],"log_dirs":["any"]'),
            "`p`, entry 1: `log_dirs` must be as long as `replicas`: 1 and 2",
        ),
        (
            entry('"replicas":[1],"log_dirs":["d"]'),
            '`p`, entry 1: `log_dirs` must hold absolute paths or "any", not "d"',
        ),
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


def test_an_empty_value_is_shown_behind_the_colon() -> None:
    with pytest.raises(UsageError) as refused:
        parse_brokers("", "--broker-list")
    assert refused.value.message == "`--broker-list` needs ids separated by commas: ''"


@pytest.mark.parametrize("text", ["", "1,,2", "one", "1,2,1"])
def test_a_list_of_brokers_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="--broker-list"):
        parse_brokers(text, "--broker-list")


def test_the_order_of_replicas_counts() -> None:
    plan = {FOO0: (1, 2), FOO1: (1, 2), FOO10: (2, 3), BAR0: (1,)}
    current = {FOO0: (1, 2), FOO1: (2, 1), FOO10: (9,)}
    moving = {FOO10: PartitionReassignment((2, 3, 1), (3,), (1,))}
    assert [state.line() for state in Plan(plan).states(current, moving)] == [
        "There is no active reassignment of partition bar-0, but replica set is  rather than 1.",
        "Reassignment of partition foo-0 is completed.",
        "There is no active reassignment of partition foo-1, but replica set is 2,1 rather than 1,2.",
        "Reassignment of partition foo-10 is still in progress.",
    ]


def test_throttles_are_of_the_sources_and_of_the_destinations() -> None:
    moving = {FOO1: PartitionReassignment((4, 1, 2), (4,), (1,))}
    moves = MoveMap.proposed({FOO10: (2, 3), FOO1: (5, 2)}, {FOO10: (1, 2), FOO1: (4, 1, 2)}, moving)
    assert moves.moves == {
        FOO1: PartitionMove(frozenset({1, 2}), frozenset({5})),
        FOO10: PartitionMove(frozenset({1, 2}), frozenset({3})),
    }
    assert moves.leader_throttles() == {"foo": "10:1,10:2,1:1,1:2"}
    assert moves.follower_throttles() == {"foo": "10:3,1:5"}
    assert moves.brokers() == [1, 2, 3, 5]


def test_what_is_copied_is_as_large_as_the_largest_replica() -> None:
    places = {
        TopicPartitionReplica("foo", 0, 1): ReplicaPlace("/d1", 500),
        TopicPartitionReplica("foo", 0, 2): ReplicaPlace("/d1", 700),
    }
    plan = Plan(
        {FOO0: (4, 3, 1), FOO1: (1, 2), BAR0: (2,)},
        {TopicPartitionReplica("foo", 0, 1): "/d2", TopicPartitionReplica("foo", 0, 4): "/d2"},
    )
    assert plan.copies({FOO0: (1, 2), FOO1: (2, 1), BAR0: (1,)}, places) == [
        Copy(TopicPartitionReplica("bar", 0, 2), None),
        Copy(TopicPartitionReplica("foo", 0, 1), 500, "/d2"),
        Copy(TopicPartitionReplica("foo", 0, 3), 700),
        Copy(TopicPartitionReplica("foo", 0, 4), 700, "/d2"),
    ]


def test_log_directories_beside_the_plan() -> None:
    replicas = [TopicPartitionReplica("foo", 0, broker) for broker in range(1, 6)]
    places = dict(
        zip(
            replicas,
            [
                ReplicaPlace("/d2"),
                ReplicaPlace("/d1"),
                ReplicaPlace("/d1", 0, "/d2"),
                ReplicaPlace("/d1", 0, "/d3"),
                ReplicaPlace(),
            ],
            strict=True,
        )
    )
    states = Plan({FOO0: (1, 2, 3, 4, 5)}, dict.fromkeys(replicas, "/d2")).log_dir_states(places)
    assert [state.line() for state in states] == [
        "Reassignment of replica foo-0-1 completed successfully.",
        "Partition foo-0 on broker 2 is not being moved from log dir /d1 to /d2.",
        "Reassignment of replica foo-0-3 is still in progress.",
        "Partition foo-0 on broker 4 is being moved to log dir /d3 instead of /d2.",
        "Partition foo-0 is not found in any live log dir on broker 5. "
        "There is likely an offline log directory on the broker.",
    ]


def test_sets_are_listed_as_java_does() -> None:
    assert cleared_lines([17, 2, 1], ["foo"]) == [
        "Clearing broker-level throttles on brokers 1,17,2",
        "Clearing topic-level throttles on topic foo",
    ]
