"""TransactionalBatches: those of one Produce request, which their transaction's coordinator has to verify.

A batch is appended at once if its transaction is open on the partition. For all others of the request the
coordinator is asked in one go, and each partition takes a guard meanwhile (`producer_guards`). Versions below
12 come from producers that have added the partitions; from 12 on the leader adds them (KIP-890, Kafka method
`ReplicaManager.handleProduceAppend`). The producer learns the coordinator's answer as `refusal` says.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.replication.partition import Partition
    from kcli.broker.transactions.transaction_verifier import Verification
    from kcli.broker.waiting.purgatory import Purgatory
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.producers.producer_guards import ProducerGuard

ABORTABLE_FROM = 11
"""The first version that knows TRANSACTION_ABORTABLE."""
ADDS_FROM = 12
"""The first version of producers that leave it to the leader to add partitions."""

_PRODUCER = Struct(">qhi")
"""From byte 43 of a batch: producer id, epoch, base sequence."""
_PRODUCER_POSITION = 43

_TRY_AGAIN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Answers after which the producer shall try again. It gets NOT_ENOUGH_REPLICAS, which every version retries
without looking for another leader."""


def refusal(code: ErrorCode, version: int) -> KafkaError:
    """Return the error that a producer gets for the answer of a coordinator."""
    if code in _TRY_AGAIN or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_FROM):
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction cannot be verified now: {code.name}"
        )
    if code == ErrorCode.TRANSACTION_ABORTABLE:
        known = code if version >= ABORTABLE_FROM else ErrorCode.INVALID_TXN_STATE
        return KafkaError(known, "the partition is not part of the transaction")
    return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code)


class TransactionalBatches:
    """The transactional batches of one request: their guards, and what is refused."""

    __slots__ = ("_context", "_guards", "_refused", "_transactional_id")

    def __init__(self, transactional_id: str, context: RequestContext) -> None:
        self._transactional_id = transactional_id
        self._context = context
        self._guards: dict[TopicPartition, ProducerGuard] = {}
        self._refused: dict[TopicPartition, KafkaError] = {}

    def begin(self, batches: Iterable[tuple[Partition, memoryview]]) -> Verification | None:
        """Take guards, and ask the coordinator if there are any; the answer may be there at once.

        Raises `KafkaError` INVALID_PRODUCER_ID_MAPPING for batches of several producers.
        """
        version, node = self._context.api_version, self._context.node
        producers: set[tuple[int, int]] = set()
        sequences: dict[Partition, int] = {}
        for partition, records in batches:
            producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
            if producer_id >= 0:
                producers.add((producer_id, epoch))
                sequences[partition] = sequence
        if not producers:
            return None
        if len(producers) > 1:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional batches have several producers"
            )
        adds = version >= ADDS_FROM
        if not adds and not node.config.transaction_partition_verification_enable:
            return None
        ((producer_id, epoch),) = producers
        for partition, sequence in sequences.items():
            try:
                guard = partition.begin_guard(
                    producer_id, epoch, sequence, is_tv2=adds, now_ms=node.wall_ms()
                )
            except KafkaError as error:
                self._refused[partition.key] = error.detached()
            else:
                if guard is not None:
                    self._guards[partition.key] = guard
        if not self._guards:
            return None
        return node.verifier.verify(self._transactional_id, producer_id, epoch, list(self._guards), adds=adds)

    def take(self, verification: Verification) -> None:
        """Note the answer of the coordinator."""
        for key, code in verification.finish().items():
            if code != ErrorCode.NONE:
                self._refused[key] = refusal(code, self._context.api_version)

    def guard_of(self, key: TopicPartition) -> ProducerGuard | None:
        """Return the guard of the batch for a partition, None if it needs none. Raises `KafkaError`."""
        refused = self._refused.get(key)
        if refused is not None:
            raise refused
        return self._guards.get(key)


class AwaitedVerification:
    """The wait for the answer of a coordinator."""

    __slots__ = ("_purgatory", "_verification")

    def __init__(self, verification: Verification, purgatory: Purgatory) -> None:
        self._verification = verification
        self._purgatory = purgatory

    async def run(self) -> None:
        """Return once the answer is there."""
        await self._purgatory.wait(self._verification)
