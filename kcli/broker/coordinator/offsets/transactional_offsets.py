"""TransactionalOffsets: offsets that are committed by a transaction's producer (TxnOffsetCommit, KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.effects import Append, BatchProducer, CoordinatorRecord, Effect, Reply
from kcli.broker.coordinator.offsets.committed_offsets import is_too_long
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import OffsetCommitKey, OffsetCommitValue
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.effects import Now, Token
    from kcli.broker.coordinator.group import Group
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.messages.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestPartition,
    )
    from kcli.storage.producers.producer_guards import ProducerGuard


class TransactionalOffsets:
    """The decisions about TxnOffsetCommit in one shard; `groups` are all its groups."""

    def __init__(
        self, groups: Mapping[str, Group], config: GroupConfig, image: Callable[[], MetadataImage]
    ) -> None:
        self._groups = groups
        self._config = config
        self._image = image

    def commit(
        self, now: Now, token: Token, request: TxnOffsetCommitRequest, guard: ProducerGuard | None
    ) -> list[Effect]:
        """Write offsets as one batch of the producer; they are pending until its transaction ends.

        Unlike OffsetCommit this does not renew the member's session. `guard` is that of the transaction in
        the shard's partition.
        """
        group = self._groups.get(request.group_id)
        if group is not None:
            error = group.check_txn_commit(request, self._image())
        else:
            # A commit without a generation creates a simple group.
            error = ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
        if error:
            return [Reply(token, txn_commit_refused(request, error))]
        response = TxnOffsetCommitResponse(topics=[])
        records: list[CoordinatorRecord] = []
        for topic in request.topics:
            found = self._image().topics.get(topic.name)
            topic_id = ZERO_UUID if found is None else found.topic_id
            row = TxnOffsetCommitResponseTopic(name=topic.name, partitions=[])
            response.topics.append(row)
            for partition in topic.partitions:
                index, error = partition.partition_index, ErrorCode.NONE
                if is_too_long(partition.committed_metadata, self._config.offset_metadata_max_bytes):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=index)
                    records.append(CoordinatorRecord(key, _value(partition, topic_id, now.wall_ms)))
                row.partitions.append(
                    TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)
                )
        if not records:
            return [Reply(token, response)]

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            if error is not None:
                return [Reply(token, txn_commit_refused(request, error.code))]
            return [Reply(token, response)]

        producer = None
        if request.producer_id >= 0:
            producer = BatchProducer(request.producer_id, request.producer_epoch, guard)
        # As in Kafka, where transactions are not verified a request without producer is an ordinary commit.
        return [Append(tuple(records), stored, producer=producer)]


def txn_commit_refused(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """Return the response to a commit that wrote nothing."""
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)


def _value(partition: TxnOffsetCommitRequestPartition, topic_id: bytes, now_ms: int) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        topic_id=topic_id,
    )
