"""A transaction that its producer left open, for somebody else to end: several of them as one, for example.

    left = await producer.hand_over()                        # in one process
    await end_transaction(client, left, is_commit=True)      # in another one, before the time-out

The coordinator asks for no more than the producer's id and epoch. The next producer with the transactional id
aborts the transaction, and so does the coordinator after its `transaction.timeout.ms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client.config import ProducerConfig
from kcli.client.groups.classic_membership import GroupMetadata
from kcli.client.producer.transaction_requests import ProducerIdAndEpoch, TransactionRequests
from kcli.client.producer.transaction_states import markers_hint
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.client.admin.types import CommittedOffset
    from kcli.client.client import Client
    from kcli.protocol.topics import TopicPartition


class OpenTransaction(NamedTuple):
    """What ends a transaction; `is_tv2` tells by which protocol it was begun."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_tv2: bool


async def end_transaction(
    client: Client,
    transaction: OpenTransaction,
    *,
    is_commit: bool,
    group_id: str = "",
    offsets: Mapping[TopicPartition, CommittedOffset] | None = None,
    config: ProducerConfig | None = None,
) -> None:
    """Commit or abort a transaction that was left open; a group's offsets, which go first, belong to it.

    Waits up to `max.block.ms`, then raises `KafkaError` 7; `TransactionFailed` if the transaction has ended
    otherwise. Ending it again in the same way does nothing.
    """
    config = config or ProducerConfig()
    requests = TransactionRequests(
        client, config, warn=lambda line: None, transactional_id=transaction.transactional_id
    )
    requests.owner = ProducerIdAndEpoch(transaction.producer_id, transaction.epoch)
    try:
        with trio.move_on_after(config.max_block_ms / 1000):
            if offsets:
                if not transaction.is_tv2:
                    await requests.add_offsets(group_id, is_first=False)
                member = GroupMetadata(group_id, -1, "", None)
                await requests.commit_offsets(offsets, member, is_tv2=transaction.is_tv2)
            await requests.end(is_commit=is_commit, is_tv2=transaction.is_tv2)
            return
        last = f": {requests.last_error}" if requests.last_error else ""
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"waited {config.max_block_ms} ms for the end of a transaction of "
            f"{transaction.transactional_id}{last}",
            hint=markers_hint(transaction.transactional_id) if requests.waits_for_markers else None,
        )
    finally:
        requests.close()
