"""Elections on demand: who is elected, and why not."""

from __future__ import annotations

import pytest

from kcli.broker.controller.election_control import ElectionType, elect_leaders, elect_unclean, rebalance
from kcli.broker.controller.partition_change import PartitionDecisions
from kcli.broker.metadata.metadata_image import MetadataImage
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.metadata_records import PartitionChangeRecord
from tests.support.metadata import broker, image_of, topic_id, with_topic

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def cluster(isr: list[int], leader: int, down: str) -> MetadataImage:
    brokers = [broker(node_id, fenced=str(node_id) in down) for node_id in (1, 2, 3)]
    image = with_topic(image_of(*brokers), "a", 1, [1, 2, 3])
    change = PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, isr=isr, leader=leader)
    return apply(image, [change])[0]


@pytest.mark.parametrize(
    ("isr", "leader", "down", "type", "expected"),
    [
        ([1, 2, 3], 2, "", PREFERRED, 1),
        ([1, 2, 3], 1, "", PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        ([2, 3], 2, "1", PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ([2, 3], 2, "", PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ([1], -1, "1", UNCLEAN, 2),
        ([1], -1, "123", UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        ([1, 2], 2, "", UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        ([1], -1, "", UNCLEAN, 1),
    ],
)
def test_an_election(
    isr: list[int], leader: int, down: str, type: ElectionType, expected: int | ErrorCode
) -> None:
    image = cluster(isr, leader, down)
    result = elect_leaders(PartitionDecisions(image, {}), [("a", 0)], type=type)
    (error,) = result.response
    if isinstance(expected, ErrorCode):
        assert error is not None
        assert (error.code, result.records) == (expected, ())
    else:
        assert error is None
        after = apply(image, result.records)[0].topics["a"].partitions[0]
        assert (after.leader, after.leader_epoch) == (expected, 2)
        assert after.leader in after.isr


def test_an_unclean_leader_is_alone_in_sync_and_recovers() -> None:
    image = cluster([1], -1, "1")
    result = elect_leaders(PartitionDecisions(image, {}), [("a", 0)], type=UNCLEAN)
    (record,) = result.records
    assert record == PartitionChangeRecord(
        topic_id=topic_id(1), partition_id=0, leader=2, isr=[2], leader_recovery_state=1
    )


def test_a_partition_named_twice_is_elected_once_and_unknown_ones_fail_alone() -> None:
    image = cluster([1, 2, 3], 2, "")
    wanted = [("b", 0), ("a", 7), ("a", 0), ("a", 0)]
    result = elect_leaders(PartitionDecisions(image, {}), wanted, type=PREFERRED)
    codes = [None if error is None else error.code for error in result.response]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [unknown, unknown, None, ErrorCode.ELECTION_NOT_NEEDED]
    assert len(result.records) == 1


def balanced(image: MetadataImage, **options: int) -> tuple[list[int], bool]:
    """Return the leaders of topic `a` after a pass that balances, and whether it left something."""
    result = rebalance(PartitionDecisions(image, {}), **options)
    topic = apply(image, result.records)[0].topics["a"]
    return [partition.leader for partition in topic.partitions], result.response


def led_by(leaders: list[int], replicas: list[list[int]], *, down: str = "") -> MetadataImage:
    brokers = [broker(node_id, fenced=str(node_id) in down) for node_id in (1, 2, 3)]
    image = with_topic(image_of(*brokers), "a", 1, *replicas)
    changes = [
        PartitionChangeRecord(topic_id=topic_id(1), partition_id=index, leader=leader)
        for index, leader in enumerate(leaders)
    ]
    return apply(image, changes)[0]


def test_leadership_goes_back_to_preferred_replicas_that_are_there() -> None:
    image = led_by([2, 1, 1], [[1, 2], [2, 1], [3, 1]], down="3")
    assert balanced(image) == ([1, 2, 1], False)


@pytest.mark.parametrize(
    ("astray", "percentage", "expected"),
    [(4, 79, 0), (4, 80, 4), (1, 20, 1), (1, 19, 0), (1, 0, 0), (5, 100, 5), (0, 0, 0)],
)
def test_a_broker_gets_leadership_back_above_a_threshold_only(
    astray: int, percentage: int, expected: int
) -> None:
    leaders = [2] * astray + [1] * (5 - astray)
    image = led_by(leaders, [[1, 2]] * 5)
    assert balanced(image, percentage=percentage) == ([2] * expected + [1] * (5 - expected), False)


def test_each_broker_has_a_threshold_of_its_own() -> None:
    image = led_by([2, 1, 1, 1], [[1, 2], [1, 2], [2, 1], [2, 1]])
    assert balanced(image, percentage=50) == ([2, 1, 2, 2], False)


def test_a_pass_has_an_end_and_says_so() -> None:
    image = led_by([2] * 5, [[1, 2]] * 5)
    assert balanced(image, limit=3) == ([1, 1, 1, 2, 2], True)
    assert balanced(image, limit=5) == ([1] * 5, False)


def test_partitions_without_a_leader_get_one_where_losing_records_is_allowed() -> None:
    image = cluster([1], -1, "1")
    assert elect_unclean(PartitionDecisions(image, {})).records == ()
    allowed = PartitionDecisions(image, {"unclean.leader.election.enable": True})
    (record,) = elect_unclean(allowed).records
    assert record == PartitionChangeRecord(
        topic_id=topic_id(1), partition_id=0, leader=2, isr=[2], leader_recovery_state=1
    )
    assert elect_unclean(allowed, limit=0).response


def test_an_election_that_could_choose_nobody_changes_nothing() -> None:
    image = cluster([1], -1, "123")
    allowed = PartitionDecisions(image, {"unclean.leader.election.enable": True})
    assert elect_unclean(allowed).records == ()
