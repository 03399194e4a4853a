"""AlterPartition: which ISR changes a leader may make (KIP-497, KIP-704, KIP-841, KIP-903).

The checks come in Kafka's order (class `ReplicationControlManager`), because each error tells the leader
something else about who is out of date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.partition_change import Place
from kcli.broker.controller.result import ControllerResult
from kcli.broker.metadata.registrations import LeaderRecoveryState
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.metadata_records import LEADER_UNCHANGED
from kcli.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionResponse,
    BrokerState,
)

if TYPE_CHECKING:
    from kcli.broker.controller.partition_change import PartitionDecisions
    from kcli.broker.metadata.metadata_image import MetadataImage, PartitionRegistration, TopicImage
    from kcli.protocol.internal.metadata_records import PartitionChangeRecord
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest, PartitionData


def alter_partition(
    decisions: PartitionDecisions, request: AlterPartitionRequest
) -> ControllerResult[AlterPartitionResponse]:
    """Decide each partition by itself; members may come with or without their epochs."""
    image = decisions.image
    sender = image.brokers.get(request.broker_id)
    if sender is None or sender.epoch != request.broker_epoch:
        return ControllerResult((), AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    records: list[PartitionChangeRecord] = []
    response = AlterPartitionResponse()
    for wanted in request.topics:
        topic = image.topics_by_id.get(wanted.topic_id)
        answers = []
        for each in wanted.partitions:
            if topic is None:
                answers.append(_refused(each, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            answer, record = _decide(decisions, request.broker_id, topic, each)
            answers.append(answer)
            records.extend([] if record is None else [record])
        response.topics.append(AlteredTopic(topic_id=wanted.topic_id, partitions=answers))
    return ControllerResult(tuple(records), response)


def _decide(
    decisions: PartitionDecisions, sender: int, topic: TopicImage, wanted: PartitionData
) -> tuple[AlteredPartition, PartitionChangeRecord | None]:
    index = wanted.partition_index
    if not 0 <= index < len(topic.partitions):
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None
    partition = topic.partitions[index]
    members = wanted.new_isr_with_epochs or [BrokerState(broker_id=each) for each in wanted.new_isr]
    isr = tuple(each.broker_id for each in members)
    wrong = (
        _check_epochs(partition, sender, wanted)
        or _check_members(partition, isr, wanted.leader_recovery_state)
        or _check_eligible(decisions.image, members)
    )
    if wrong is not None:
        return _refused(wanted, wrong), None
    state = LeaderRecoveryState(wanted.leader_recovery_state)
    record = decisions.change(Place(topic, index, partition), isr=isr, recovery_state=state)
    if record is not None:
        partition = partition.merge(record)
        if record.leader not in {sender, LEADER_UNCHANGED}:
            # The change ended a reassignment that removes the leader: it is made, and still an error.
            return _refused(wanted, ErrorCode.NEW_LEADER_ELECTED), record
    answer = AlteredPartition(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.recovery_state,
        partition_epoch=partition.partition_epoch,
    )
    return answer, record


def _check_epochs(partition: PartitionRegistration, sender: int, wanted: PartitionData) -> ErrorCode | None:
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        # The leader knows more than this controller: there must be a newer one.
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return None


def _check_members(
    partition: PartitionRegistration, isr: tuple[int, ...], recovery_state: int
) -> ErrorCode | None:
    is_recovering = recovery_state == LeaderRecoveryState.RECOVERING
    if (
        recovery_state not in set(LeaderRecoveryState)
        or len(set(isr)) != len(isr)
        or not set(isr) <= set(partition.replicas)
        or partition.leader not in isr
        or (is_recovering and len(isr) > 1)
        or (is_recovering and partition.recovery_state is LeaderRecoveryState.RECOVERED)
    ):
        return ErrorCode.INVALID_REQUEST
    return None


def _check_eligible(image: MetadataImage, members: list[BrokerState]) -> ErrorCode | None:
    for each in members:
        broker = image.brokers.get(each.broker_id)
        if broker is None or not broker.is_active or each.broker_epoch not in {-1, broker.epoch}:
            return ErrorCode.INELIGIBLE_REPLICA
    return None


def _refused(wanted: PartitionData, code: ErrorCode) -> AlteredPartition:
    return AlteredPartition(partition_index=wanted.partition_index, error_code=code)
