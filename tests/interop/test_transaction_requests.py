"""Requests of transactions, right and wrong ones, by raw frames: kcli and Apache Kafka give the same codes.

A producer's id is where a broker has its ids from; epochs and codes are compared with what is written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.raw_client import RawClient
from tests.support.raw_transactions import Outcome, RawTransactions
from tests.support.waiting import first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.conftest import AnyBroker

pytestmark = pytest.mark.interop

ABSENT, LOADING, DENIED, BAD_REQUEST, FENCED_OLD = 3, 14, 29, 42, 47
INVALID_STATE, UNKNOWN_PRODUCER, BAD_TIMEOUT, CONCURRENT = 48, 49, 50, 51
NOT_ATTEMPTED, FENCED, NO_SUCH_ID, NOT_ADDED, BAD_PATTERN = 55, 90, 105, 120, 128
COMMIT, ABORT = True, False


@pytest.fixture(scope="module")
def topics() -> dict[str, str]:
    """The topic of this module on each broker."""
    return {}


@pytest.fixture
def topic(broker: AnyBroker, topics: dict[str, str]) -> str:
    if broker.bootstrap not in topics:
        name = topics[broker.bootstrap] = f"transactions-{uuid4().hex[:8]}"
        with RawClient(broker.bootstrap) as client:
            wanted = CreatableTopic(
                name=name, num_partitions=3, replication_factor=1, assignments=[], configs=[]
            )
            (created,) = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 5).topics
            assert created.error_code == 0
    return topics[broker.bootstrap]


@pytest.fixture
def new(broker: AnyBroker) -> Iterator[Callable[[], RawTransactions]]:
    """Makes a transactional id that nobody has used, whose coordinator is known to be ready."""
    with RawClient(broker.bootstrap) as client:

        def make() -> RawTransactions:
            made = RawTransactions(client, f"raw-{uuid4()}")
            made.find()
            # Until then the coordinator may be loading, or not be known to its node.
            first(lambda: made.describe().error_code, lambda code: code == NO_SUCH_ID, "a loaded coordinator")
            return made

        yield make


def begun(new: Callable[[], RawTransactions]) -> tuple[RawTransactions, int]:
    """Return a new id and its producer id, in epoch 0."""
    raw = new()
    # Apache Kafka answers 14 until its first block of producer ids has come.
    code, producer_id, epoch = first(raw.init, lambda found: found.code != LOADING, "a producer id")
    assert (code, epoch) == (0, 0)
    return raw, producer_id


def ongoing(new: Callable[[], RawTransactions], topic: str) -> tuple[RawTransactions, int]:
    """As `begun`, with a transaction of TV1."""
    raw, producer_id = begun(new)
    assert raw.add((producer_id, 0), (topic, 0)) == [0]
    return raw, producer_id


def ongoing_tv2(new: Callable[[], RawTransactions], topic: str) -> tuple[RawTransactions, int]:
    """As `begun`, with a transaction of TV2."""
    raw, producer_id = begun(new)
    assert raw.add_as_broker((producer_id, 0), (topic, 0)) == [0]
    return raw, producer_id


# --- InitProducerId


def test_a_new_session_has_the_next_epoch(new: Callable[[], RawTransactions]) -> None:
    raw, producer_id = begun(new)
    assert raw.init() == Outcome(0, producer_id, 1)
    assert raw.init((producer_id, 1)) == Outcome(0, producer_id, 2)
    assert raw.init((producer_id, 1)) == Outcome(0, producer_id, 2)  # the first response was lost
    assert raw.init((producer_id, 0)) == Outcome(FENCED)
    assert raw.init((producer_id, 0), version=3) == Outcome(FENCED_OLD)
    assert raw.init((producer_id + 1, 2)) == Outcome(FENCED)
    assert raw.init() == Outcome(0, producer_id, 3)
    assert raw.init((producer_id, 2)) == Outcome(FENCED)  # no pair: nobody asked in the name of epoch 2


def test_wrong_sessions(new: Callable[[], RawTransactions]) -> None:
    raw = new()
    assert raw.init((5, -1)) == Outcome(BAD_REQUEST)
    assert raw.init((-1, 5)) == Outcome(BAD_REQUEST)
    assert raw.init(timeout_ms=0) == Outcome(BAD_TIMEOUT)
    assert raw.init(timeout_ms=-1) == Outcome(BAD_TIMEOUT)
    assert raw.init(timeout_ms=900_001) == Outcome(BAD_TIMEOUT)
    assert RawTransactions(raw.client, "").init() == Outcome(BAD_REQUEST)
    assert raw.describe().error_code == NO_SUCH_ID
    code, _, epoch = raw.init((5, 7), timeout_ms=900_000)  # an id that nobody knows begins anew
    assert (code, epoch) == (0, 0)


def test_a_session_ends_the_open_transaction(new: Callable[[], RawTransactions], topic: str) -> None:
    raw, producer_id = ongoing(new, topic)
    assert raw.init() == Outcome(CONCURRENT)
    assert raw.init_at_last() == Outcome(0, producer_id, 2)
    assert raw.end((producer_id, 0), commit=COMMIT, version=4) == Outcome(FENCED)
    assert raw.end((producer_id, 0), commit=COMMIT, version=1) == Outcome(FENCED_OLD)
    assert raw.end((producer_id, 0), commit=COMMIT, version=5) == Outcome(FENCED)
    assert raw.add((producer_id, 0), (topic, 0)) == [FENCED]
    assert raw.add((producer_id, 0), (topic, 0), version=1) == [FENCED_OLD]
    assert raw.add_offsets((producer_id, 0), "g") == FENCED
    assert raw.add_offsets((producer_id, 0), "g", version=1) == FENCED_OLD


def test_a_producer_that_ends_its_own_transaction_gets_the_epoch_of_the_abort(
    new: Callable[[], RawTransactions], topic: str
) -> None:
    raw, producer_id = ongoing_tv2(new, topic)
    assert raw.init((producer_id, 0)) == Outcome(CONCURRENT)
    assert raw.init_at_last((producer_id, 0)) == Outcome(0, producer_id, 1)


# --- AddPartitionsToTxn, AddOffsetsToTxn


def test_unknown_producers_add_nothing(new: Callable[[], RawTransactions], topic: str) -> None:
    raw = new()
    assert raw.add((1, 0), (topic, 0)) == [UNKNOWN_PRODUCER]
    assert raw.add_as_broker((1, 0), (topic, 0)) == [UNKNOWN_PRODUCER]
    assert raw.add_as_broker((1, 0), (topic, 0), verify_only=True) == [UNKNOWN_PRODUCER]
    assert raw.add_offsets((1, 0), "g") == UNKNOWN_PRODUCER
    assert raw.end((1, 0), commit=COMMIT, version=4) == Outcome(UNKNOWN_PRODUCER)
    assert raw.end((1, 0), commit=COMMIT, version=5) == Outcome(UNKNOWN_PRODUCER)
    raw, producer_id = begun(new)
    assert raw.add((producer_id + 1, 0), (topic, 0)) == [UNKNOWN_PRODUCER]
    assert raw.add((producer_id, 1), (topic, 0)) == [FENCED]
    assert raw.add_offsets((producer_id + 1, 0), "g") == UNKNOWN_PRODUCER
    assert raw.end((producer_id + 1, 0), commit=COMMIT, version=4) == Outcome(UNKNOWN_PRODUCER)
    assert raw.end((producer_id + 1, 0), commit=COMMIT, version=5) == Outcome(UNKNOWN_PRODUCER)
    assert raw.end((producer_id, 1), commit=COMMIT, version=4) == Outcome(FENCED)
    assert raw.describe().transaction_state == "Empty"


def test_one_wrong_partition_spoils_the_request(new: Callable[[], RawTransactions], topic: str) -> None:
    raw, producer_id = begun(new)
    producer = (producer_id, 0)
    assert raw.add(producer, (topic, 0), (topic, 3)) == [NOT_ATTEMPTED, ABSENT]
    assert raw.add(producer, ("absent", 0), (topic, 0)) == [ABSENT, NOT_ATTEMPTED]
    assert raw.add(producer, (topic, 0), ("__transaction_state", 0)) == [NOT_ATTEMPTED, DENIED]
    assert raw.add_as_broker(producer, (topic, 0), (topic, -1)) == [NOT_ATTEMPTED, ABSENT]
    assert raw.add_as_broker(producer, (topic, 0), ("absent", 0), verify_only=True) == [NOT_ATTEMPTED, ABSENT]
    empty = RawTransactions(raw.client, "")
    assert empty.add(producer, (topic, 0)) == [BAD_REQUEST]
    assert empty.add_as_broker(producer, (topic, 0)) == [BAD_REQUEST]
    assert empty.add_as_broker(producer, (topic, 0), verify_only=True) == [BAD_REQUEST]
    assert raw.describe().transaction_state == "Empty"


def test_partitions_are_added_and_verified(new: Callable[[], RawTransactions], topic: str) -> None:
    raw, producer_id = begun(new)
    producer = (producer_id, 0)
    assert raw.add_as_broker(producer, (topic, 0), verify_only=True) == [NOT_ADDED]
    assert raw.add(producer, (topic, 0), (topic, 1)) == [0, 0]
    started = raw.describe().transaction_start_time_ms
    assert raw.add(producer, (topic, 1), version=0) == [0]
    for version in (4, 5):
        codes = raw.add_as_broker(producer, (topic, 1), (topic, 2), verify_only=True, version=version)
        assert codes == [0, NOT_ADDED]
    assert raw.add_as_broker((producer_id, 1), (topic, 0), verify_only=True) == [FENCED]
    assert raw.add_as_broker((producer_id + 1, 0), (topic, 0), verify_only=True) == [UNKNOWN_PRODUCER]
    for version in range(5):
        assert raw.add_offsets(producer, "some group", version) == 0
    state = raw.describe()
    assert (state.error_code, state.transaction_state, state.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (state.producer_id, state.producer_epoch) == producer
    assert state.transaction_start_time_ms == started > 0
    listed = {each.topic: sorted(each.partitions) for each in state.topics}
    assert listed.pop(topic) == [0, 1]
    assert list(listed) == ["__consumer_offsets"]
    assert raw.end(producer, commit=ABORT, version=4).code == 0
    raw.settled("CompleteAbort")


def test_each_transaction_of_a_request_has_its_own_codes(
    new: Callable[[], RawTransactions], topic: str
) -> None:
    (known, producer_id), (other, other_id), unknown = begun(new), begun(new), new()

    def wanted(raw: RawTransactions, producer_id: int, *names: str, verifies: bool = False) -> Any:
        return AddPartitionsToTxnTransaction(
            transactional_id=raw.id,
            producer_id=producer_id,
            producer_epoch=0,
            verify_only=verifies,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names],
        )

    def codes(*transactions: Any, version: int) -> dict[str, set[int]]:
        request = AddPartitionsToTxnRequest(transactions=list(transactions))
        response = known.client.ask(request, version)
        assert response.error_code == 0
        return {
            result.transactional_id: {
                row.partition_error_code for each in result.topic_results for row in each.results_by_partition
            }
            for result in response.results_by_transaction
        }

    for version in (4, 5):
        assert codes(
            wanted(known, producer_id, topic),
            wanted(unknown, producer_id, topic),
            wanted(other, other_id, topic, "absent"),
            version=version,
        ) == {known.id: {0}, unknown.id: {UNKNOWN_PRODUCER}, other.id: {NOT_ATTEMPTED, ABSENT}}
        assert codes(
            wanted(known, producer_id, topic, verifies=True),
            wanted(other, other_id, topic, verifies=True),
            version=version,
        ) == {known.id: {0}, other.id: {NOT_ADDED}}
    assert [each.describe().transaction_state for each in (known, other)] == ["Ongoing", "Empty"]


# --- EndTxn


@pytest.mark.parametrize("version", range(5))
def test_the_end_of_a_transaction_of_the_first_protocol(
    version: int, new: Callable[[], RawTransactions], topic: str
) -> None:
    raw, producer_id = begun(new)
    producer = (producer_id, 0)
    assert raw.end(producer, commit=COMMIT, version=version) == Outcome(INVALID_STATE)
    assert raw.end(producer, commit=ABORT, version=version) == Outcome(INVALID_STATE)
    for commit, state in ((COMMIT, "CompleteCommit"), (ABORT, "CompleteAbort")):
        assert raw.add(producer, (topic, 0)) == [0]
        assert raw.end(producer, commit=commit, version=version) == Outcome(0)
        done = raw.settled(state)
        assert (done.topics, done.producer_epoch) == ([], 0)
        assert done.transaction_start_time_ms > 0
        assert raw.end(producer, commit=commit, version=version) == Outcome(0)
        assert raw.end(producer, commit=not commit, version=version) == Outcome(INVALID_STATE)
    assert RawTransactions(raw.client, "").end(producer, commit=COMMIT, version=version).code == BAD_REQUEST


def test_the_end_of_a_transaction_of_the_second_protocol(
    new: Callable[[], RawTransactions], topic: str
) -> None:
    raw, producer_id = begun(new)
    epoch = 0
    for commit, state in ((COMMIT, "CompleteCommit"), (ABORT, "CompleteAbort")):
        before, after = (producer_id, epoch), (producer_id, epoch + 1)
        assert raw.add_as_broker(before, (topic, 0), (topic, 1)) == [0, 0]
        assert raw.end(after, commit=commit, version=5) == Outcome(FENCED)
        assert raw.end(before, commit=commit, version=5) == Outcome(0, *after)
        assert raw.settled(state).producer_epoch == epoch + 1
        assert raw.end(before, commit=commit, version=5) == Outcome(0, *after)  # the response was lost
        assert raw.end(before, commit=not commit, version=5) == Outcome(INVALID_STATE)
        assert raw.end(after, commit=COMMIT, version=5) == Outcome(INVALID_STATE)
        assert raw.end((producer_id, epoch + 2), commit=ABORT, version=5) == Outcome(FENCED)
        assert raw.add_as_broker(before, (topic, 0)) == [FENCED]
        epoch += 1
    # Without partitions, in case some were added on the way.
    assert raw.end((producer_id, epoch), commit=ABORT, version=5) == Outcome(0, producer_id, epoch + 1)
    assert raw.settled("CompleteAbort").producer_epoch == epoch + 1


def test_an_empty_transaction_of_the_second_protocol_can_only_be_aborted(
    new: Callable[[], RawTransactions],
) -> None:
    raw, producer_id = begun(new)
    assert raw.end((producer_id, 0), commit=COMMIT, version=5) == Outcome(INVALID_STATE)
    assert raw.end((producer_id, -1), commit=COMMIT, version=5) == Outcome(FENCED)
    assert raw.end((producer_id, 0), commit=ABORT, version=5) == Outcome(0, producer_id, 1)
    done = raw.settled("CompleteAbort")
    assert done.transaction_start_time_ms > 0
    assert raw.end((producer_id, 0), commit=ABORT, version=5) == Outcome(0, producer_id, 1)
    assert raw.init((producer_id, 0)) == Outcome(0, producer_id, 1)  # the epoch of the abort again
    assert raw.init((producer_id, 1)) == Outcome(0, producer_id, 2)


# --- listing


def test_ids_are_listed(new: Callable[[], RawTransactions], topic: str) -> None:
    raw, idle = begun(new)
    other, busy = ongoing(new, topic)
    only = (idle, busy)

    def listed(version: int = 2, **filters: object) -> dict[str, tuple[int, str]]:
        response = raw.list(version=version, **{"producer_ids": only, **filters})  # type: ignore[arg-type]
        assert response.error_code == 0
        return {
            each.transactional_id: (each.producer_id, each.transaction_state)
            for each in response.transaction_states
        }

    row, other_row = {raw.id: (idle, "Empty")}, {other.id: (busy, "Ongoing")}
    for version in range(3):
        assert listed(version) == row | other_row
    assert raw.id in {each.transactional_id for each in raw.list().transaction_states}
    assert listed(states=("Ongoing",)) == other_row
    assert listed(states=("Dead", "PrepareEpochFence")) == {}
    assert listed(states=("Ongoing", "Nonsense")) == other_row
    assert raw.list(states=("Ongoing", "Nonsense", "empty")).unknown_state_filters == ["Nonsense", "empty"]
    assert listed(states=("Nonsense",)) == {}
    assert listed(producer_ids=(busy,)) == other_row
    assert listed(duration=0, states=("Empty",)) == row  # what has no start is older than anything
    assert listed(duration=3_600_000) == row
    assert listed(pattern=other.id[:12] + ".*") == other_row
    assert listed(pattern=other.id[:12]) == {}  # the whole id must match
    assert listed(pattern="") == row | other_row
    assert raw.list(pattern="(").error_code == BAD_PATTERN
    assert RawTransactions(raw.client, "").describe().error_code == BAD_REQUEST
    assert other.end((busy, 0), commit=ABORT, version=3).code == 0
