"""Sequences, epochs, duplicates and transactions of producers."""

from __future__ import annotations

import pytest

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker
from kcli.protocol.topics import TopicPartition
from kcli.storage.producers.producer_entry import BatchMetadata, ProducerStateEntry
from kcli.storage.producers.producer_state import (
    AppendOrigin,
    CompletedTransaction,
    ProducerAppendInfo,
    ProducerStateManager,
)
from tests.storage.log_harness import batch_of, with_fields

MAX = 2**31 - 1
PRODUCER = 7


class Partition:
    """A producer state with the batches of one producer."""

    def __init__(self) -> None:
        self.state = ProducerStateManager(TopicPartition("orders", 0), producer_id_expiration_ms=1000)
        self.end = 0

    def prepare(self, origin: AppendOrigin = AppendOrigin.CLIENT) -> ProducerAppendInfo:
        current = self.state.producers.get(PRODUCER)
        return ProducerAppendInfo(self.state.topic_partition, PRODUCER, current, origin)

    def add(
        self,
        append: ProducerAppendInfo,
        sequence: int,
        count: int = 1,
        *,
        epoch: int = 0,
        transactional: bool = False,
    ) -> None:
        batch = batch_of(
            *[b""] * count,
            timestamp=100 + self.end,
            producer=(PRODUCER, epoch, sequence),
            is_transactional=transactional,
        )
        append.add_batch(RecordBatch(with_fields(batch, base_offset=self.end)))
        self.end += count

    def write(
        self,
        sequence: int,
        count: int = 1,
        *,
        epoch: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transactional: bool = False,
    ) -> None:
        append = self.prepare(origin)
        self.add(append, sequence, count, epoch=epoch, transactional=transactional)
        self.state.update(append)

    def mark(
        self,
        *,
        abort: bool,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        version: int = 0,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
    ) -> CompletedTransaction | None:
        append = self.prepare(origin)
        control_type = ControlRecordType.ABORT if abort else ControlRecordType.COMMIT
        completed = append.add_marker(
            EndTxnMarker(control_type, coordinator_epoch),
            producer_epoch=epoch,
            offset=self.end,
            timestamp=100 + self.end,
            transaction_version=version,
        )
        self.end += 1
        self.state.update(append)
        if completed is not None:
            self.state.complete(completed)
        return completed

    @property
    def entry(self) -> ProducerStateEntry:
        return self.state.producers[PRODUCER]


@pytest.fixture
def partition() -> Partition:
    return Partition()


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


@pytest.mark.parametrize("first", [0, 5, MAX])
def test_an_unknown_producer_may_start_anywhere(partition: Partition, first: int) -> None:
    partition.write(first)
    assert partition.entry.last_sequence == first


@pytest.mark.parametrize(
    ("first", "count", "following"), [(0, 1, 1), (0, 10, 10), (MAX, 1, 0), (MAX - 1, 3, 1), (MAX - 1, 2, 0)]
)
def test_a_sequence_goes_on_and_wraps(partition: Partition, first: int, count: int, following: int) -> None:
    partition.write(first, count)
    for wrong in {following - 1, following + 1, following + 100} - {-1}:
        with pytest.raises(KafkaError) as refused:
            partition.write(wrong)
        assert code_of(refused) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.write(following)


def test_a_new_epoch_starts_at_zero(partition: Partition) -> None:
    partition.write(0, 5)
    with pytest.raises(KafkaError) as refused:
        partition.write(5, epoch=1)
    assert code_of(refused) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.write(0, epoch=1)
    assert list(partition.entry.batches) == [BatchMetadata(0, 5, 0, 105)]


def test_an_older_epoch_is_fenced(partition: Partition) -> None:
    partition.write(0, epoch=3)
    with pytest.raises(KafkaError) as refused:
        partition.write(1, epoch=2)
    assert code_of(refused) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_is_replicated_is_not_questioned(partition: Partition) -> None:
    partition.write(0, epoch=3)
    partition.write(77, epoch=3, origin=AppendOrigin.REPLICATION)
    partition.write(5, epoch=2, origin=AppendOrigin.REPLICATION)
    assert partition.entry.producer_epoch == 2
    assert partition.entry.last_sequence == 5


