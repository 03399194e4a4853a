"""Narrowing is sound: no row that passes a filter lies outside of what it leaves to read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.topics import TopicPartition
from kcli.spark.filters.pushdown import Narrowing, narrowing_of
from kcli.spark.filters.where import Comparison, Condition, In, parse_where

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("offset > 5", Narrowing(min_offset=6)),
        ("offset >= 5.5 and offset <= 7.5", Narrowing(min_offset=6, end_offset=8)),
        ("offset = 5", Narrowing(min_offset=5, end_offset=6)),
        ("offset in (9, 4, 6)", Narrowing(min_offset=4, end_offset=10)),
        (
            "offset > 5 and offset > 9 and offset < 20 and offset < 11",
            Narrowing(min_offset=10, end_offset=11),
        ),
        ("timestamp >= '1970-01-01T00:00:00.0015'", Narrowing(min_timestamp_ms=2)),
        ("timestamp > 5", Narrowing(min_timestamp_ms=6)),
        ("timestamp = 5", Narrowing(min_timestamp_ms=5)),
        ("offset != 5 and timestamp < 9 and key is null and value.offset = 5", None),
        ("offset = 'x'", None),
        ("offset not in (1, 2)", None),
    ],
)
def test_what_conjuncts_say_of_places(where: str, expected: Narrowing | None) -> None:
    assert narrowing_of(parse_where(where)) == expected


@pytest.mark.parametrize(
    ("where", "allowed"),
    [
        ("topic = 'a'", ["a-0", "a-1"]),
        ("topic != 'a'", ["b-0", "b-1"]),
        ("partition >= 1", ["a-1", "b-1"]),
        ("topic in ('b', 'c') and partition = 0", ["b-0"]),
        ("partition not in (0)", ["a-1", "b-1"]),
        ("topic > 'a'", ["b-0", "b-1"]),
        ("partition = '0' and offset > 0", ["a-0", "a-1", "b-0", "b-1"]),
    ],
)
def test_partitions_that_cannot_pass_are_not_read(where: str, allowed: list[str]) -> None:
    narrowing = narrowing_of(parse_where(where))
    assert narrowing is not None
    partitions = [TopicPartition(topic, index) for topic in "ab" for index in (0, 1)]
    assert [f"{one.topic}-{one.partition}" for one in partitions if narrowing.allows(one)] == allowed


operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
numbers = st.integers(-3, 12) | st.sampled_from([2.5, -0.5, 7.0])
moments = st.integers(0, 12_000).map(lambda us: EPOCH + timedelta(microseconds=us))
conditions = st.one_of(
    st.builds(Comparison, st.just(("offset",)), operators, numbers),
    st.builds(Comparison, st.just(("partition",)), operators, numbers),
    st.builds(Comparison, st.just(("timestamp",)), operators, moments),
    st.builds(In, st.sampled_from([("offset",), ("partition",)]), st.lists(numbers, min_size=1).map(tuple),
              st.booleans()),
)  # fmt: skip


@given(
    filters=st.lists(conditions, min_size=1, max_size=4),
    times_ms=st.lists(st.integers(0, 12), min_size=1, max_size=10),
)
def test_every_row_that_passes_is_read(filters: list[Condition], times_ms: list[int]) -> None:
    narrowing = narrowing_of(filters) or Narrowing()
    since = narrowing.min_timestamp_ms
    begin = 0
    if since is not None:
        begin = next((offset for offset, time in enumerate(times_ms) if time >= since), len(times_ms))
    for partition in (0, 1):
        for offset, time in enumerate(times_ms):
            row = {
                "offset": offset, "partition": partition, "timestamp": EPOCH + timedelta(milliseconds=time),
            }  # fmt: skip
            if all(passes(row[one.column[0]], one) for one in filters):  # type: ignore[union-attr]
                assert narrowing.allows(TopicPartition("t", partition))
                assert max(begin, narrowing.min_offset or 0) <= offset
                assert narrowing.end_offset is None or offset < narrowing.end_offset


def passes(actual: object, one: Condition) -> bool:
    match one:
        case In(_, values, negated):
            return (actual in values) != negated
        case Comparison(_, operator, value):
            sign = "==" if operator == "=" else operator
            return bool(eval(f"actual {sign} value", {"actual": actual, "value": value}))
    raise AssertionError(one)
