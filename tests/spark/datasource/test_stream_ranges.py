"""What streams read: where they begin, how far they go, and what happens to partitions meanwhile."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kcli.protocol.topics import TopicPartition
from kcli.spark.datasource.stream_reader import initial_offsets, latest_offsets, ranges_between
from kcli.spark.source.data_loss import DataLoss
from kcli.spark.source.ranges.offset_specs import AtTimestamp, Earliest, Latest, OnNoMatch, RangeRules
from kcli.spark.source.ranges.selection import Subscribe
from tests.spark.source.ranges.static_source import StaticSource

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
SOURCE = StaticSource({A: (10, 100), B: (0, 50)}, stable={A: 90}, times={A: [(1000, 10), (2000, 40)]})
SELECTION = Subscribe(("t",))


def test_a_stream_begins_where_its_start_says() -> None:
    latest = RangeRules(starting=Latest(), read_committed=True)
    assert initial_offsets(SOURCE, SELECTION, RangeRules(starting=Earliest())) == {A: 10, B: 0}
    assert initial_offsets(SOURCE, SELECTION, latest) == {A: 90, B: 50}
    since = RangeRules(starting=AtTimestamp(1500), on_no_match=OnNoMatch.LATEST)
    assert initial_offsets(SOURCE, SELECTION, since) == {A: 40, B: 50}


def test_ends_are_those_of_the_moment() -> None:
    assert latest_offsets(SOURCE, SELECTION, RangeRules(read_committed=True)) == {A: 90, B: 50}


class StaleSource(StaticSource):
    """Answers with old ends at first."""

    stale = 2

    def latest(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        self.stale -= 1
        found = super().latest(partitions, read_committed=read_committed)
        return {one: end - 5 for one, end in found.items()} if self.stale >= 0 else found


@pytest.mark.parametrize(("attempts", "expected", "pauses"), [(3, 100, 2), (2, 95, 1), (1, 95, 0)])
def test_an_end_that_went_back_is_asked_for_again(attempts: int, expected: int, pauses: int) -> None:
    source = StaleSource({A: (0, 100)})
    paused: list[None] = []
    found = latest_offsets(
        source, SELECTION, RangeRules(), known={A: 98}, attempts=attempts, pause=lambda: paused.append(None)
    )
    assert found == {A: expected}
    assert len(paused) == pauses


def test_a_plan_reads_from_start_to_end() -> None:
    assert ranges_between(SOURCE, {A: 20, B: 0}, {A: 30, B: 0}) == {A: (20, 30), B: (0, 0)}


def test_a_new_partition_is_read_from_its_beginning() -> None:
    assert ranges_between(SOURCE, {A: 20}, {A: 30, B: 7}) == {A: (20, 30), B: (0, 7)}


LOSSES = {
    "a new partition begins late": ({B: 0}, {A: 30, B: 0}, "it is new, and begins at offset 10 already",
                                    {A: (10, 30), B: (0, 0)}),
    "a partition is gone": ({A: 20, B: 0}, {A: 30}, "no such partition: t-1", {A: (20, 30)}),
    "a partition went back": ({A: 20}, {A: 15}, "it went back from offset 20 to 15", {A: (20, 20)}),
}  # fmt: skip


@pytest.mark.parametrize("case", LOSSES)
def test_losses_end_the_stream_or_are_let_pass(case: str) -> None:
    start, end, message, expected = LOSSES[case]
    with pytest.raises(DataLoss, match=message):
        ranges_between(SOURCE, start, end)
    assert ranges_between(SOURCE, start, end, fail_on_data_loss=False) == expected
