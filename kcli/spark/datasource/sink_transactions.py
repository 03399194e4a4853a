"""The transactions of the sink: one per task, all committed together by the process that plans the write.

With `kafka.transactional.id` = `sink`, the task of partition 3 sends its rows in a transaction of the id
`sink-3`, and leaves it open. When all tasks are done, Spark calls `commit`, which commits the transactions;
if the job fails, Spark calls `abort`. A task that runs again fences its predecessor, whatever became of that.

| write                  | what readers of committed records see                                         |
|------------------------|-------------------------------------------------------------------------------|
| batch (`write`)        | all rows once or, if the job fails, none. A part of them may stay if the      |
|                        | process is killed amid the commits, or a broker then refuses one. A job that  |
|                        | is run again writes its rows again, also within `foreachBatch`                |
| stream (`writeStream`) | every row once: a micro-batch that Spark repeats commits no task again        |

A stream needs what every sink that is exactly once needs: a micro-batch that is repeated gives the same rows
to the same tasks. The tasks of a micro-batch become visible one after the other. Readers wait for an open
transaction, so they see nothing of a topic while a job writes to it.

**What was committed** is in committed offsets. Their partition is that of some row's topic, and `metadata`
begins with the id of the query, which is that of its checkpoint:

| group    | offset      | metadata      | written                                                          |
|----------|-------------|---------------|------------------------------------------------------------------|
| `sink`   | micro-batch | `QUERY TASKS` | before the first transaction of a micro-batch is committed       |
| `sink-3` | micro-batch | `QUERY`       | in the transaction of the task, so together with its rows        |

A repeated micro-batch commits the tasks alone that are not there. If it has another number of tasks than
before, it fails, since rows may have moved from one task to another. Another checkpoint is another query,
which writes all it reads. Brokers forget the offsets of a query that stands still for
`offsets.retention.minutes`, seven days.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client.admin.group_offsets import alter_group_offsets, list_group_offsets
from kcli.client.admin.transactions import (
    describe_transactions,
    force_terminate_transaction,
    list_transactions,
)
from kcli.client.admin.types import CommittedOffset
from kcli.client.producer.open_transaction import OpenTransaction, end_transaction
from kcli.client.producer.transaction_requests import TransactionFailed
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from kcli.client.client import Client
    from kcli.client.config import ProducerConfig
    from kcli.protocol.topics import TopicPartition

ENDS_AT_A_TIME = 16
_ENDING = {"PrepareCommit", "PrepareAbort"}
UNSTABLE_SECONDS = 0.1
"""The pause before offsets are asked for again whose transaction is just ending."""


@dataclass(frozen=True, slots=True)
class TaskTransaction:
    """The rows of a task, in a transaction that is open. `place` is the partition of one of them."""

    task: int
    transaction: OpenTransaction
    place: TopicPartition


class Progress(NamedTuple):
    """The last micro-batch of which something was committed; `tasks` is 0 where it is about one task."""

    batch: int
    tasks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """What Spark tells of a batch of a stream: the query's id, the batch's number, how many tasks it has."""

    query: str
    number: int
    tasks: int


def id_of(prefix: str, task: int) -> str:
    """Return the transactional id of a task, which is the name of its group, too."""
    return f"{prefix}-{task}"


class SinkTransactions:
    """The transactions of one write; its tasks' ids begin with that of `config`."""

    def __init__(self, client: Client, config: ProducerConfig) -> None:
        self._client = client
        self._config = config
        self._prefix = config.transactional_id

    async def commit(self, tasks: Sequence[TaskTransaction]) -> None:
        """Commit the tasks of a batch write: all, unless something happens meanwhile; else raise."""
        await self._check_open(tasks)
        await self._abort_others(tasks)
        await self._end(tasks, committed=lambda task: {})

    async def commit_micro_batch(self, tasks: Sequence[TaskTransaction], batch: MicroBatch) -> None:
        """Commit the tasks of a micro-batch that were not committed before; raise the first error."""
        if not batch.query:
            raise KcliError("Spark does not tell the id of the query: nothing was committed")
        done = await self._committed_tasks(batch)
        again = [task for task in tasks if done is None or task.task in done]
        await self.abort(again)
        left = [task for task in tasks if task not in again]
        if not left:
            return
        await self._check_open(left)
        await self._abort_others(tasks)
        if not done:
            await self._begin(left[0].place, batch)
        mark = CommittedOffset(batch.number, metadata=batch.query)
        await self._end(left, committed=lambda task: {task.place: mark})

    async def abort(self, tasks: Sequence[TaskTransaction]) -> None:
        """Abort the tasks that are not committed."""

        async def end(task: TaskTransaction) -> None:
            try:
                await end_transaction(self._client, task.transaction, is_commit=False, config=self._config)
            except TransactionFailed:
                # It has ended: it was committed, or the coordinator or another producer has aborted it.
                return

        await _for_each(tasks, end)

    async def _abort_others(self, tasks: Sequence[TaskTransaction]) -> None:
        """Abort what a killed attempt has left open in other tasks: readers would wait until it times out.

        Brokers before 3.0 do not list it.
        """
        own = {task.transaction.transactional_id for task in tasks}
        wanted = re.compile(rf"{re.escape(self._prefix)}-\d+")
        listed = await list_transactions(self._client, states=("Ongoing",))
        for transaction in listed.transactions:
            name = transaction.transactional_id
            if name not in own and wanted.fullmatch(name):
                await force_terminate_transaction(self._client, name)

    async def _committed_tasks(self, batch: MicroBatch) -> Collection[int] | None:
        """Return which tasks of a micro-batch were committed before, None for all of them."""
        begun = (await self._progress([self._prefix], batch.query))[self._prefix]
        if begun is None or begun.batch < batch.number:
            return ()
        if begun.batch > batch.number:
            return None
        groups = {id_of(self._prefix, task): task for task in range(begun.tasks)}
        await self._until_ended(groups)
        found = await self._progress(list(groups), batch.query)
        done = {groups[group] for group, mark in found.items() if mark and mark.batch >= batch.number}
        if done and begun.tasks != batch.tasks:
            raise KcliError(
                f"micro-batch {batch.number} was committed in part by {begun.tasks} tasks, "
                f"and has {batch.tasks} now: its rows may be divided otherwise",
                hint="start the query with as many tasks as before, or with another "
                "`kafka.transactional.id`, which writes all of the micro-batch again",
            )
        return done

    async def _until_ended(self, ids: Collection[str]) -> None:
        """Return when none of some transactions is just ending.

        The first offset of a group shows only after that, and until then the group looks as if it had none.
        Brokers before 3.0 do not tell.
        """
        with trio.move_on_after(self._config.max_block_ms / 1000):
            while True:
                found = await describe_transactions(self._client, ids)
                states = {each.state for each in found.values() if not isinstance(each, KafkaError)}
                if not states & _ENDING:
                    return
                await trio.sleep(UNSTABLE_SECONDS)
        raise self._waited()

    def _waited(self) -> KafkaError:
        return KafkaError(
            ErrorCode.UNSTABLE_OFFSET_COMMIT,
            f"waited {self._config.max_block_ms} ms for the offsets of {self._prefix}",
        )

    async def _progress(self, groups: Sequence[str], query: str) -> dict[str, Progress | None]:
        """Return what is known of a query in some groups."""
        with trio.move_on_after(self._config.max_block_ms / 1000):
            while True:
                found = await list_group_offsets(self._client, dict.fromkeys(groups), require_stable=True)
                marks: dict[str, Progress | None] = {}
                try:
                    for group, offsets in found.items():
                        if isinstance(offsets, KafkaError):
                            raise offsets
                        marks[group] = _mark(offsets, query)
                except KafkaError as error:
                    if error.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                        raise
                    await trio.sleep(UNSTABLE_SECONDS)
                    continue
                return marks
        raise self._waited()

    async def _begin(self, place: TopicPartition, batch: MicroBatch) -> None:
        """Write down that the transactions of a micro-batch may be committed from now on."""
        mark = CommittedOffset(batch.number, metadata=f"{batch.query} {batch.tasks}")
        for error in (await alter_group_offsets(self._client, self._prefix, {place: mark})).values():
            if error is not None:
                raise error

    async def _check_open(self, tasks: Sequence[TaskTransaction]) -> None:
        """Raise `KcliError` if a transaction has ended, before the first one is committed.

        Brokers before 3.0 do not tell.
        """
        ids = [task.transaction.transactional_id for task in tasks]
        found = await describe_transactions(self._client, ids)
        for task in tasks:
            known = found[task.transaction.transactional_id]
            if isinstance(known, KafkaError):
                if known.code is ErrorCode.UNSUPPORTED_VERSION:
                    return
                raise known
            owner = (known.producer_id, known.producer_epoch)
            if known.state != "Ongoing" or owner != task.transaction[1:3]:
                raise _ended(task)

    async def _end(
        self,
        tasks: Sequence[TaskTransaction],
        *,
        committed: Callable[[TaskTransaction], Mapping[TopicPartition, CommittedOffset]],
    ) -> None:

        async def end(task: TaskTransaction) -> None:
            await end_transaction(
                self._client, task.transaction, is_commit=True, config=self._config,
                group_id=id_of(self._prefix, task.task), offsets=committed(task),
            )  # fmt: skip

        await _for_each(tasks, end)


