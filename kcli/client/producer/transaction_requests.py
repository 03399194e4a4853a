"""TransactionRequests: what a transactional producer asks of coordinators, sent until it is answered.

| error                            | what follows                                                      |
|----------------------------------|-------------------------------------------------------------------|
| 14, 51, others that are          | the same again after `retry.backoff.ms`; 51 of what is added      |
| retriable                        | first to a transaction after 20 ms                                |
| 15, 16, 7, a lost connection     | the coordinator is looked up again                                |
| any other                        | `TransactionFailed`, which says whether the transaction can still |
|                                  | be aborted (`transaction_states.reaction`)                        |

47 and 90 mean the same, 47 to old clients (KIP-588): another producer has the transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from kcli.client.admin.group_offsets import rows_by_topic
from kcli.client.groups.coordinator_link import CoordinatorLink
from kcli.client.network.connection import UnsupportedVersion
from kcli.client.network.retry_warnings import RetryWarnings, request_error
from kcli.client.producer.transaction_states import ENDED_HINT, Reaction, ended_hint, reaction
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kcli.client.admin.types import CommittedOffset
    from kcli.client.client import Client
    from kcli.client.config import ProducerConfig
    from kcli.client.groups.classic_membership import GroupMetadata

FIRST_ADD_BACKOFF_MS = 20
"""The pause while the coordinator still ends the transaction before: it is done in a moment."""

LAST_TV1_ADD_VERSION = 3
LAST_TV1_END_VERSION, FIRST_TV2_END_VERSION = 4, 5
LAST_TV1_OFFSETS_VERSION, FIRST_TV2_OFFSETS_VERSION = 4, 5
FIRST_MEMBER_OFFSETS_VERSION = 3
FIRST_PAIR_VERSION = 3
"""The first InitProducerId in which a producer keeps its id and gets the next epoch (KIP-360)."""


class ProducerIdAndEpoch(NamedTuple):
    """What the coordinator gives to the owner of a transactional id; -1 and -1 for none yet."""

    producer_id: int = -1
    epoch: int = -1


class TransactionFailed(KafkaError):
    """A coordinator's answer that no retry mends; `is_fatal` tells that the producer may not go on."""

    def __init__(self, code: ErrorCode, message: str | None, *, is_fatal: bool, hint: str | None) -> None:
        super().__init__(code, message, hint=hint)
        self.is_fatal = is_fatal

    @classmethod
    def of(cls, error: KafkaError, how: Reaction) -> TransactionFailed:
        """Return what a coordinator's error means to the producer."""
        if how is Reaction.FENCED:
            return cls(
                ErrorCode.PRODUCER_FENCED,
                "another producer has taken over the transactional id",
                is_fatal=True,
                hint=ENDED_HINT,
            )
        hint = error.hint or ended_hint(error.code)
        return cls(error.code, error.message, is_fatal=how is Reaction.FATAL, hint=hint)


