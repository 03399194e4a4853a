"""The sink's transactions with a broker, without Spark: what readers see of writes and micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
import trio

from kcli.errors import KcliError
from kcli.spark.datasource import sink_transactions
from kcli.spark.datasource.sink import KcliSink, KcliStreamSink, SinkOptions
from kcli.spark.datasource.sink_transactions import TaskTransaction
from tests.conftest import Finished
from tests.spark.datasource.sink_tasks import SCHEMA, Sink, killed_after
from tests.support.kcli_broker import KcliBroker


@pytest.fixture
def sink(broker: KcliBroker) -> Sink:
    return Sink(broker.bootstrap)


# --- a batch write -----------------------------------------------------------------------------------------


def test_the_rows_of_all_tasks_are_seen_after_the_commit(sink: Sink) -> None:
    sent = [sink.task(0, "a", "b"), sink.task(1), sink.task(2, "c")]
    assert [message.records for message in sent] == [2, 0, 1]
    assert sink.seen() == []
    KcliSink(sink.options, SCHEMA).commit(list(sent))
    assert sink.seen() == ["a", "b", "c"]


def test_nothing_is_seen_of_a_job_that_fails(sink: Sink) -> None:
    sent = [sink.task(0, "a"), None, sink.task(2, "c")]
    KcliSink(sink.options, SCHEMA).abort(list(sent))
    assert sink.seen() == []
    KcliSink(sink.options, SCHEMA).commit([sink.task(0, "again")])
    assert sink.seen() == ["again"]


def test_a_task_that_fails_leaves_nothing_open(sink: Sink) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": ["a"]})
        raise ValueError("the next rows cannot be computed")

    with pytest.raises(ValueError, match="cannot be computed"):
        sink.batches(0, rows())
    KcliSink(sink.options, SCHEMA).commit([sink.task(1, "b")])
    assert sink.seen() == ["b"]


def test_a_task_that_runs_again_takes_the_place_of_the_first(sink: Sink) -> None:
    sink.task(0, "first attempt")
    KcliSink(sink.options, SCHEMA).commit([sink.task(0, "second attempt")])
    assert sink.seen() == ["second attempt"]


def test_nothing_is_committed_if_a_transaction_has_ended_before(sink: Sink) -> None:
    """A task that is slow to notice that it was given up runs beside the next attempt."""
    sent = [sink.task(0, "a"), sink.task(1, "b")]
    sink.task(1, "of a second attempt")
    writer = KcliSink(sink.options, SCHEMA)
    with pytest.raises(KcliError, match="the transaction of task 1 has ended before the job") as caught:
        writer.commit(list(sent))
    assert "`kafka.transaction.timeout.ms`" in str(caught.value.hint)
    writer.abort(list(sent))
    writer.commit([sink.task(1, "later")])
    assert sink.seen() == ["later"]


def test_what_a_killed_job_with_more_tasks_has_left_open_is_aborted(sink: Sink) -> None:
    for number in range(3):
        sink.task(number, "of a job that was killed")
    KcliSink(sink.options, SCHEMA).commit([sink.task(0, "a"), sink.task(1)])
    assert sink.seen() == ["a"]


def test_a_timeout_that_brokers_do_not_allow_is_refused_with_a_hint(broker: KcliBroker) -> None:
    sink = Sink(broker.bootstrap, **{"kafka.transaction.timeout.ms": "900001"})
    with pytest.raises(KcliError) as caught:
        sink.task(0, "a")
    assert caught.value.message == "the transaction timeout is longer than the broker allows"
    assert "at most `transaction.max.timeout.ms` of the brokers" in str(caught.value.hint)


def test_an_abort_after_the_commit_changes_nothing(sink: Sink) -> None:
    """Spark aborts a job also if its commit fails."""
    sent = [sink.task(0, "a")]
    writer = KcliSink(sink.options, SCHEMA)
    writer.commit(list(sent))
    writer.abort(list(sent))
    assert sink.seen() == ["a"]


def test_a_commit_that_is_refused_says_whose(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [sink.task(0, "a"), sink.task(1, "b")]

    async def look_away(*_arguments: object) -> None:
        sink_transactions.SinkTransactions._check_open = checked  # type: ignore[method-assign]
        await trio.to_thread.run_sync(partial(sink.task, 1, "of a second attempt"))

    checked = sink_transactions.SinkTransactions._check_open
    monkeypatch.setattr(sink_transactions.SinkTransactions, "_check_open", look_away)
    with pytest.raises(KcliError) as caught:
        KcliSink(sink.options, SCHEMA).commit(list(sent))
    assert caught.value.message == (
        "cannot end the transaction of task 1: another producer has taken over the transactional id "
        "(1 of 2 tasks failed like that)"
    )


# --- a stream ----------------------------------------------------------------------------------------------


def test_micro_batches_follow_one_another(sink: Sink) -> None:
    sink.micro_batch(0, "a", "b")
    sink.micro_batch(1, "", "c", "d")
    sink.micro_batch(2, "", "")
    sink.micro_batch(3, "e")
    assert sink.seen() == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("committed", [0, 1, 2, 3])
def test_a_repeated_micro_batch_commits_what_was_not_committed(committed: int, sink: Sink) -> None:
    sink.micro_batch(0, "before")
    with killed_after(committed) if committed < 3 else nullcontext():
        sink.micro_batch(1, "a", "", "b", "c")
    sink.micro_batch(1, "a", "", "b", "c")
    assert sink.seen() == ["a", "b", "before", "c"]
    sink.micro_batch(2, "d", "e")
    assert sink.seen() == ["a", "b", "before", "c", "d", "e"]


def test_a_micro_batch_from_before_the_last_one_is_committed_already(sink: Sink) -> None:
    sink.micro_batch(4, "a", "b")
    sink.micro_batch(5, "c")
    sink.micro_batch(4, "a", "b")
    assert sink.seen() == ["a", "b", "c"]


def test_another_query_begins_anew(sink: Sink) -> None:
    sink.micro_batch(0, "a", query="q1")
    sink.micro_batch(0, "a", query="q2")
    assert sink.seen() == ["a", "a"]


def test_rows_that_are_divided_otherwise_are_refused_after_a_part_of_them_was_committed(sink: Sink) -> None:
    with killed_after(1):
        sink.micro_batch(0, "a", "b", "c")
    message = (
        "micro-batch 0 was committed in part by 3 tasks, and has 2 now: its rows may be divided otherwise"
    )
    for rows in (["ab", "c"], ["", "abc"]):
        with pytest.raises(KcliError, match=message):
            sink.micro_batch(0, *rows)
    sink.micro_batch(0, "a", "b", "c")
    assert sink.seen() == ["a", "b", "c"]


def test_a_commit_that_is_just_ending_counts(
    sink: Sink, broker: KcliBroker, kcli: Callable[..., Finished]
) -> None:
    """The first offset of a group shows only when its marker is there: the next attempt waits for that."""

    def fault(*arguments: str) -> None:
        assert kcli("broker", "fault", *arguments, "--data-dir", str(broker.data)).exit_code == 0

    fault("add", "hold-markers")
    try:
        sink.micro_batch(0, "", "", "c")
        hasty = replace(sink.options, properties={**sink.options.properties, "max.block.ms": "500"})
        again = [sink.task(0, "c", query="q"), sink.task(1, query="q")]
        with pytest.raises(KcliError, match="waited 500 ms for the offsets"):
            KcliStreamSink(hasty, SCHEMA).commit(list(again), 0)
    finally:
        fault("clear", "--all")
    with pytest.raises(KcliError, match="was committed in part by 3 tasks, and has 2 now"):
        KcliStreamSink(sink.options, SCHEMA).commit(list(again), 0)
    assert sink.seen() == ["c"]


def test_rows_may_be_divided_otherwise_before_the_first_task_is_committed(sink: Sink) -> None:
    with killed_after(0):
        sink.micro_batch(0, "a", "b", "c")
    sink.micro_batch(0, "ab", "c")
    assert sink.seen() == ["ab", "c"]


def test_the_process_of_an_earlier_attempt_commits_nothing_more(sink: Sink) -> None:
    """It was only slow: the attempt that came after it goes on."""
    writer = KcliStreamSink(sink.options, SCHEMA)
    slow = [sink.task(0, "a", query="q"), sink.task(1, "b", query="q")]
    again = [sink.task(0, "a", query="q"), sink.task(1, "b", query="q")]
    with pytest.raises(KcliError, match="has ended before the job"):
        writer.commit(list(slow), 0)
    writer.commit(list(again), 0)
    assert sink.seen() == ["a", "b"]


def test_a_query_without_a_name_is_refused(sink: Sink) -> None:
    with pytest.raises(KcliError, match="Spark does not tell the id of the query"):
        sink.micro_batch(0, "a", query="")


def test_offsets_follow_the_rows_to_other_topics(broker: KcliBroker) -> None:
    """A query may write to a topic by a column, and to another one after a restart."""
    first, second = Sink(broker.bootstrap), Sink(broker.bootstrap)
    prefix = {**second.options.properties, "transactional.id": first.topic}
    second.options = SinkOptions(bootstrap=broker.bootstrap, topic=second.topic, properties=prefix)
    first.micro_batch(0, "a", "b")
    with killed_after(1):
        second.micro_batch(1, "c", "d")
    second.micro_batch(1, "c", "d")
    assert (first.seen(), second.seen()) == (["a", "b"], ["c", "d"])


def test_what_travels_to_the_process_of_the_commit_is_small_and_without_passwords(sink: Sink) -> None:
    task = sink.task(3, "a").open
    assert isinstance(task, TaskTransaction)
    assert (task.task, task.transaction.transactional_id) == (3, f"{sink.topic}-3")
    assert task.place == (sink.topic, 0)