def _ended(task: TaskTransaction) -> KcliError:
    return KcliError(
        f"the transaction of task {task.task} has ended before the job: nothing was committed",
        hint="raise `kafka.transaction.timeout.ms` above the time that a job takes, write with one job at a "
        "time, and without `spark.speculation`",
    )


def _mark(
    offsets: Mapping[TopicPartition, CommittedOffset | KafkaError | None], query: str
) -> Progress | None:
    """Return the last that a group says of a query; raise the error of an offset."""
    found = None
    for committed in offsets.values():
        if isinstance(committed, KafkaError):
            raise committed
        if committed is not None:
            whose, _, tasks = committed.metadata.partition(" ")
            if whose == query and (found is None or committed.offset > found.batch):
                found = Progress(committed.offset, int(tasks) if tasks.isdecimal() else 0)
    return found


async def _for_each(
    tasks: Sequence[TaskTransaction], end: Callable[[TaskTransaction], Awaitable[None]]
) -> None:
    """Call `end` for all tasks, some at a time; then raise an error, if any failed."""
    limit = trio.CapacityLimiter(ENDS_AT_A_TIME)
    failures: list[tuple[TaskTransaction, KcliError]] = []

    async def run(task: TaskTransaction) -> None:
        async with limit:
            try:
                await end(task)
            except KcliError as error:
                failures.append((task, error))

    async with trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(run, task)
    if failures:
        task, error = min(failures, key=lambda failure: failure[0].task)
        count = f" ({len(failures)} of {len(tasks)} tasks failed like that)" if len(tasks) > 1 else ""
        raise KcliError(
            f"cannot end the transaction of task {task.task}: {error.message}{count}", hint=error.hint
        ) from error
