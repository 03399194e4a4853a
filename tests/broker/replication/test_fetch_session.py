"""Fetch sessions: what a fetcher need not repeat, and what it is not told twice."""

from __future__ import annotations

from itertools import count

import pytest

from kcli.broker.replication.fetch_data import FetchedPartition, FetchPartition, FetchPartitionKey
from kcli.broker.replication.fetch_session import EVICTION_MS, NO_SESSION, FetchContext, FetchSessionCache
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.uuids import ZERO_UUID

TOPIC_ID = bytes(range(16))


def cache(slots: int = 10) -> FetchSessionCache:
    ids = count(100)
    return FetchSessionCache(slots, lambda: next(ids))


def wanted(
    *indexes: int, offset: int = 0, topic_id: bytes = ZERO_UUID
) -> dict[FetchPartitionKey, FetchPartition]:
    partitions = [FetchPartition("t", topic_id, index, offset, 1000) for index in indexes]
    return {partition.key: partition for partition in partitions}


def read(
    context: FetchContext, *, high_watermark: int = 5, with_data: tuple[int, ...] = ()
) -> list[FetchedPartition]:
    rows = []
    for partition in context.partitions:
        row = FetchedPartition(partition)
        row.high_watermark, row.log_start_offset = high_watermark, 0
        row.size = 10 if partition.index in with_data else 0
        rows.append(row)
    return rows


def opened(sessions: FetchSessionCache, *indexes: int, now_ms: int = 0, privileged: bool = False) -> int:
    context = sessions.open(
        NO_SESSION, 0, wanted(*indexes), uses_topic_ids=False, privileged=privileged, now_ms=now_ms
    )
    error, session_id, _ = context.answer(read(context), now_ms)
    assert error == ErrorCode.NONE
    return session_id


def test_a_full_fetch_opens_a_session_and_answers_everything() -> None:
    sessions = cache()
    context = sessions.open(NO_SESSION, 0, wanted(0, 1), uses_topic_ids=False, now_ms=0)
    error, session_id, rows = context.answer(read(context), 0)
    assert (error, session_id, len(rows), len(sessions), sessions.partition_count) == (0, 100, 2, 1, 2)


def test_a_final_fetch_closes_its_session_and_opens_none() -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    context = sessions.open(session_id, -1, wanted(0), uses_topic_ids=False, now_ms=0)
    assert context.answer(read(context), 0)[1] == NO_SESSION
    assert len(sessions) == 0


def test_an_incremental_fetch_answers_only_news() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 1, 2)
    context = sessions.open(session_id, 1, {}, uses_topic_ids=False, now_ms=1)
    error, answered_id, rows = context.answer(read(context), 1)
    assert (error, answered_id, rows) == (0, session_id, [])
    context = sessions.open(session_id, 2, wanted(1, offset=7), uses_topic_ids=False, now_ms=2)
    assert [partition.fetch_offset for partition in context.partitions] == [0, 7, 0]
    rows = context.answer(read(context, with_data=(0,)), 2)[2]
    assert [row.request.index for row in rows] == [0]
    # What brought data goes to the end of the next round.
    context = sessions.open(session_id, 3, {}, uses_topic_ids=False, now_ms=3)
    assert [partition.index for partition in context.partitions] == [1, 2, 0]
    rows = context.answer(read(context, high_watermark=6), 3)[2]
    assert [row.request.index for row in rows] == [1, 2, 0]


def test_an_error_is_answered_each_time_and_so_is_its_end() -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    for epoch, error_code, answered in [(1, 6, 1), (2, 6, 1), (3, 0, 1), (4, 0, 0)]:
        context = sessions.open(session_id, epoch, {}, uses_topic_ids=False, now_ms=0)
        rows = read(context)
        rows[0].error_code = error_code
        assert len(context.answer(rows, 0)[2]) == answered