class TransactionRequests:
    """The requests of one producer; `owner` is its id and epoch, which the caller sets.

    Its transactional id is that of its configuration unless another one is given.
    """

    def __init__(
        self,
        client: Client,
        config: ProducerConfig,
        *,
        warn: Callable[[str], None],
        transactional_id: str | None = None,
    ) -> None:
        self.owner = ProducerIdAndEpoch()
        self.transactional_id = transactional_id or config.transactional_id
        self._timeout_ms = config.transaction_timeout_ms
        self._backoff_ms = config.retry_backoff_ms
        self._client = client
        self._link = CoordinatorLink(client, self.transactional_id, client.transaction_coordinators)
        self._warnings = RetryWarnings(warn)
        self.waits_for_markers = False
        """Whether the last answer was that the transaction before has not ended everywhere."""

    @property
    def last_error(self) -> str:
        """The last error that a request was sent again for, "" for none."""
        return self._warnings.last

    def close(self) -> None:
        self._link.close()

    async def init_producer_id(self) -> ProducerIdAndEpoch:
        """Return the next epoch of `owner`; without one, fence the producers that had the id before."""
        producer_id, epoch = self.owner
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        response: InitProducerIdResponse = await self._ask(
            self._link, request, _one_error, min_version=0 if producer_id < 0 else FIRST_PAIR_VERSION
        )
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    async def add_partitions(
        self, partitions: Iterable[TopicPartition], *, is_first: bool, is_wanted: Callable[[], bool]
    ) -> None:
        """Add partitions to the transaction: all of them, or none and `TransactionFailed`.

        What was refused is asked for again only as long as it `is_wanted`: an abort does not wait for it.
        """

        def read(response: AddPartitionsToTxnResponse) -> list[tuple[KafkaError, Reaction]]:
            errors = _errors_of_partitions(response)
            if errors and errors[0][1] in _PASSING and not is_wanted():
                return [(errors[0][0], Reaction.ABORTABLE)]
            return errors

        producer_id, epoch = self.owner
        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        await self._ask(
            self._link,
            request,
            read,
            max_version=LAST_TV1_ADD_VERSION,
            concurrent_ms=FIRST_ADD_BACKOFF_MS if is_first else None,
        )

    async def add_offsets(self, group_id: str, *, is_first: bool) -> None:
        """Add the offsets of a group to the transaction."""
        producer_id, epoch = self.owner
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=group_id,
        )
        concurrent_ms = FIRST_ADD_BACKOFF_MS if is_first else None
        await self._ask(self._link, request, _one_error_of_items, concurrent_ms=concurrent_ms)

    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], member: GroupMetadata, *, is_tv2: bool
    ) -> None:
        """Have the group's coordinator keep offsets for the transaction's end."""
        producer_id, epoch = self.owner
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=member.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=_offset_topics(offsets),
        )
        is_member = member.generation_id >= 0 or bool(member.member_id) or member.instance_id is not None
        first = FIRST_MEMBER_OFFSETS_VERSION if is_member else 0
        link = CoordinatorLink(self._client, member.group_id)
        try:
            await self._ask(
                link,
                request,
                _errors_of_offsets,
                min_version=FIRST_TV2_OFFSETS_VERSION if is_tv2 else first,
                max_version=None if is_tv2 else LAST_TV1_OFFSETS_VERSION,
            )
        finally:
            link.close()

    async def end(self, *, is_commit: bool, is_tv2: bool) -> ProducerIdAndEpoch:
        """Commit or abort; return the owner of the next transaction, which is the same one before TV2."""
        producer_id, epoch = self.owner
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=is_commit,
        )
        response: EndTxnResponse = await self._ask(
            self._link,
            request,
            _one_error,
            min_version=FIRST_TV2_END_VERSION if is_tv2 else 0,
            max_version=None if is_tv2 else LAST_TV1_END_VERSION,
        )
        if response.producer_id < 0:
            return self.owner
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    async def _ask(
        self,
        link: CoordinatorLink,
        request: Any,  # noqa: ANN401  # any request class
        read: Callable[[Any], list[tuple[KafkaError, Reaction]]],
        *,
        min_version: int = 0,
        max_version: int | None = None,
        concurrent_ms: int | None = None,
    ) -> Any:  # noqa: ANN401  # the type follows from the request
        """Send a request until no error is left that passes; raise `TransactionFailed` for any other."""
        since = trio.current_time()
        while True:
            pause_ms = self._backoff_ms
            try:
                connection = await link.connection()
                version = connection.versions.choose(
                    type(request), min_version=min_version, max_version=max_version
                )
                response = await connection.request(request, version)
            except UnsupportedVersion as error:
                raise TransactionFailed(
                    ErrorCode.UNSUPPORTED_VERSION, error.message, is_fatal=True, hint=error.hint
                ) from error
            except KafkaError as error:
                # The look-up of the coordinator was refused.
                link.forget()
                how = reaction(error.code, of_items=False)
                if how not in _PASSING:
                    raise TransactionFailed.of(error, how) from error
                lost = error
            except KcliError as error:
                # No connection, or none any more, or another program listens there meanwhile.
                link.forget()
                lost = request_error(error)
            else:
                errors = read(response)
                if not errors:
                    self.waits_for_markers = False
                    return response
                lost, how = errors[0]
                if how is Reaction.LOOK_UP:
                    link.forget()
                elif how is not Reaction.AGAIN:
                    raise TransactionFailed.of(lost, how)
                elif lost.code is ErrorCode.CONCURRENT_TRANSACTIONS and concurrent_ms is not None:
                    pause_ms = min(pause_ms, concurrent_ms)
            self.waits_for_markers = lost.code is ErrorCode.CONCURRENT_TRANSACTIONS
            self._warnings.note(f"transactional id {self.transactional_id}", lost, since=since)
            await trio.sleep(pause_ms / 1000)


_PASSING = (Reaction.AGAIN, Reaction.LOOK_UP)

_ORDER = (Reaction.FENCED, Reaction.FATAL, Reaction.ABORTABLE, Reaction.LOOK_UP, Reaction.AGAIN)
"""Which error of a response counts: the one that leaves least."""


def _one_error(response: Any, *, of_items: bool = False) -> list[tuple[KafkaError, Reaction]]:  # noqa: ANN401
    code = ErrorCode.of(response.error_code)
    return [] if code is ErrorCode.NONE else [(KafkaError(code), reaction(code, of_items=of_items))]


def _one_error_of_items(response: AddOffsetsToTxnResponse) -> list[tuple[KafkaError, Reaction]]:
    return _one_error(response, of_items=True)


def _errors_of_partitions(response: AddPartitionsToTxnResponse) -> list[tuple[KafkaError, Reaction]]:
    return _worst_first(
        {
            TopicPartition(topic.name, row.partition_index): ErrorCode.of(row.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
            # It was not attempted because of another one, whose error counts.
            if row.partition_error_code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)
        }
    )


def _errors_of_offsets(response: TxnOffsetCommitResponse) -> list[tuple[KafkaError, Reaction]]:
    return _worst_first(
        {
            TopicPartition(topic.name, row.partition_index): ErrorCode.of(row.error_code)
            for topic in response.topics
            for row in topic.partitions
            if row.error_code
        }
    )


def _worst_first(codes: Mapping[TopicPartition, ErrorCode]) -> list[tuple[KafkaError, Reaction]]:
    errors = [
        (KafkaError(code, f"{partition}: {code.description}"), reaction(code, of_items=True))
        for partition, code in codes.items()
    ]
    return sorted(errors, key=lambda error: _ORDER.index(error[1]))


def _offset_topics(offsets: Mapping[TopicPartition, CommittedOffset]) -> list[TxnOffsetCommitRequestTopic]:
    topics = rows_by_topic(offsets, TxnOffsetCommitRequestPartition)
    return [TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()]
