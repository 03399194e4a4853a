"""Transactions: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn (KIP-98), DescribeTransactions, ListTransactions
(KIP-664).

* PRODUCER_FENCED is known from InitProducerId 4 and from version 2 of the others; older clients get
  INVALID_PRODUCER_EPOCH.
* AddPartitionsToTxn: clients use versions 0 to 3, brokers the others. Clients cannot add partitions of
  internal topics, which are TOPIC_AUTHORIZATION_FAILED. Kafka never answers a request of versions 4 and 5
  without a transaction; here the response is empty.
* EndTxn 5 means that the client uses TV2: its transactions end with a new epoch, which the response has.
* DescribeTransactions and ListTransactions read what the log of the coordinator has; with very many ids they
  let other requests run in between. The expression of
  ListTransactions 2 is one of RE2, which matches in linear time: Kafka takes Java's.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from trio.lowlevel import checkpoint

from kcli.broker.coordinator.transaction.listing import TransactionFilter
from kcli.broker.coordinator.transaction.transaction import TV2, Producer
from kcli.broker.network.authorization import (
    authorize_cluster,
    authorize_group,
    authorize_topics,
    authorize_transactional_id,
    is_transactional_id_authorized,
)
from kcli.broker.transactions.partition_adder import TV1_CLIENT, topic_results
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.protocol.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from kcli.protocol.messages.end_txn import EndTxnResponse
from kcli.protocol.messages.list_transactions import ListTransactionsResponse
from kcli.protocol.messages.list_transactions import TransactionState as ListedTransaction
from kcli.protocol.topics import GROUP_METADATA_TOPIC, INTERNAL_TOPICS, TopicPartition
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
    from kcli.broker.coordinator.transaction.transaction import Transaction
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
    from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
    from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
    from kcli.protocol.messages.end_txn import EndTxnRequest
    from kcli.protocol.messages.list_transactions import ListTransactionsRequest

FENCED_FROM = 2
"""The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that knows PRODUCER_FENCED."""

BROKERS_FROM = 4
"""The first version of AddPartitionsToTxn that brokers use."""

TV2_FROM = 5
"""The first version of EndTxn whose clients use TV2."""

DESCRIBED_AT_ONCE, LISTED_AT_ONCE = 8, 2000
"""The most transactional ids that are described or listed in one turn of the event loop."""


def known_code(code: ErrorCode, version: int, fenced_from: int = FENCED_FROM) -> ErrorCode:
    """Return an error code as a version of a request knows it."""
    if code == ErrorCode.PRODUCER_FENCED and version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse | CoordinatorResponse | Coroutine[Any, Any, AddPartitionsToTxnResponse]:
    """Add partitions to transactions, or verify that they are in them."""
    if context.api_version >= BROKERS_FROM:
        authorize_cluster(context, Operation.CLUSTER_ACTION)
        return context.node.partition_adder.add_all(request.transactions)
    transaction = _of_client(request)
    authorize_transactional_id(context, Operation.WRITE, transaction.transactional_id)
    names = [topic.name for topic in transaction.topics]
    others = (name for name in names if name not in INTERNAL_TOPICS)
    denied = authorize_topics(context, Operation.WRITE, others) | INTERNAL_TOPICS.intersection(names)
    version = context.api_version

    def shape(codes: Mapping[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResponse:
        known = {each: known_code(code, version) for each, code in codes.items()}
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topic_results(known))

    response: AddPartitionsToTxnResponse | CoordinatorResponse = context.node.partition_adder.add(
        transaction, client_version=TV1_CLIENT, denied=denied, shape=shape
    )
    return response


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def failed_add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, error: KafkaError
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=error.code,
        results_by_transaction=[],
        results_by_topic_v3_and_below=topic_results(_failed(request.v3_and_below_topics, error)),
    )


def _failed(topics: list[AddPartitionsToTxnTopic], error: KafkaError) -> dict[TopicPartition, ErrorCode]:
    return {TopicPartition(topic.name, index): error.code for topic in topics for index in topic.partitions}


def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | CoordinatorResponse:
    """Add the partition of `__consumer_offsets` with a group's offsets to a transaction."""
    authorize_transactional_id(context, Operation.WRITE, request.transactional_id)
    authorize_group(context, Operation.READ, request.group_id)
    partition = TopicPartition(GROUP_METADATA_TOPIC, context.node.groups.partition_for(request.group_id))
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        topics=[AddPartitionsToTxnTopic(name=partition.topic, partitions=[partition.partition])],
    )
    version = context.api_version
    response: AddOffsetsToTxnResponse | CoordinatorResponse = context.node.transactions.ask_for(
        request.transactional_id,
        lambda shard, now, token: shard.add_partitions(now, token, transaction, client_version=TV1_CLIENT),
        lambda codes: AddOffsetsToTxnResponse(error_code=known_code(codes[partition], version)),
    )
    return response


