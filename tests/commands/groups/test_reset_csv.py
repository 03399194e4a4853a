"""The CSV files of `reset-offsets`: both forms survive a round trip, and errors name the line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.commands.groups.reset_plan import csv_lines, parse_offsets
from kcli.errors import UsageError

GROUP_NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20
).filter(str.strip)
TOPIC_NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
PLANS = st.dictionaries(
    GROUP_NAMES,
    st.dictionaries(
        st.tuples(TOPIC_NAMES, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), min_size=1, max_size=5
    ),
    min_size=1,
    max_size=3,
)


def exported(plans: dict[str, dict[tuple[str, int], int]], *, with_groups: bool) -> str:
    rows = {
        group: [(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        for group, offsets in plans.items()
    }
    return "\n".join([*csv_lines(rows, with_groups=with_groups), ""])


@given(PLANS)
def test_what_was_exported_of_several_groups_is_read_again(
    plans: dict[str, dict[tuple[str, int], int]],
) -> None:
    assert parse_offsets(exported(plans, with_groups=True), "f", set(plans)).offsets == plans


def test_what_was_exported_of_one_group_is_read_for_any_one_group() -> None:
    text = exported({"billing": {("orders", 0): 5, ("clicks", 12): 0}}, with_groups=False)
    assert text == "orders,0,5\nclicks,12,0\n"
    assert parse_offsets(text, "f", {"other"}).offsets == {"other": {("orders", 0): 5, ("clicks", 12): 0}}


@pytest.mark.parametrize(
    "text",
    ['"orders",0,5\n', "orders,0,5", "\n\r\norders,0,5\r\n\r\n", "orders , 0 ,+5\n"],
    ids=["quotes", "no line end", "empty lines", "blanks and a sign"],
)
def test_files_may_look_different(text: str) -> None:
    assert parse_offsets(text, "f", {"g"}).offsets == {"g": {("orders", 0): 5}}


def test_negative_offsets_are_left_to_the_plan() -> None:
    assert parse_offsets("orders,0,-5", "f", {"g"}).offsets == {"g": {("orders", 0): -5}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`f` holds no offsets"),
        ("topic,partition,offset\norders,0,5", "`f`, line 1: the partition cannot be partition"),
        ("orders", "`f`, line 1: 1 column"),
        ("orders,0", "`f`, line 1: 2 columns"),
        ("orders,0,5\na,orders,0,5", "`f`, line 2: 4 columns after lines of 3"),
        ("orders,0,5\norders,0,6", "`f`, line 2: a partition is named twice: orders-0"),
        ("orders,-1,5", "`f`, line 1: the partition cannot be -1"),
        ("orders,0,x", "`f`, line 1: the offset cannot be x"),
        ("orders,0,", "`f`, line 1: the offset cannot be missing"),
        ("orders,0,1_0", "`f`, line 1: the offset cannot be 1_0"),
        ("orders,0,9223372036854775808", "`f`, line 1: the offset cannot be 9223372036854775808"),
        ("orders,2147483648,0", "`f`, line 1: the partition cannot be 2147483648"),
        (",0,5", "`f`, line 1: the topic is missing"),
        (",orders,0,5", "`f`, line 1: the group is missing"),
        ('"orders,0,5', "`f`, line 1: unexpected end of data"),
    ],
)
def test_a_malformed_file_is_one_line_and_wrong_usage(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_offsets(text, "f", {"g"})
    assert caught.value.message == message


@pytest.mark.parametrize("groups", [set(), {"a", "b"}])
def test_three_columns_need_exactly_one_group(groups: set[str]) -> None:
    with pytest.raises(UsageError, match="line 1: no group is named"):
        parse_offsets("orders,0,5", "f", groups)
