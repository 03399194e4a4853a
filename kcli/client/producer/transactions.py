"""Transactions: the state of a transactional producer, and the tasks that add to a transaction and end it.

The table of `transaction_states` says what each call does. A transaction ends in a task of its own, for which
callers wait at most `max.block.ms`; whoever calls again joins it. A commit that nobody waits for any more is
withdrawn as long as the coordinator has not been asked for it, so that it can be aborted.

With `transaction.version` 2 (KIP-890) brokers add partitions themselves and each transaction has an epoch of
its own; below, the producer adds them and keeps its epoch, but for one to start over with after a gap in its
sequence numbers. Which of the two holds is looked up between transactions (Kafka class `TransactionManager`).
"""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, NoReturn

import trio

from kcli.client.producer.open_transaction import OpenTransaction
from kcli.client.producer.transaction_requests import TransactionFailed, TransactionRequests
from kcli.client.producer.transaction_states import (
    CALLS,
    EVENTS,
    FATAL_OF_BATCHES,
    Call,
    Event,
    Refusal,
    TransactionState,
    ended_hint,
    markers_hint,
)
from kcli.errors import UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from kcli.client.admin.types import CommittedOffset
    from kcli.client.client import Client
    from kcli.client.config import ProducerConfig
    from kcli.client.groups.classic_membership import GroupMetadata
    from kcli.client.producer.sequences import Sequences
    from kcli.client.producer.transaction_requests import ProducerIdAndEpoch
    from kcli.protocol.topics import TopicPartition

FEATURE = "transaction.version"
TV2 = 2


