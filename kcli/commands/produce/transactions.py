"""The transactions that `kcli produce` sends lines in: where each begins and how it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.output import Table, note

if TYPE_CHECKING:
    from kcli.client.producer.producer import Producer
    from kcli.errors import KcliError
    from kcli.protocol.error_codes import KafkaError

ABORT_SECONDS = 5
"""How long an interrupted command waits for the broker's word about the end of its transaction."""


class Ends(NamedTuple):
    """After how many records a transaction ends, None for at the end of the input, and how."""

    records: int | None = None
    aborts: bool = False
    tells: bool = False
    """Whether each end is told on stderr."""


class ProducedInTransactions(NamedTuple):
    """The result of `produce --transactional-id`.

    `delivered` counts the records of committed transactions, `failed` all other ones that were sent;
    `committed` and `aborted` count transactions.
    """

    topic: str
    delivered: int
    failed: int
    bytes: int
    committed: int
    aborted: int
    failures: Sequence[KcliError] = ()

    def lines(self) -> Sequence[str]:
        return ()

    def tables(self) -> Iterator[Table]:
        yield Table(("Topic", "Delivered", "Failed", "Bytes read", "Committed", "Aborted"), [self[:6]])


class LineTransactions:
    """Begins a transaction before its first record, and ends it behind its last one."""

    def __init__(self, producer: Producer, ends: Ends) -> None:
        self.producer = producer
        self.ends = ends
        self.delivered = 0
        self.failed = 0
        self.committed = 0
        self.aborted = 0
        self._sent = 0
        """The records of the open transaction."""
        self._is_open = False
        self._fence: KafkaError | None = None
        self._owner: tuple[int, int] = (-1, -1)

    async def room(self) -> int | None:
        """Return how many more records go into the open transaction; None for any number."""
        size = self.ends.records
        if self._is_open and size is not None and self._sent >= size:
            await self.finish()
        if not self._is_open:
            await self.producer.begin_transaction()
            self._is_open = True
            self._owner = self.producer.transactions.owner
        return None if size is None else size - self._sent

    def sent(self, count: int) -> None:
        """Count records of the open transaction."""
        self._sent += count

    async def finish(self) -> None:
        """End the open transaction, if there is one, as it is meant to end; raise the error."""
        if not self._is_open:
            return
        if self.ends.aborts:
            # What is not sent yet would be dropped: a test wants to see it aborted.
            await self.producer.flush()
            await self.producer.abort_transaction()
        else:
            await self.producer.commit_transaction()
        self._ended(was_committed=not self.ends.aborts)

    def _ended(self, *, was_committed: bool) -> None:
        if was_committed:
            self.committed += 1
            self.delivered += self._sent
        else:
            self.aborted += 1
            self.failed += self._sent
        if self.ends.tells:
            from kcli.commands.shared.formatting import counted

            number, (producer_id, epoch) = self.committed + self.aborted, self._owner
            outcome = "committed" if was_committed else "aborted"
            records = counted(self._sent, "record")
            note(f"transaction {number}: producer id {producer_id}, epoch {epoch}: {outcome}, {records}")
        self._is_open, self._sent = False, 0

    async def give_up(self, cause: KcliError) -> KcliError:
        """Abort the open transaction because of an error; return the error, which says what came of it."""
        from kcli.commands.shared.formatting import counted

        before = self.committed
        outcome = await self._abort() if self._is_open else None
        if self._fence is not None:
            # Leaders only tell of an older epoch.
            cause = self._fence
        parts = [cause.message, *([outcome] if outcome is not None else [])]
        if before:
            parts.append(f"{counted(before, 'transaction was', 'transactions were')} committed before")
        cause.message = "; ".join(parts)
        return cause

    async def _abort(self) -> str:
        """Abort the open transaction, or wait for the commit that is asked for; return what came of it."""
        import trio

        from kcli.client.producer.transaction_states import TransactionState
        from kcli.protocol.error_codes import ErrorCode, KafkaError

        if self.producer.transactions.state is TransactionState.READY:
            # The interrupt came with the answer.
            return self._outcome()
        unknown = "no answer in time"
        with trio.move_on_after(ABORT_SECONDS):
            try:
                await self.producer.abort_transaction()
            except KafkaError as error:
                if error.code is ErrorCode.PRODUCER_FENCED:
                    # The coordinator has aborted it, for the producer that came later.
                    self._fence = error
                    self._ended(was_committed=False)
                    return "the transaction was aborted"
                unknown = error.message
            else:
                return self._outcome()
        is_asked = self.producer.transactions.state is TransactionState.COMMITTING
        self.failed += self._sent
        await self.producer.close(0)
        if is_asked:
            return f"whether the transaction was committed is unknown: {unknown}"
        return f"the broker aborts the transaction when its timeout is over: {unknown}"

    def _outcome(self) -> str:
        """Count the transaction that has ended; return how."""
        was_committed = self.producer.transactions.was_committed
        self._ended(was_committed=was_committed)
        return f"the transaction was {'committed' if was_committed else 'aborted'}"

    def result(self, topic: str, bytes_read: int, failure: KcliError | None) -> ProducedInTransactions:
        """Return the counts, and the error that ended the input."""
        failures = [] if failure is None else [failure]
        return ProducedInTransactions(
            topic, self.delivered, self.failed, bytes_read, self.committed, self.aborted, failures
        )
