"""Plans of new offsets: each kind, offsets moved to the ends, and the records to read and skip."""

from __future__ import annotations

import pytest

from kcli.commands.groups.reset_plan import (
    ResetFacts,
    ResetKind,
    ResetRow,
    Scope,
    make_plan,
    parse_scope,
)
from kcli.errors import KcliError, UsageError

ORDERS = ("orders", 0)

FACTS = ResetFacts(
    committed={ORDERS: 40},
    starts={ORDERS: 10, ("orders", 1): 0},
    ends={ORDERS: 100, ("orders", 1): 7},
    timed={ORDERS: 55, ("orders", 1): None},
    requested={ORDERS: 20, ("orders", 1): 3},
)


@pytest.mark.parametrize(
    ("kind", "value", "expected", "warning"),
    [
        (ResetKind.EARLIEST, 0, 10, None),
        (ResetKind.LATEST, 0, 100, None),
        (ResetKind.CURRENT, 0, 40, None),
        (ResetKind.OFFSET, 60, 60, None),
        (ResetKind.OFFSET, 10, 10, None),
        (ResetKind.OFFSET, 100, 100, None),
        (ResetKind.OFFSET, 101, 100, "orders-0: offset 101 is beyond the end, 100 is taken"),
        (ResetKind.OFFSET, 9, 10, "orders-0: offset 9 is before the first record, 10 is taken"),
        (ResetKind.OFFSET, -1, 10, "orders-0: offset -1 is before the first record, 10 is taken"),
        (ResetKind.SHIFT, 5, 45, None),
        (ResetKind.SHIFT, -5, 35, None),
        (ResetKind.SHIFT, 0, 40, None),
        (ResetKind.SHIFT, 61, 100, "orders-0: offset 101 is beyond the end, 100 is taken"),
        (ResetKind.SHIFT, -40, 10, "orders-0: offset 0 is before the first record, 10 is taken"),
        (ResetKind.DATETIME, 0, 55, None),
        (ResetKind.DURATION, 0, 55, None),
        (ResetKind.FILE, 0, 20, None),
        (ResetKind.COPY, 0, 20, None),
    ],
)
def test_a_committed_partition(kind: ResetKind, value: int, expected: int, warning: str | None) -> None:
    plan = make_plan("g", [ORDERS], kind=kind, facts=FACTS, value=value)
    assert [row.new_offset for row in plan.rows] == [expected]
    assert list(plan.warnings) == ([] if warning is None else [warning])


@pytest.mark.parametrize(
    ("kind", "expected", "warning"),
    [
        (ResetKind.EARLIEST, 0, None),
        (ResetKind.LATEST, 7, None),
        (
            ResetKind.CURRENT,
            7,
            "orders-1: no offset is committed, the end of the partition is taken",
        ),
        (ResetKind.DATETIME, 7, "orders-1: no record is that new, the end of the partition is taken"),
        (ResetKind.FILE, 3, None),
    ],
)
def test_a_partition_without_a_committed_offset(kind: ResetKind, expected: int, warning: str | None) -> None:
    plan = make_plan("g", [("orders", 1)], kind=kind, facts=FACTS)
    assert plan.rows == [ResetRow("orders", 1, None, expected, None, 0, 0, 0, 7)]
    assert list(plan.warnings) == ([] if warning is None else [warning])


def test_what_was_never_committed_cannot_be_shifted() -> None:
    with pytest.raises(KcliError, match="cannot shift the offset of orders-1: none is committed") as caught:
        make_plan("g", [ORDERS, ("orders", 1)], kind=ResetKind.SHIFT, facts=FACTS, value=1)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("current", "new", "again", "skipped"),
    [
        (40, 10, 30, 0),
        (40, 100, 0, 60),
        (40, 40, 0, 0),
        (200, 50, 50, 0),  # committed beyond the end: only existing records count
        (5, 50, 0, 40),  # committed before the first record
        (5, 10, 0, 0),
    ],
)
def test_records_to_read_again_and_to_skip_are_those_that_are_there(
    current: int, new: int, again: int, skipped: int
) -> None:
    facts = ResetFacts({ORDERS: current}, {ORDERS: 10}, {ORDERS: 100})
    (row,) = make_plan("g", [ORDERS], kind=ResetKind.OFFSET, facts=facts, value=new).rows
    assert (row.change, row.records_to_read_again, row.records_to_skip) == (new - current, again, skipped)


@pytest.mark.parametrize(
    ("put", "listed"),
    [
        ("clicks-0 clicks-1 orders-0 orders-1 orders-2", "clicks-1 orders-0 orders-1 orders-2 clicks-0"),
        ("orders-0 orders-2 clicks-0 clicks-1", "orders-0 clicks-1 orders-2 clicks-0"),
    ],
)
def test_rows_come_in_the_order_of_a_java_hash_map(put: str, listed: str) -> None:
    """The order of Apache Kafka 4.3.1: clicks-1 and orders-0 share a bucket."""
    partitions = [(name[:-2], int(name[-1])) for name in put.split()]
    facts = ResetFacts(ends=dict.fromkeys(partitions, 9))
    plan = make_plan("g", partitions, kind=ResetKind.LATEST, facts=facts)
    assert " ".join(f"{row.topic}-{row.partition}" for row in plan.rows) == listed


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (["orders"], Scope(("orders",))),
        (["orders:0"], Scope((), (("orders", 0),))),
        (["orders:2,0", "clicks"], Scope(("clicks",), (("orders", 2), ("orders", 0)))),
        (["orders:0", "orders:1"], Scope((), (("orders", 0), ("orders", 1)))),
        ([], Scope()),
    ],
)
def test_a_scope_is_topics_and_partitions(topics: list[str], expected: Scope) -> None:
    assert parse_scope(topics) == expected


@pytest.mark.parametrize(
    "topics",
    [
        ["orders:"],
        [":0"],
        [""],
        ["orders:x"],
        ["orders:2147483648"],
        ["orders:" + "9" * 5000],
        ["orders:-1"],
        ["orders:0,"],
        ["orders:0:1"],
        ["orders:٣"],
        ["orders", "orders"],
        ["orders:0,0"],
        ["orders:0", "orders:0"],
        ["orders", "orders:0"],
    ],
)
def test_what_is_no_scope_is_wrong_usage(topics: list[str]) -> None:
    with pytest.raises(UsageError, match="--topic"):
        parse_scope(topics)


def test_all_topics_excludes_names() -> None:
    assert parse_scope([], all_topics=True) == Scope((), (), True)
    with pytest.raises(UsageError, match="exclude each other"):
        parse_scope(["orders"], all_topics=True)
