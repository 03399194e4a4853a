"""TxnOffsetCommit: the offsets that a producer commits in its transaction (KIP-98, KIP-447).

* Each unknown partition gets an error of its own, and the coordinator gets the rest of the request, if any.
* Before the first offsets of a transaction, its coordinator is asked about the group's partition of
  `__consumer_offsets` (KIP-890): producers of versions up to 4 have added it with AddOffsetsToTxn, for those
  of version 5 it is added now.
* The answer of that coordinator goes to every partition, in codes that the version knows.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from kcli.broker.coordinator.offsets.transactional_offsets import txn_commit_refused
from kcli.broker.coordinator.runtime.shard_host import as_coordinator_error
from kcli.broker.handlers.committed_offsets import existing_partitions
from kcli.broker.network.authorization import authorize_group, authorize_transactional_id
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kcli.protocol.topics import GROUP_METADATA_TOPIC, TopicPartition
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
    from kcli.broker.handlers.committed_offsets import Refused
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.transactions.transaction_verifier import Verification
    from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
    from kcli.storage.producers.producer_guards import ProducerGuard

    Result = TxnOffsetCommitResponse | CoordinatorResponse

ADDS_FROM = 5
KNOWS_ABORTABLE_FROM = 4
KNOWS_LOADING_FROM = 2


def txn_offset_commit(
    request: TxnOffsetCommitRequest, context: RequestContext
) -> Result | Coroutine[Any, Any, TxnOffsetCommitResponse]:
    """Write offsets into the transaction; the response waits until they are stored."""
    authorize_transactional_id(context, Operation.WRITE, request.transactional_id)
    authorize_group(context, Operation.READ, request.group_id)
    topics = context.node.image.topics
    known, refused = existing_partitions(
        context, request.topics, [topics.get(topic.name) for topic in request.topics]
    )
    if refused:
        request = copy(request)
        request.topics = known
    commit = _Commit(request, refused, context)
    if not known:
        return commit.shaped(TxnOffsetCommitResponse(topics=[]))
    try:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        return commit.begin()
    except KafkaError as error:
        return commit.failed(error)


class _Commit:
    """The partitions of one request that exist; `refused` are the others."""

    def __init__(self, request: TxnOffsetCommitRequest, refused: Refused, context: RequestContext) -> None:
        self._request = request
        self._refused = refused
        self._node = context.node
        self._version = context.api_version
        self._index = context.node.groups.partition_for(request.group_id)

    def begin(self) -> Result | Coroutine[Any, Any, TxnOffsetCommitResponse]:
        """Verify the transaction if it is not open here already, and write. Raises `KafkaError`."""
        node, request = self._node, self._request
        node.groups.shard(self._index)
        key = TopicPartition(GROUP_METADATA_TOPIC, self._index)
        adds = self._version >= ADDS_FROM
        guard = None
        if adds or node.config.transaction_partition_verification_enable:
            guard = node.replica_manager.partition(*key).begin_guard(
                request.producer_id, request.producer_epoch, -1, is_tv2=adds, now_ms=node.wall_ms()
            )
        if guard is None:
            return self._write(None)
        verification = node.verifier.verify(
            request.transactional_id, request.producer_id, request.producer_epoch, [key], adds=adds
        )
        if not verification.ended:
            return self._write_later(guard, verification)
        return self._write_verified(guard, verification)

    async def _write_later(self, guard: ProducerGuard, verification: Verification) -> TxnOffsetCommitResponse:
        await self._node.purgatory.wait(verification)
        try:
            result = self._write_verified(guard, verification)
        except KafkaError as error:
            return self.failed(error)
        if isinstance(result, TxnOffsetCommitResponse):
            return result
        response: TxnOffsetCommitResponse = await self._node.groups.wait(result)
        return response

    def _write_verified(self, guard: ProducerGuard, verification: Verification) -> Result:
        (error,) = verification.finish().values()
        if error:
            raise KafkaError(_refusal(error, self._version))
        return self._write(guard)

    def _write(self, guard: ProducerGuard | None) -> Result:
        request = self._request
        result: Result = self._node.groups.ask(
            self._index,
            lambda shard, now, token: shard.txn_offset_commit(now, token, request, guard),
            self.shaped,
        )
        return result

    def failed(self, error: KafkaError) -> TxnOffsetCommitResponse:
        """Return the response if nothing is written."""
        return self.shaped(txn_commit_refused(self._request, as_coordinator_error(error).code))

    def shaped(self, response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        """Add the partitions that do not exist; return the response as the version knows it."""
        if self._version < KNOWS_LOADING_FROM:
            # Their clients crash on the newer code (KAFKA-7296).
            for row in (row for topic in response.topics for row in topic.partitions):
                if row.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    row.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        topics = {topic.name: topic for topic in response.topics}
        for topic, indexes, error in self._refused:
            if topic.name not in topics:
                topics[topic.name] = TxnOffsetCommitResponseTopic(name=topic.name, partitions=[])
                response.topics.append(topics[topic.name])
            topics[topic.name].partitions += [
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=error) for index in indexes
            ]
        return response


def _refusal(error: ErrorCode, version: int) -> ErrorCode:
    """Return what a producer is told for the error of its transaction's coordinator."""
    match error:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if version < KNOWS_ABORTABLE_FROM:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.NETWORK_EXCEPTION:
            # Old clients do not expect it; this one they answer with the same request again.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return error
