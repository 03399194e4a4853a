"""Elections on demand: who is elected, and why not."""

from __future__ import annotations

import pytest

from kcli.broker.controller.election_control import ElectionType, elect_leaders
from kcli.broker.controller.partition_decisions import PartitionDecisions
from kcli.broker.metadata_image import MetadataImage
from kcli.broker.metadata_replay import apply
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.metadata_records import PartitionChangeRecord
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