def test_partitions_are_added_and_forgotten() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 1)
    forgotten = list(wanted(0))
    context = sessions.open(session_id, 1, wanted(5), forgotten, uses_topic_ids=False, now_ms=0)
    assert [partition.index for partition in context.partitions] == [1, 5]
    context.answer(read(context), 0)
    context = sessions.open(session_id, 2, {}, list(wanted(1, 5)), uses_topic_ids=False, now_ms=0)
    assert context.answer(read(context), 0)[1:] == (NO_SESSION, [])
    assert len(sessions) == 0


@pytest.mark.parametrize(
    ("session_id", "epoch", "uses_topic_ids", "error"),
    [
        (999, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (100, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (100, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_wrong_session_is_an_error(
    session_id: int, epoch: int, uses_topic_ids: bool, error: ErrorCode
) -> None:
    sessions = cache()
    opened(sessions, 0)
    context = sessions.open(session_id, epoch, wanted(0), uses_topic_ids=uses_topic_ids, now_ms=0)
    assert list(context.partitions) == []
    assert context.answer([], 0) == (error, NO_SESSION, [])


def test_the_same_request_twice_is_answered_once() -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    first = sessions.open(session_id, 1, {}, uses_topic_ids=False, now_ms=0)
    sessions.open(session_id, 2, {}, uses_topic_ids=False, now_ms=0)
    error, _, rows = first.answer(read(first, with_data=(0,)), 0)
    assert (error, rows) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])


def test_the_epoch_wraps_to_one() -> None:
    sessions = cache()
    session_id = opened(sessions, 0)
    sessions._sessions[session_id].epoch = 2**31 - 1
    sessions.open(session_id, 2**31 - 1, {}, uses_topic_ids=False, now_ms=0)
    assert sessions.open(session_id, 1, {}, uses_topic_ids=False, now_ms=0).error == ErrorCode.NONE


def test_a_partition_named_by_id_is_the_same_under_any_name() -> None:
    sessions = cache()
    context = sessions.open(NO_SESSION, 0, wanted(0, topic_id=TOPIC_ID), uses_topic_ids=True, now_ms=0)
    session_id = context.answer(read(context), 0)[1]
    nameless = FetchPartition(None, TOPIC_ID, 0, 9, 1000)
    context = sessions.open(session_id, 1, {nameless.key: nameless}, uses_topic_ids=True, now_ms=0)
    assert [(p.topic, p.fetch_offset) for p in context.partitions] == [("t", 9)]


def test_a_full_cache_displaces_the_stale_then_the_least_worth() -> None:
    sessions = cache(slots=2)
    assert opened(sessions, 0) == 100
    assert opened(sessions, 0, now_ms=1) == 101
    assert opened(sessions, 0, 1, now_ms=2) == NO_SESSION
    assert opened(sessions, 0, now_ms=EVICTION_MS + 1) == 102  # 100 has not been used for too long
    assert sorted(sessions._sessions) == [101, 102]
    sessions.open(101, 1, {}, uses_topic_ids=False, now_ms=EVICTION_MS + 2)
    assert opened(sessions, 0, 1, now_ms=EVICTION_MS + 3) == 103  # larger than the old 101
    assert opened(sessions, 0, privileged=True, now_ms=EVICTION_MS + 4) == 104  # a follower beats a consumer
    assert opened(sessions, 0, now_ms=EVICTION_MS + 5) == NO_SESSION
    assert sorted(sessions._sessions) == [103, 104]


def test_a_cache_without_slots_opens_none() -> None:
    assert opened(cache(slots=0), 0) == NO_SESSION


def test_all_sessions_together_hold_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.broker.replication.fetch_session.MAX_PARTITIONS", 4)
    sessions = cache()
    first, second = opened(sessions, 0), opened(sessions, 0, 1)
    assert opened(sessions, 0, 1) == NO_SESSION
    grown = sessions.open(first, 1, wanted(1), uses_topic_ids=False, now_ms=0)
    assert grown.error == ErrorCode.NONE
    grown = sessions.open(second, 1, wanted(2), uses_topic_ids=False, now_ms=0)
    assert grown.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.partition_count == 2
