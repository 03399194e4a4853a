"""The JSON forms, and what is none of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import UsageError
from kcli.protocol.topics import TopicPartition
from kcli.spark.source.ranges.json_forms import parse_offsets, parse_partitions, parse_timestamps

partitions = st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1))


def test_partitions_are_read_in_order_and_once() -> None:
    assert parse_partitions('{"b":[1,0,1],"a":[2]}', "assign") == (("a", 2), ("b", 0), ("b", 1))


def test_offsets_may_be_text_as_jackson_allows() -> None:
    assert parse_offsets('{"t": {"0": 23, "1": "-2"}}', "startingOffsets") == {("t", 0): 23, ("t", 1): -2}


@given(st.dictionaries(partitions, st.integers(-2, 2**63 - 1)))
def test_offsets_survive_a_round_trip(offsets: dict[TopicPartition, int]) -> None:
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, {})[str(partition)] = offset
    assert parse_offsets(json.dumps(by_topic), "x") == offsets


@pytest.mark.parametrize(
    "text",
    [
        "", "latest", "[]", "1", '{"t":', '{"t":1}', '{"t":[0]}', '{"t":{"0":1.5}}', '{"t":{"0":true}}',
        '{"t":{"0":null}}', '{"t":{"x":1}}', '{"t":{"-1":1}}', '{"t":{"0":9223372036854775808}}',
        '{"t":{"2147483648":1}}', '{"t":{"0":"1_0"}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_offsets_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="invalid value for `startingOffsets`") as refused:
        parse_offsets(text, "startingOffsets")
    assert refused.value.hint == 'use JSON like {"orders": {"0": 23, "1": -2}}'
    assert len(refused.value.message) < 300


@pytest.mark.parametrize("text", ['{"t":{"0":1}}', '{"t":["x"]}', '{"t":[-1]}', '{"t":[0.5]}', '["t"]'])
def test_what_is_no_partitions_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid value for `assign`"):
        parse_partitions(text, "assign")


def test_timestamps_have_an_example_of_their_own() -> None:
    with pytest.raises(UsageError) as refused:
        parse_timestamps("nonsense", "endingOffsetsByTimestamp")
    assert refused.value.hint is not None
    assert "1700000000000" in refused.value.hint


def test_an_offset_that_cannot_be_is_wrong_usage() -> None:
    """Not lost data."""
    with pytest.raises(UsageError, match="invalid value for `startingOffsets`: t-0 cannot be at offset -3"):
        parse_offsets('{"t": {"0": -3}}', "startingOffsets")
    assert parse_timestamps('{"t": {"0": -3}}', "startingOffsetsByTimestamp") == {("t", 0): -3}
