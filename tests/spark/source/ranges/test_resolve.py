"""From what was asked for to intervals: every spec, every loss, every position of an earlier run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcli.errors import KcliError, UsageError
from kcli.protocol.topics import TopicPartition
from kcli.spark.filters.pushdown import narrowing_of
from kcli.spark.filters.where import parse_where
from kcli.spark.source.data_loss import DataLoss, Loss, TopicReset
from kcli.spark.source.ranges.offset_specs import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Latest,
    OffsetSpec,
    OnNoMatch,
    OnReset,
    RangeRules,
)
from kcli.spark.source.ranges.resolve import Resolved, resolve
from kcli.spark.source.ranges.selection import Assign, Subscribe
from kcli.spark.split import BatchMark
from tests.spark.source.ranges.static_source import StaticSource

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
SOURCE = StaticSource(
    {A: (10, 100), B: (0, 50)},
    stable={A: 90},
    times={A: [(1000, 10), (2000, 40), (5000, 95)], B: [(1000, 0), (3000, 30)]},
)
TOLERANT = RangeRules(fail_on_data_loss=False)


def found(rules: RangeRules, positions: dict[TopicPartition, int] | None = None) -> Resolved:
    return resolve(SOURCE, Subscribe(("t",)), rules, positions=positions)


def intervals(rules: RangeRules, positions: dict[TopicPartition, int] | None = None) -> list[tuple[int, int]]:
    ranges = found(rules, positions).ranges
    return [(ranges[one].start, ranges[one].end) for one in (A, B)]


@pytest.mark.parametrize(
    ("starting", "ending", "expected"),
    [
        pytest.param(None, None, [(10, 100), (0, 50)], id="everything"),
        pytest.param(AtOffsets({A: 20, B: -2}), None, [(20, 100), (0, 50)], id="from offsets"),
        pytest.param(AtOffsets({A: 20, B: 50}), None, [(20, 100), (50, 50)], id="from the end"),
        pytest.param(None, AtOffsets({A: 20, B: -1}), [(10, 20), (0, 50)], id="to offsets"),
        pytest.param(AtTimestamp(2000), None, [(40, 100), (30, 50)], id="from a time"),
        pytest.param(AtTimestamps({A: 5000, B: 0}), None, [(95, 100), (0, 50)], id="from times"),
        pytest.param(None, AtTimestamp(2000), [(10, 40), (0, 30)], id="to a time"),
        pytest.param(None, AtTimestamp(4000), [(10, 95), (0, 50)], id="an end time later than all"),
        pytest.param(AtTimestamp(1000), AtTimestamp(3000), [(10, 95), (0, 30)], id="between times"),
        pytest.param(Latest(), None, [(100, 100), (50, 50)], id="latest"),
    ],
)
def test_specs_become_intervals(
    starting: OffsetSpec | None, ending: OffsetSpec | None, expected: list[tuple[int, int]]
) -> None:
    rules = RangeRules()
    rules = replace(rules, starting=starting or rules.starting, ending=ending or rules.ending)
    assert intervals(rules) == expected
    assert found(rules).losses == ()


def test_read_committed_ends_at_the_last_stable_offset() -> None:
    assert intervals(RangeRules(read_committed=True)) == [(10, 90), (0, 50)]
    assert intervals(RangeRules(read_committed=True, ending=AtTimestamp(5000)))[0] == (10, 90)


def test_a_start_newer_than_all_is_an_error_or_the_end() -> None:
    rules = RangeRules(starting=AtTimestamp(4000))
    with pytest.raises(KcliError, match="no record of t-1 is as new"):
        found(rules)
    assert intervals(replace(rules, on_no_match=OnNoMatch.LATEST)) == [(95, 100), (50, 50)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (AtOffsets({A: 20}), "the starting offsets leave out t-1"),
        (AtOffsets({A: 20, B: 0, TopicPartition("u", 0): 1}), "not read or does not exist: u-0"),
        (AtTimestamps({B: 20}), "the starting offsets leave out t-0"),
    ],
)
def test_specs_name_what_is_selected(spec: OffsetSpec, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        found(RangeRules(starting=spec))


@pytest.mark.parametrize(
    ("starting", "ending"),
    [(AtOffsets({A: 50, B: 0}), AtTimestamp(2000)), (AtOffsets({A: 50, B: 0}), AtOffsets({A: 40, B: 9}))],
)
def test_a_start_behind_the_end_is_an_error(starting: OffsetSpec, ending: OffsetSpec) -> None:
    with pytest.raises(KcliError, match="the start of t-0 is behind its end: 50 > 40"):
        found(RangeRules(starting=starting, ending=ending))


LOSSES = {
    "start before the first": (
        RangeRules(starting=AtOffsets({A: 4, B: 0})), None,
        "cannot read all of t-0: offsets 4 to 9 are gone, the first is 10",
        [(10, 100), (0, 50)], [(A, 4, 10)],
    ),
    "all of it before the first": (
        RangeRules(starting=AtOffsets({A: 4, B: 0}), ending=AtOffsets({A: 7, B: 1})), None,
        "cannot read all of t-0: offsets 4 to 6 are gone, the first is 10",
        [(7, 7), (0, 1)], [(A, 4, 7)],
    ),
    "end behind the last": (
        RangeRules(ending=AtOffsets({A: 101, B: 1})), None,
        "cannot read all of t-0: it ends at offset 100, before the end 101",
        [(10, 100), (0, 1)], [(A, 100, 101)],
    ),
    "start behind the last": (
        RangeRules(starting=AtOffsets({A: 101, B: 1})), None,
        "cannot read all of t-0: it ends at offset 100, before the start 101",
        [(100, 100), (1, 50)], [(A, 100, 101)],
    ),
    "a position before the first": (
        RangeRules(), {A: 7, B: 50},
        "cannot read all of t-0: offsets 7 to 9 are gone, the first is 10",
        [(10, 100), (50, 50)], [(A, 7, 10)],
    ),
    "a new partition that begins late": (
        RangeRules(), {B: 5},
        "cannot read all of t-0: it is new, and begins at offset 10 already",
        [(10, 100), (5, 50)], [(A, 0, 10)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LOSSES)
def test_lost_data_is_an_error_or_counted(case: str) -> None:
    rules, positions, message, expected, lost = LOSSES[case]
    with pytest.raises(DataLoss) as failed:
        found(rules, positions)
    assert failed.value.message == message
    resolved = found(replace(rules, fail_on_data_loss=False), positions)
    assert [tuple(resolved.ranges[one]) for one in (A, B)] == expected
    assert [(loss.partition, loss.start, loss.end) for loss in resolved.losses] == lost


def test_what_does_not_exist_is_an_error_or_left_out() -> None:
    with pytest.raises(DataLoss, match="no such topic: gone"):
        resolve(SOURCE, Subscribe(("t", "gone")), RangeRules())
    with pytest.raises(DataLoss, match="no such partition: t-5"):
        resolve(SOURCE, Assign((A, TopicPartition("t", 5))), RangeRules())
    resolved = resolve(SOURCE, Subscribe(("t", "gone")), TOLERANT)
    assert list(resolved.ranges) == [A, B]
    assert resolved.losses == (Loss(TopicPartition("gone", -1), 0, 0, "it does not exist"),)


def test_nothing_selected_is_nothing_to_read() -> None:
    assert resolve(SOURCE, Subscribe(("gone",)), TOLERANT).ranges == {}


# --- going on ----------------------------------------------------------------------------------------------


def test_positions_win_over_the_start() -> None:
    rules = RangeRules(starting=AtOffsets({A: 20, B: 0}))
    assert intervals(rules, {A: 60, B: 50}) == [(60, 100), (50, 50)]
    assert intervals(RangeRules(starting=AtTimestamp(9999)), {A: 60, B: 50}) == [(60, 100), (50, 50)]


def test_a_new_topic_begins_as_the_rules_say() -> None:
    positions = {TopicPartition("other", 0): 5}
    assert intervals(RangeRules(starting=AtOffsets({A: 20, B: 30})), positions) == [(20, 100), (30, 50)]


def test_an_end_before_the_position_is_nothing_to_do() -> None:
    resolved = found(RangeRules(ending=AtTimestamp(2000)), {A: 60, B: 50})
    assert [tuple(resolved.ranges[one]) for one in (A, B)] == [(60, 60), (50, 50)]
    assert resolved.next_positions == {A: 60, B: 50}


def test_a_position_behind_the_end_is_always_an_error_unless_reset() -> None:
    with pytest.raises(TopicReset, match="t-1 ends at offset 50, but offsets before 51 were read already"):
        found(TOLERANT, {A: 60, B: 51})
    assert intervals(RangeRules(on_reset=OnReset.EARLIEST), {A: 60, B: 51}) == [(60, 100), (0, 50)]


def test_a_position_inside_an_open_transaction_is_no_reset() -> None:
    assert intervals(RangeRules(read_committed=True), {A: 95, B: 50}) == [(95, 95), (50, 50)]
    with pytest.raises(TopicReset):
        found(RangeRules(read_committed=True), {A: 101, B: 50})


TRUNCATED = replace(SOURCE, other_from={A: 40})
READ = {A: (BatchMark(69, 3),), B: (BatchMark(49, 3),)}


def truncated(rules: RangeRules, position: int = 70) -> Resolved:
    return resolve(TRUNCATED, Subscribe(("t",)), rules, positions={A: position, B: 50}, marks=READ)


def test_another_log_below_a_position_is_an_error_that_names_the_offsets() -> None:
    with pytest.raises(DataLoss) as failed:
        truncated(RangeRules())
    assert failed.value.message == (
        "t-0 is not what it was: the log was truncated, offsets 40 to 69 are others than those read before"
    )
    assert failed.value.hint is not None
    assert "--no-fail-on-data-loss" in failed.value.hint
    assert "--on-reset replace" in failed.value.hint


def test_another_log_is_read_from_the_position_on_if_loss_is_allowed() -> None:
    resolved = truncated(TOLERANT)
    assert resolved.ranges[A] == (70, 100)
    assert [(loss.partition, loss.start, loss.end) for loss in resolved.losses] == [(A, 40, 70)]
    assert resolved.changed == {A}


def test_another_log_is_read_from_its_beginning_after_a_reset() -> None:
    resolved = truncated(RangeRules(on_reset=OnReset.EARLIEST))
    assert (resolved.ranges[A], resolved.losses, resolved.changed) == ((10, 100), (), {A})


def test_a_log_that_is_another_one_only_behind_the_position_has_all_that_was_read() -> None:
    resolved = truncated(RangeRules(), position=40)
    assert (resolved.ranges[A], resolved.changed) == ((40, 100), frozenset())


# --- narrowing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("offset >= 20", [(20, 100), (20, 50)]),
        ("offset > 20 and offset < 60", [(21, 60), (21, 50)]),
        ("partition = 1", [(100, 100), (0, 50)]),
        ("partition in (0, 7) and offset <= 12", [(10, 13), (50, 50)]),
        ("topic = 'other'", [(100, 100), (50, 50)]),
        ("timestamp >= 2000", [(40, 100), (30, 50)]),
        ("timestamp > 3000", [(95, 100), (50, 50)]),
        ("offset >= 1000", [(100, 100), (50, 50)]),
        ("upper(topic) = 'T'", [(10, 100), (0, 50)]),
    ],
)
def test_a_filter_narrows_what_is_read_and_not_where_the_next_run_goes_on(
    where: str, expected: list[tuple[int, int]]
) -> None:
    rules = RangeRules(narrowing=narrowing_of(parse_where(where)))
    assert intervals(rules) == expected
    assert found(rules).next_positions == {A: 100, B: 50}


def test_what_a_filter_leaves_out_is_no_loss() -> None:
    starting = AtOffsets({A: 4, B: 0})
    rules = RangeRules(starting=starting, narrowing=narrowing_of(parse_where("offset >= 10")))
    assert intervals(rules) == [(10, 100), (10, 50)]
    with pytest.raises(DataLoss, match="offsets 8 to 9 are gone"):
        found(replace(rules, narrowing=narrowing_of(parse_where("offset >= 8"))))