class TransactionAborted(KafkaError):
    """A record that was not sent, because its transaction is aborted."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted")


class Ending:
    """A transaction on its way to a commit or an abort."""

    def __init__(self, *, is_commit: bool) -> None:
        self.is_commit = is_commit
        self.is_sent = False
        """Whether the coordinator may know: from then on the outcome is its own."""
        self.waiters = 0
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self.error: KafkaError | None = None


class Transactions:
    """The transactions of one producer.

    `flush` waits until nothing is queued or in flight, `drop` fails what is queued with an error, `wake` has
    the sender look again at what it may send, and `delay_reason` tells why records are not delivered yet.
    """

    def __init__(
        self,
        client: Client,
        config: ProducerConfig,
        *,
        sequences: Sequences,
        flush: Callable[[], Awaitable[None]],
        warn: Callable[[str], None],
    ) -> None:
        self.state = TransactionState.UNINITIALIZED
        self.cause: KafkaError | None = None
        """Why the state is ABORTABLE or FATAL."""
        self.is_tv2 = False
        self.was_committed = False
        """How the last transaction ended: whoever joins the end of one learns it here."""
        self.drop: Callable[[KafkaError], None] = lambda error: None
        self.wake: Callable[[], None] = lambda: None
        self.delay_reason: Callable[[], str | None] = lambda: None
        self.nursery: trio.Nursery | None = None
        self._client = client
        self._sequences = sequences
        self._flush = flush
        self._max_block = config.max_block_ms / 1000
        self._requests = TransactionRequests(client, config, warn=warn)
        # One request about the transaction at a time.
        self._turn = trio.Lock()
        self._added: set[TopicPartition] = set()
        self._is_adding = False
        self._is_started = False
        """Whether the coordinator may know of the transaction: otherwise there is nothing to end."""
        self._ending: Ending | None = None

    # --- what callers ask for -------------------------------------------------------------------------

    async def init(self) -> None:
        """Get a producer id and epoch, which fences the producers that had the transactional id before."""
        await self._enter(Call.INIT)
        async with self._limited("a producer id"), self._turn:
            await self._start_over()
        self._happened(Event.INITIALIZED)

    async def begin(self) -> None:
        """Begin a transaction, after the end of the one before."""
        async with self._limited("the end of the transaction before"):
            await self._enter(Call.BEGIN)

    async def commit(self) -> None:
        """Deliver what was sent, and commit it."""
        await self._end(Call.COMMIT)

    async def abort(self) -> None:
        """Drop what was not sent, and abort the transaction."""
        await self._end(Call.ABORT)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], member: GroupMetadata
    ) -> None:
        """Make the committed offsets of a group part of the transaction."""
        await self.wait_to_send()
        if not offsets:
            return
        try:
            async with self._limited(f"the offsets of group {member.group_id}"), self._turn:
                self._check_open()
                if not self.is_tv2:
                    await self._requests.add_offsets(member.group_id, is_first=not self._is_started)
                self._is_started = True
                await self._requests.commit_offsets(offsets, member, is_tv2=self.is_tv2)
        except KafkaError as error:
            self.request_failed(error)
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction, commit it after the block, abort it if the block or the commit fails."""
        await self.begin()
        try:
            yield
            await self.commit()
        except BaseException as error:
            with trio.CancelScope(shield=True):
                await self.give_up(error)
            raise

    async def hand_over(self) -> OpenTransaction | None:
        """Deliver what was sent, and leave the transaction open for `end_transaction`.

        Returns None if nothing was sent. From then on the producer is of no more use.
        """
        await self.wait_to_send()
        async with self._limited("the delivery of what was sent"):
            await self._flush()
            async with self._turn:
                self._check_open()
        left = None
        if self._is_started:
            left = OpenTransaction(self._requests.transactional_id, *self.owner, is_tv2=self.is_tv2)
        self.stop(KafkaError(ErrorCode.INVALID_TXN_STATE, "the producer has handed its transaction over"))
        return left

    async def give_up(self, error: BaseException | None = None) -> None:
        """Abort the transaction if one is open; `error` gets a note if that fails, else it is raised."""
        if not self.is_open and self._ending is None:
            return
        try:
            await self.abort()
        except KafkaError as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"the transaction was not aborted: {failure.message}")

    @property
    def owner(self) -> ProducerIdAndEpoch:
        """Return the producer id and epoch of the open transaction, or of the next one."""
        return self._requests.owner

    # --- what the producer asks before it queues a record ---------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a transaction was begun and is not about to end."""
        return self.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE)

    def check_send(self) -> None:
        """Raise what stands against a record now: `trio.WouldBlock` while a transaction ends."""
        if self.state is not TransactionState.IN_TRANSACTION:
            self._refuse(Call.SEND)

    async def wait_to_send(self) -> None:
        """Wait for the end of a transaction that ends; then raise what stands against a record."""
        if self.state is TransactionState.IN_TRANSACTION:
            return
        async with self._limited("the end of the transaction"):
            await self._enter(Call.SEND)

    def _check_open(self) -> None:
        if self.state is not TransactionState.IN_TRANSACTION:
            raise self.cause or TransactionAborted()

    # --- what the sender tells and asks ---------------------------------------------------------------

    @property
    def may_retry(self) -> bool:
        """Whether a batch may be sent again: not for a transaction that is to be aborted."""
        return self.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING)

    def may_drain(self, partition: TopicPartition) -> bool:
        """Whether the transaction takes batches of a partition now."""
        return self.may_retry and (self.is_tv2 or partition in self._added)

    def drained(self) -> None:
        """Note that batches of the transaction are sent."""
        self._is_started = True

    def add_new(self, partitions: Iterable[TopicPartition]) -> None:
        """Start to add the partitions that the transaction lacks, all together."""
        if self.is_tv2 or self._is_adding or not self.may_retry or self.nursery is None:
            return
        new = [partition for partition in partitions if partition not in self._added]
        if new:
            self._is_adding = True
            self.nursery.start_soon(self._add, new)

    def batch_failed(self, error: KafkaError) -> None:
        """Note that a batch of the transaction was given up."""
        error.hint = error.hint or ended_hint(error.code)
        self._failed(error, is_fatal=error.code in FATAL_OF_BATCHES)

    def request_failed(self, error: KafkaError) -> None:
        """Note that a request about the transaction failed, or a record that could not be queued.

        Once the coordinator is asked for the end, it comes too late to change the outcome.
        """
        if self._ending is not None and self._ending.is_sent:
            return
        self._failed(error, is_fatal=isinstance(error, TransactionFailed) and error.is_fatal)

    def stop(self, error: KafkaError) -> None:
        """Note that the producer may not go on."""
        self._failed(error, is_fatal=True)

    def close(self) -> None:
        self._requests.close()

    # --- inside ---------------------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        self.state = EVENTS[self.state, event]

    def _failed(self, error: KafkaError, *, is_fatal: bool) -> None:
        before = self.state
        if before is TransactionState.FATAL:
            return
        self._happened(Event.FATAL_ERROR if is_fatal else Event.ABORTABLE_ERROR)
        if self.state is before:
            return
        self.cause = error
        if self._ending is not None and not self._ending.is_sent:
            self._ending.error = error
        self.drop(error)
        self.wake()

    async def _enter(self, call: Call) -> Ending | None:
        """Do what the table says about a call; return the ending that it joins."""
        while True:
            reaction = CALLS[self.state, call]
            if isinstance(reaction, TransactionState):
                self.state = reaction
                return None
            if reaction is Refusal.JOINS:
                return self._ending
            if reaction is not Refusal.WAITS or self._ending is None:
                self._refuse(call)
            await self._ending.done.wait()

    def _refuse(self, call: Call) -> NoReturn:
        match CALLS[self.state, call]:
            case Refusal.RAISES:
                assert self.cause is not None
                raise self.cause
            case Refusal.WAITS:
                raise trio.WouldBlock
            case _:
                raise UsageError(f"`{call.value}` does not go: the producer is {self.state.value}")

    @asynccontextmanager
    async def _limited(self, what: str) -> AsyncIterator[None]:
        """Raise `KafkaError` 7 if the block takes longer than `max.block.ms`."""
        with trio.move_on_after(self._max_block) as scope:
            yield
        if scope.cancelled_caught:
            # A commit is asked for behind the last record: what keeps that waiting comes first.
            cause = self.delay_reason() or self._requests.last_error
            last = f": {cause}" if cause else ""
            why = f"waited {round(self._max_block * 1000)} ms for {what}{last}"
            hint = markers_hint(self._requests.transactional_id) if self._requests.waits_for_markers else None
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why, hint=hint)

    async def _end(self, call: Call) -> None:
        ending = await self._enter(call)
        if ending is None:
            assert self.nursery is not None
            ending = self._ending = Ending(is_commit=call is Call.COMMIT)
            self.nursery.start_soon(self._run_ending, ending)
        ending.waiters += 1
        try:
            async with self._limited(f"the {'commit' if ending.is_commit else 'abort'} of the transaction"):
                await ending.done.wait()
        finally:
            ending.waiters -= 1
            if not ending.done.is_set() and not ending.waiters:
                self._withdraw(ending)
        if ending.error is not None:
            raise ending.error

    def _withdraw(self, ending: Ending) -> None:
        """Take a commit back that the coordinator does not know of yet."""
        if ending.is_commit and not ending.is_sent and self._ending is ending:
            if self.state is TransactionState.COMMITTING:
                self._happened(Event.WITHDRAWN)
            self._ending = None
            ending.error = TransactionAborted()
            ending.scope.cancel()
            ending.done.set()

    async def _run_ending(self, ending: Ending) -> None:
        try:
            with ending.scope:
                if not ending.is_commit:
                    self.drop(TransactionAborted())
                await self._flush()
                async with self._turn:
                    if self._ending is not ending:
                        # A batch failed while the commit was flushed, and the abort is on its way.
                        raise ending.error or TransactionAborted()
                    ending.is_sent = True
                    await self._decide(ending)
            if ending.done.is_set():
                return  # it was withdrawn
            self.was_committed = ending.is_commit
            if self.state is not TransactionState.FATAL:
                self._happened(Event.ENDED)
                self.cause = None
        except KafkaError as error:
            ending.error = error
        finally:
            if self._ending is ending:
                self._ending = None
            ending.done.set()
            self.wake()

    async def _decide(self, ending: Ending) -> None:
        """Ask for the end of a transaction, and get ready for the next one; raise the error."""
        if self.state in (TransactionState.ABORTABLE, TransactionState.FATAL):
            # A batch failed while the commit was flushed, or another producer took over.
            assert self.cause is not None
            raise self.cause
        was_tv2 = self.is_tv2
        try:
            if self._is_started:
                owner = await self._requests.end(is_commit=ending.is_commit, is_tv2=was_tv2)
                if owner != self._requests.owner:
                    self._adopt(owner)
            self._is_started = False
            self._added.clear()
            self.is_tv2 = self._client.links.finalized_level(FEATURE) >= TV2
            if self._sequences.has_gaps or (self.is_tv2 and not was_tv2):
                # A transaction that is committed stays so: the next call learns of the error.
                with suppress(TransactionFailed) if ending.is_commit else nullcontext():
                    await self._start_over()
        except TransactionFailed as error:
            # An abort that is answered like that leads nowhere.
            self._failed(error, is_fatal=error.is_fatal or not ending.is_commit)
            raise

    async def _start_over(self) -> None:
        """Get an epoch in which no partition has a sequence number yet."""
        try:
            self._adopt(await self._requests.init_producer_id())
        except TransactionFailed as error:
            self.stop(error)
            raise
        self.is_tv2 = self._client.links.finalized_level(FEATURE) >= TV2

    def _adopt(self, owner: ProducerIdAndEpoch) -> None:
        self._requests.owner = owner
        self._sequences.start_over(*owner)

    async def _add(self, partitions: list[TopicPartition]) -> None:
        try:
            async with self._turn:
                if self.may_retry:
                    await self._requests.add_partitions(
                        partitions, is_first=not self._is_started, is_wanted=lambda: self.may_retry
                    )
                    self._added.update(partitions)
                    self._is_started = True
        except TransactionFailed as error:
            self.request_failed(error)
        finally:
            self._is_adding = False
            self.wake()