def end_txn(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse | CoordinatorResponse:
    """Commit or abort a transaction; the response waits until the decision is replicated."""
    authorize_transactional_id(context, Operation.WRITE, request.transactional_id)
    version = context.api_version
    shape = partial(_end_response, version=version)
    try:
        response: EndTxnResponse | CoordinatorResponse = context.node.transactions.ask_for(
            request.transactional_id,
            lambda shard, now, token: shard.end_transaction(
                now,
                token,
                request.transactional_id,
                Producer(request.producer_id, request.producer_epoch),
                is_commit=request.committed,
                client_version=TV2 if version >= TV2_FROM else 0,
            ),
            shape,
        )
    except KafkaError as error:
        return shape(error)
    return response


def _end_response(reply: Producer | KafkaError, *, version: int) -> EndTxnResponse:
    if isinstance(reply, KafkaError):
        return EndTxnResponse(error_code=known_code(reply.code, version))
    return EndTxnResponse(producer_id=reply.producer_id, producer_epoch=reply.epoch)


def describe_transactions(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse | Coroutine[Any, Any, DescribeTransactionsResponse]:
    """Return the state of each transactional id."""
    ids = request.transactional_ids
    if len(ids) > DESCRIBED_AT_ONCE:
        return _describe_in_turns(ids, context)
    return DescribeTransactionsResponse(transaction_states=[_describe(each, context) for each in ids])


async def _describe_in_turns(
    transactional_ids: list[str], context: RequestContext
) -> DescribeTransactionsResponse:
    states = []
    for each in transactional_ids:
        states.append(_describe(each, context))
        await checkpoint()
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    runtime = context.node.transactions
    try:
        authorize_transactional_id(context, Operation.DESCRIBE, transactional_id)
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        state = runtime.shard(runtime.partition_for(transactional_id)).describe(transactional_id)
    except KafkaError as error:
        return _not_described(transactional_id, error)
    denied = authorize_topics(context, Operation.DESCRIBE, (topic.topic for topic in state.topics))
    state.topics = [topic for topic in state.topics if topic.topic not in denied]
    return state


def failed_describe_transactions(
    request: DescribeTransactionsRequest, error: KafkaError
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_not_described(each, error) for each in request.transactional_ids]
    )


def _not_described(transactional_id: str, error: KafkaError) -> TransactionState:
    return TransactionState(error_code=error.code, transactional_id=transactional_id, topics=[])


def list_transactions(
    request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse | Coroutine[Any, Any, ListTransactionsResponse]:
    """Return the transactional ids of this node's shards that pass the filters of the request."""
    runtime = context.node.transactions
    wanted = TransactionFilter(request, runtime.now().wall_ms)
    known = [each for shard in list(runtime.shards()) for each in shard.transactions()]
    if len(known) > LISTED_AT_ONCE:
        return _list_in_turns(wanted, known, context)
    return ListTransactionsResponse(
        unknown_state_filters=wanted.unknown_states, transaction_states=_listed(wanted, known, context)
    )


async def _list_in_turns(
    wanted: TransactionFilter, known: list[Transaction], context: RequestContext
) -> ListTransactionsResponse:
    states = []
    for start in range(0, len(known), LISTED_AT_ONCE):
        states += _listed(wanted, known[start : start + LISTED_AT_ONCE], context)
        await checkpoint()
    return ListTransactionsResponse(unknown_state_filters=wanted.unknown_states, transaction_states=states)


def _listed(
    wanted: TransactionFilter, known: list[Transaction], context: RequestContext
) -> list[ListedTransaction]:
    return [
        state
        for state in wanted.listed(known)
        if is_transactional_id_authorized(context, Operation.DESCRIBE, state.transactional_id)
    ]


def failed_list_transactions(request: ListTransactionsRequest, error: KafkaError) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code, unknown_state_filters=[], transaction_states=[])
