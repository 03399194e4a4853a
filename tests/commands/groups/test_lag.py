"""Lag in records and in time, unknown lags, and the order of the rows."""

from __future__ import annotations

import pytest

from kcli.commands.groups.offsets import (
    Committed,
    Owner,
    PartitionRow,
    longest_time_lag,
    partition_rows,
    total_lag,
    unread_positions,
    with_time_lag,
)
from kcli.commands.shared.formatting import lag_text
from kcli.protocol.topics import TopicPartition

NOW = 1_700_000_000_000


def row(partition: int, current: int | None, end: int | None, lag: int | None) -> PartitionRow:
    return PartitionRow("orders", partition, None, current, end, lag, None, None, None)


def test_members_with_most_partitions_come_first_and_partitions_of_nobody_last() -> None:
    owners = [
        Owner("a", "/h", "one", [("orders", 3)]),
        Owner("b", "/h", "two", [("orders", 10), ("orders", 2), ("clicks", 0)]),
        Owner("c", "/h", "three", [("orders", 4)]),
    ]
    committed: dict[TopicPartition, Committed] = {("zeta", 1): Committed(1), ("alpha", 0): Committed(0)}
    rows = partition_rows(owners, committed, {})
    assert [(row.consumer_id, row.topic, row.partition) for row in rows] == [
        ("b", "clicks", 0),
        ("b", "orders", 2),
        ("b", "orders", 10),
        ("a", "orders", 3),
        ("c", "orders", 4),
        (None, "alpha", 0),
        (None, "zeta", 1),
    ]


@pytest.mark.parametrize(
    ("committed", "end", "lag"),
    [
        (Committed(40), 100, 60),
        (Committed(100), 100, 0),
        (Committed(120), 100, -20),  # as Kafka's tool shows a topic that was created anew
        (Committed(0), 0, 0),
        (None, 100, None),
        (Committed(40), None, None),
    ],
)
def test_the_lag_is_known_with_both_offsets(
    committed: Committed | None, end: int | None, lag: int | None
) -> None:
    owners = [Owner("a", "/h", "one", [("orders", 0)])]
    offsets: dict[TopicPartition, Committed] = {} if committed is None else {("orders", 0): committed}
    (found,) = partition_rows(owners, offsets, {("orders", 0): end})
    assert (found.current_offset, found.log_end_offset, found.lag) == (
        committed and committed.offset,
        end,
        lag,
    )


def test_the_total_counts_each_partition_once_and_nothing_below_zero() -> None:
    assert total_lag([]) is None
    assert total_lag([row(0, None, 5, None)]) is None
    assert total_lag([row(0, 1, 5, 4), row(0, 1, 5, 4), row(1, 9, 5, -4), row(2, None, 5, None)]) == 4


def test_the_first_unread_record_is_not_before_the_first_record() -> None:
    rows = [row(0, 3, 9, 6), row(1, 3, 9, 6), row(2, 9, 9, 0), row(3, None, 9, None)]
    assert unread_positions(rows, {("orders", 0): 0, ("orders", 1): 5}) == {
        ("orders", 0): 3,
        ("orders", 1): 5,
    }


@pytest.mark.parametrize(
    ("found", "lag", "timestamps", "expected"),
    [
        ("an old record waits", 6, {("orders", 0): NOW - 1500}, 1500),
        ("a record from the future", 6, {("orders", 0): NOW + 5}, 0),
        ("a record without a timestamp", 6, {("orders", 0): -1}, None),
        ("only markers are left", 6, {("orders", 0): None}, 0),
        ("the record was not found in time", 6, {}, None),
        ("nothing is unread", 0, {}, 0),
        ("nothing is committed", None, {}, None),
    ],
)
def test_behind_in_time_is_how_long_the_first_unread_record_waits(
    found: str, lag: int | None, timestamps: dict[TopicPartition, int | None], expected: int | None
) -> None:
    (behind,) = with_time_lag([row(0, 3, 9, lag)], timestamps, now_ms=NOW)
    assert behind.time_lag_ms == expected, found


def test_the_longest_time_lag_is_that_of_the_slowest_partition() -> None:
    rows = with_time_lag(
        [row(0, 3, 9, 6), row(1, 3, 9, 6), row(2, None, 9, None)],
        {("orders", 0): NOW - 5, ("orders", 1): NOW - 70},
        now_ms=NOW,
    )
    assert longest_time_lag(rows) == 70
    assert longest_time_lag([row(0, 1, 1, 0)]) is None


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (None, None),
        (0, "0s"),
        (1, "0.1s"),
        (7, "0.1s"),
        (250, "0.2s"),
        (999, "1s"),
        (1_234, "1.2s"),
        (9_949, "9.9s"),
        (9_950, "10s"),
        (12_500, "12s"),
        (59_499, "59s"),
        (59_500, "1m00s"),
        (59_999, "1m00s"),
        (60_000, "1m00s"),
        (3_599_999, "59m59s"),
        (3_600_000, "1h00m"),
        (86_399_999, "23h59m"),
        (93_600_000, "1d02h"),
        (86_400_000 * 400, "400d00h"),
    ],
)
def test_a_duration_is_no_more_precise_than_people_are(duration_ms: int | None, expected: str | None) -> None:
    assert lag_text(duration_ms) == expected
