"""Admin calls about transactions: list, describe, producers of partitions, aborts (KIP-664, KIP-939)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client.admin.driver import (
    ask_about_group,
    ask_coordinators,
    ask_leaders,
    ask_nodes,
    check,
    error_of,
    omitted,
    request_once,
    retry,
)
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kcli.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kcli.client.client import Client
    from kcli.client.network.metadata import Node

DURATION_VERSION, PATTERN_VERSION = 1, 2
"""The first versions of ListTransactions that filter by them (KIP-994, KIP-1152)."""

DEFAULT_TIMEOUT_MS = 60_000
ENDING_SECONDS = 0.1
"""The pause before a coordinator is asked again whether a transaction has ended."""

TERMINATED_TIMEOUT_MS = 60_000
"""The transaction timeout of an id whose transaction was terminated, until its producer sets its own."""


class TransactionListing(NamedTuple):
    """A transactional id in a listing, with the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionListings(NamedTuple):
    """The transactional ids of all brokers, and the errors of brokers that did not list theirs."""

    transactions: tuple[TransactionListing, ...]
    errors: Mapping[int, KcliError]
    unknown_states: tuple[str, ...] = ()


class TransactionDescription(NamedTuple):
    """A transactional id. `start_ms` is None without a transaction; `partitions` lack their end marker."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """A producer that a partition knows. Without a transaction `start_offset` is None.

    `coordinator_epoch` is -1 before the first end of a transaction, `last_sequence` -1 right after one.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int | None


async def list_transactions(
    client: Client,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    duration_ms: int | None = None,
    pattern: str | None = None,
    timeout_ms: int | None = None,
) -> TransactionListings:
    """Return the transactional ids of all brokers that match all filters.

    `duration_ms`: only transactions that began longer ago; `pattern` matches whole ids, in RE2's syntax.
    """
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=-1 if duration_ms is None else duration_ms,
        transactional_id_pattern=pattern,
    )
    minimum = PATTERN_VERSION if pattern is not None else DURATION_VERSION if duration_ms is not None else 0

    async def ask(node_id: int) -> ListTransactionsResponse:
        async def attempt(left_ms: int) -> ListTransactionsResponse | KafkaError:
            response: ListTransactionsResponse = await client.request(
                node_id, request, timeout_ms=left_ms, min_version=minimum
            )
            return error_of(response.error_code) or response

        return await retry(client, attempt, timeout_ms=timeout_ms)

    found: list[TransactionListing] = []
    errors: dict[int, KcliError] = {}
    unknown: dict[str, None] = {}
    for node_id, answer in (await ask_nodes(client, None, ask)).items():
        if isinstance(answer, KcliError):
            errors[node_id] = answer
            continue
        unknown.update(dict.fromkeys(answer.unknown_state_filters))
        found += [
            TransactionListing(entry.transactional_id, node_id, entry.producer_id, entry.transaction_state)
            for entry in answer.transaction_states
        ]
    return TransactionListings(tuple(found), errors, tuple(unknown))


async def describe_transactions(
    client: Client, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, TransactionDescription | KafkaError]:
    """Return the state of each transactional id, as its coordinator knows it."""

    async def ask(coordinator: Node, ids: list[str]) -> dict[str, TransactionDescription | KafkaError]:
        response: DescribeTransactionsResponse = await request_once(
            client,
            coordinator,
            request_class=DescribeTransactionsRequest,
            build=lambda version: DescribeTransactionsRequest(transactional_ids=ids),
        )
        found: dict[str, TransactionDescription | KafkaError] = dict.fromkeys(ids, omitted())
        for entry in response.transaction_states:
            found[entry.transactional_id] = error_of(entry.error_code) or TransactionDescription(
                entry.transactional_id,
                coordinator.node_id,
                entry.producer_id,
                entry.producer_epoch,
                entry.transaction_state,
                entry.transaction_timeout_ms,
                entry.transaction_start_time_ms if entry.transaction_start_time_ms >= 0 else None,
                tuple(
                    TopicPartition(topic.topic, index) for topic in entry.topics for index in topic.partitions
                ),
            )
        return found

    return await ask_coordinators(
        client,
        transactional_ids,
        ask=ask,
        timeout_ms=timeout_ms,
        coordinators=client.transaction_coordinators,
    )


async def describe_producers(
    client: Client,
    partitions: Iterable[TopicPartition],
    *,
    node_id: int | None = None,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
    """Return the producers that the leaders of partitions know, or one broker that has replicas of them."""

    def build(group: list[TopicPartition], left_ms: int) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                TopicRequest(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(group).items()
            ]
        )

    def read(
        response: DescribeProducersResponse,
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
        return {
            TopicPartition(topic.name, row.partition_index): error_of(row.error_code, row.error_message)
            or tuple(
                ProducerState(
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
                )
                for each in row.active_producers
            )
            for topic in response.topics
            for row in topic.partitions
        }

    wanted = list(partitions)
    if node_id is None:
        return await ask_leaders(client, wanted, build=build, read=read, timeout_ms=timeout_ms)
    found = read(await client.request(node_id, build(wanted, 0), timeout_ms=timeout_ms))
    return {partition: found.get(partition, omitted()) for partition in wanted}


async def abort_transaction(
    client: Client,
    partition: TopicPartition,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timeout_ms: int | None = None,
) -> None:
    """Write an abort marker into a partition, by its leader; the coordinator is not asked.

    Raises `KafkaError` 47 for an epoch older than the producer's, 52 for a coordinator's that is older.
    """
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
    )

    def read(response: WriteTxnMarkersResponse) -> dict[TopicPartition, bool | KafkaError]:
        return {
            TopicPartition(topic.name, row.partition_index): error_of(row.error_code) or True
            for written in response.markers
            for topic in written.topics
            for row in topic.partitions
        }

    results = await ask_leaders(
        client,
        [partition],
        build=lambda group, left_ms: WriteTxnMarkersRequest(markers=[marker]),
        read=read,
        timeout_ms=timeout_ms,
    )
    result = results[partition]
    if isinstance(result, KafkaError):
        raise result


async def force_terminate_transaction(
    client: Client, transactional_id: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS
) -> tuple[int, int]:
    """Abort the transaction of a transactional id and fence its producer; return the new id and epoch.

    Waits until a transaction that is being ended has ended.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TERMINATED_TIMEOUT_MS
    )
    deadline = trio.current_time() + timeout_ms / 1000

    async def ask(coordinator: Node) -> InitProducerIdResponse:
        response: InitProducerIdResponse = await request_once(
            client, coordinator, request_class=InitProducerIdRequest, build=lambda version: request
        )
        if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            check(response.error_code)
        return response

    while True:
        left_ms = max(1, round((deadline - trio.current_time()) * 1000))
        response = await ask_about_group(
            client,
            transactional_id,
            ask=ask,
            timeout_ms=left_ms,
            coordinators=client.transaction_coordinators,
        )
        if not response.error_code:
            return response.producer_id, response.producer_epoch
        if trio.current_time() + ENDING_SECONDS >= deadline:
            check(response.error_code)
        await trio.sleep(ENDING_SECONDS)