def test_coordinators_have_epochs_but_no_sequences(partition: Partition) -> None:
    partition.write(-1, epoch=3, origin=AppendOrigin.COORDINATOR)
    partition.write(-1, epoch=3, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(KafkaError) as refused:
        partition.write(-1, epoch=2, origin=AppendOrigin.COORDINATOR)
    assert code_of(refused) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_last_five_batches_are_recognised(partition: Partition) -> None:
    for number in range(7):
        partition.write(number * 10, 10)
    entry = partition.entry
    for number in range(7):
        found = entry.find_duplicate(0, number * 10, number * 10 + 9)
        if number < 2:
            assert found is None
        else:
            assert found is not None
            assert (found.first_offset, found.last_offset) == (number * 10, number * 10 + 9)
    assert entry.find_duplicate(0, 60, 68) is None
    assert entry.find_duplicate(0, 61, 69) is None
    assert entry.find_duplicate(1, 60, 69) is None


def test_a_duplicate_across_the_wrap_is_recognised(partition: Partition) -> None:
    partition.write(MAX - 1, 4)
    found = partition.entry.find_duplicate(0, MAX - 1, 1)
    assert found is not None
    assert found.first_sequence == MAX - 1


def test_batches_of_one_append_follow_each_other(partition: Partition) -> None:
    append = partition.prepare()
    partition.add(append, 0, 3)
    partition.add(append, 3, 2)
    with pytest.raises(KafkaError):
        partition.add(append, 6)
    partition.state.update(append)
    assert [batch.last_sequence for batch in partition.entry.batches] == [2, 4]


def test_a_refused_append_changes_nothing(partition: Partition) -> None:
    partition.write(0)
    before = repr(partition.entry)
    with pytest.raises(KafkaError):
        partition.write(9)
    assert repr(partition.entry) == before


def test_an_open_transaction_holds_the_first_unstable_offset(partition: Partition) -> None:
    partition.write(0, 2)
    assert partition.state.first_unstable_offset is None
    partition.write(2, 3, transactional=True)
    partition.write(5, 1, transactional=True)
    assert partition.state.first_unstable_offset == 2
    assert partition.mark(abort=True) == CompletedTransaction(PRODUCER, 2, 6, True)
    assert partition.state.first_unstable_offset == 2
    partition.state.high_watermark_moved(6)
    assert partition.state.first_unstable_offset == 2
    partition.state.high_watermark_moved(7)
    assert partition.state.first_unstable_offset is None


def test_writes_outside_an_open_transaction_are_refused(partition: Partition) -> None:
    partition.write(0, transactional=True)
    with pytest.raises(KafkaError) as refused:
        partition.write(1)
    assert code_of(refused) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_without_a_transaction_completes_none(partition: Partition) -> None:
    partition.write(0)
    assert partition.mark(abort=True) is None
    partition.write(1)


def test_an_older_coordinator_is_fenced(partition: Partition) -> None:
    partition.write(0, transactional=True)
    partition.mark(abort=False, coordinator_epoch=4)
    partition.write(1, transactional=True)
    with pytest.raises(KafkaError) as refused:
        partition.mark(abort=False, coordinator_epoch=3)
    assert code_of(refused) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize("coordinator_epoch", [4, 5])
def test_the_same_coordinator_and_a_newer_one_may_repeat_a_marker(
    partition: Partition, coordinator_epoch: int
) -> None:
    partition.write(0, transactional=True)
    partition.mark(abort=False, coordinator_epoch=4)
    assert partition.mark(abort=False, coordinator_epoch=coordinator_epoch) is None
    assert partition.entry.coordinator_epoch == coordinator_epoch


@pytest.mark.parametrize("has_data", [True, False], ids=["data before", "nothing before"])
def test_a_marker_of_a_newer_epoch_starts_the_sequence_anew(partition: Partition, has_data: bool) -> None:
    """Also where retention has left nothing but the marker: it fences, and the next sequence is 0."""
    if has_data:
        partition.write(0, 5, transactional=True)
    partition.mark(abort=True, epoch=1)
    assert not partition.entry.batches
    for epoch, sequence, code in (
        (0, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (2, 5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ):
        with pytest.raises(KafkaError) as refused:
            partition.write(sequence, epoch=epoch)
        assert code_of(refused) is code
    partition.write(0, epoch=1)


@pytest.mark.parametrize(
    ("is_open", "known", "marked", "version", "code"),
    [
        (True, 3, 2, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (True, 3, 3, 0, None),
        (True, 3, 3, 1, None),
        (True, 3, 4, 1, None),
        (True, 3, 2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (True, 3, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (True, 3, 4, 2, None),
        (False, 3, 2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (False, 3, 3, 2, None),
        (False, 3, 4, 2, None),
        (True, 32766, 32766, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (True, 32766, 32767, 2, None),
        (True, 32767, 32767, 2, None),
    ],
)
def test_a_marker_must_have_the_epoch_of_its_version(
    partition: Partition, is_open: bool, known: int, marked: int, version: int, code: ErrorCode | None
) -> None:
    partition.write(0, epoch=known, transactional=is_open)
    if code is None:
        completed = partition.mark(abort=True, epoch=marked, version=version)
        assert (completed is not None) is is_open
        assert partition.entry.producer_epoch == marked
        assert partition.entry.current_txn_first_offset == -1
        return
    before = repr(partition.entry)
    with pytest.raises(KafkaError) as refused:
        partition.mark(abort=True, epoch=marked, version=version)
    assert code_of(refused) is code
    assert repr(partition.entry) == before


def test_a_replicated_marker_is_not_questioned(partition: Partition) -> None:
    partition.write(0, epoch=3, transactional=True)
    partition.mark(abort=False, epoch=3, coordinator_epoch=9, origin=AppendOrigin.REPLICATION)
    partition.write(1, epoch=3, transactional=True)
    completed = partition.mark(
        abort=True, epoch=2, coordinator_epoch=8, version=2, origin=AppendOrigin.REPLICATION
    )
    assert completed == CompletedTransaction(PRODUCER, 2, 3, True)


def test_silent_producers_expire_unless_a_transaction_is_open(partition: Partition) -> None:
    partition.write(0)
    assert partition.state.remove_expired(1099) == 0
    assert partition.state.remove_expired(1100) == 1
    assert not partition.state.producers
    partition.write(8, transactional=True)  # It is unknown now, and may go on anywhere.
    assert partition.state.remove_expired(10**9) == 0


def test_the_last_stable_offset_is_that_of_the_oldest_other_transaction(partition: Partition) -> None:
    state = partition.state
    partition.write(0, transactional=True)
    other = ProducerAppendInfo(state.topic_partition, 8, None, AppendOrigin.CLIENT)
    batch = batch_of(b"", timestamp=1, producer=(8, 0, 0), is_transactional=True)
    other.add_batch(RecordBatch(with_fields(batch, base_offset=5)))
    state.update(other)
    assert state.last_stable_offset(CompletedTransaction(PRODUCER, 0, 9, True)) == 5
    assert state.last_stable_offset(CompletedTransaction(8, 5, 9, True)) == 0


def test_one_append_may_end_and_begin_several_transactions(partition: Partition) -> None:
    """As a follower's does. Markers of nothing end none."""
    partition.write(0, 5, transactional=True)
    append = partition.prepare(AppendOrigin.REPLICATION)
    ended = []

    def mark(offset: int, control_type: ControlRecordType) -> None:
        marker = EndTxnMarker(control_type, 0)
        ended.append(
            append.add_marker(marker, producer_epoch=0, offset=offset, timestamp=9, transaction_version=0)
        )
        partition.end = offset + 1

    mark(5, ControlRecordType.COMMIT)
    mark(6, ControlRecordType.COMMIT)
    mark(7, ControlRecordType.ABORT)
    partition.add(append, 5, 4, transactional=True)
    mark(12, ControlRecordType.ABORT)
    mark(13, ControlRecordType.ABORT)
    partition.add(append, 9, 2, transactional=True)
    assert ended == [
        CompletedTransaction(PRODUCER, 0, 5, False),
        None,
        None,
        CompletedTransaction(PRODUCER, 8, 12, True),
        None,
    ]
    assert append.started_transactions == [8, 14]
    partition.state.update(append)
    for each in ended:
        if each is not None:
            partition.state.complete(each)
    partition.state.high_watermark_moved(16)
    assert partition.state.first_unstable_offset == 14
    assert partition.entry.current_txn_first_offset == 14
