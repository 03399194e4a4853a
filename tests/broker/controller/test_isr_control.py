"""AlterPartition: every check in its order, and the change that takes leadership from who asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcli.broker.controller.isr_control import alter_partition
from kcli.broker.controller.partition_change import PartitionDecisions
from kcli.broker.metadata.metadata_image import MetadataImage
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.metadata_records import PartitionChangeRecord
from kcli.protocol.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tests.support.metadata import broker, image_of, topic_id, with_topic


def cluster(**change: Any) -> MetadataImage:
    """Return brokers 1 to 3 that are there, 4 fenced, 5 shutting down; 1 leads, both epochs are 1."""
    brokers = [broker(1), broker(2), broker(3), broker(4, fenced=True)]
    brokers.append(replace(broker(5), in_controlled_shutdown=True))
    image = with_topic(image_of(*brokers), "a", 1, [1, 2, 3, 4, 5, 6])
    fields: dict[str, Any] = {"isr": [1, 2], "leader": 1, **change}
    return apply(image, [PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, **fields)])[0]


def ask(
    image: MetadataImage,
    isr: list[int],
    *,
    sender: int = 1,
    partition: int = 0,
    leader_epoch: int = 1,
    partition_epoch: int = 1,
    state: int = 0,
    epochs: dict[int, int] | None = None,
) -> tuple[AlteredPartition, tuple[Any, ...]]:
    data = PartitionData(
        partition_index=partition,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        leader_recovery_state=state,
        new_isr_with_epochs=[
            BrokerState(broker_id=each, broker_epoch=(epochs or {}).get(each, -1)) for each in isr
        ],
    )
    request = AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=sender * 100,
        topics=[TopicData(topic_id=topic_id(1), partitions=[data])],
    )
    result = alter_partition(PartitionDecisions(image, {}), request)
    return result.response.topics[0].partitions[0], result.records


@pytest.mark.parametrize(
    ("isr", "given", "expected"),
    [
        # Each row is wrong in everything that is checked after it, too.
        ([9], {"partition": 7, "leader_epoch": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([9], {"leader_epoch": 2, "sender": 2}, ErrorCode.NOT_CONTROLLER),
        ([9], {"partition_epoch": 2, "leader_epoch": 0}, ErrorCode.NOT_CONTROLLER),
        ([9], {"leader_epoch": 0, "sender": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ([9], {"sender": 2, "partition_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ([9], {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 9], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1, 4], {}, ErrorCode.INVALID_REQUEST),
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([2, 4], {}, ErrorCode.INVALID_REQUEST),
        ([1, 4], {"state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"state": 2}, ErrorCode.INVALID_REQUEST),
        ([1, 6], {}, ErrorCode.INELIGIBLE_REPLICA),
        ([1, 4], {}, ErrorCode.INELIGIBLE_REPLICA),
        ([1, 5], {}, ErrorCode.INELIGIBLE_REPLICA),
        ([1, 3], {"epochs": {3: 299}}, ErrorCode.INELIGIBLE_REPLICA),
        ([1, 3], {"epochs": {3: 300}}, ErrorCode.NONE),
        ([1], {}, ErrorCode.NONE),
        ([1, 2], {}, ErrorCode.NONE),
    ],
)
def test_the_checks_in_their_order(isr: list[int], given: dict[str, Any], expected: ErrorCode) -> None:
    answer, records = ask(cluster(), isr, **given)
    assert answer.error_code == expected
    if expected is not ErrorCode.NONE:
        assert records == ()
    else:
        assert (answer.isr, answer.leader_id, answer.leader_epoch) == (isr, 1, 1)
        assert answer.partition_epoch == 1 + len(records)


def test_a_recovered_leader_says_so() -> None:
    image = cluster(isr=[1], leader_recovery_state=1)
    assert ask(image, [1, 2], state=1)[0].error_code == ErrorCode.INVALID_REQUEST
    answer, (record,) = ask(image, [1, 2])
    assert (answer.error_code, answer.leader_recovery_state) == (ErrorCode.NONE, 0)
    assert (record.leader_recovery_state, record.isr) == (0, [1, 2])


def test_ending_a_move_may_take_leadership_from_who_asked() -> None:
    image = cluster(replicas=[2, 3, 1], adding_replicas=[3], removing_replicas=[1])
    answer, (record,) = ask(image, [1, 2, 3])
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    after = apply(image, [record])[0].topics["a"].partitions[0]
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((2, 3), (2, 3), 2, 2)


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 99), (1, -1), (9, 900)])
def test_a_broker_of_another_epoch_is_refused_as_a_whole(broker_id: int, epoch: int) -> None:
    request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=[])
    result = alter_partition(PartitionDecisions(cluster(), {}), request)
    assert (result.response.error_code, result.records) == (ErrorCode.STALE_BROKER_EPOCH, ())


def test_an_unknown_topic_id_and_members_without_epochs() -> None:
    data = PartitionData(partition_index=0, leader_epoch=1, partition_epoch=1, new_isr=[1, 2, 3])
    topics = [TopicData(topic_id=topic_id(each), partitions=[data]) for each in (9, 1)]
    request = AlterPartitionRequest(broker_id=1, broker_epoch=100, topics=topics)
    unknown, known = alter_partition(PartitionDecisions(cluster(), {}), request).response.topics
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (known.partitions[0].error_code, known.partitions[0].isr) == (ErrorCode.NONE, [1, 2, 3])
