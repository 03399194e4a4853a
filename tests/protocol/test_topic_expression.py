"""Expressions in RE2's syntax, compared with RE2/J 1.8, which Kafka uses, and with `re` where both agree.

`golden/re2_expressions.txt` holds the results of RE2/J: the first line has names; each other line has an
expression after "!" if it is invalid, or after one digit per name that says whether it matches.
"""

from __future__ import annotations

import json
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.re2 import ALPHABET, InvalidExpression, parse
from kcli.protocol.topic_expression import (
    MOST_STEPS,
    Effort,
    TakesTooLong,
    TopicExpression,
    expression,
)
from tests.conftest import GOLDEN

NAMES, *ROWS = (GOLDEN / "re2_expressions.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("row", ROWS)
def test_an_expression_matches_what_re2_says(row: str) -> None:
    expected, _, text = row.partition(" ")
    try:
        compiled = TopicExpression(json.loads(text))
        effort = Effort()
    except InvalidExpression:
        answer = "!"
    else:
        answer = "".join("01"[compiled.matches(name, effort)] for name in NAMES.split(" "))
    assert answer == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(?=a)b", "invalid or unsupported Perl syntax: `(?=a`"),
        ("(?<!a)b", "invalid or unsupported Perl syntax: `(?<!`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a**", "invalid nested repetition operator: `*`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a", "missing closing )"),
        ("a)", "unexpected )"),
        ("[a", "missing closing ]: `[a`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("a\\", "trailing backslash at end of expression"),
        ("(" * 300 + ")" * 300, "nested too deeply"),
        ("(?P<->a)", "invalid named capture: `-`"),
        (r"\p{Klingon}", r"invalid character class range: `\p{Klingon}`"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name: `n`"),
    ],
)
def test_what_is_invalid_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidExpression, match=re.escape(why)):
        TopicExpression(text)


@pytest.mark.parametrize(
    "text",
    [
        "(?:abcdefghijk){1000}",
        "((a{100}){100}){100}",
        "((a?){1000}b){11}",
        # A part that matches nothing takes time too.
        "(){1000}" * 21,
        "((){200}){200}",
        "a" * 10_001,
        "[a-z]" * 2_001,
    ],
)
def test_what_is_too_large_is_refused_soon(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parse(text)  # RE2 itself accepts it
    written = []
    write = TopicExpression._write
    monkeypatch.setattr(TopicExpression, "_write", lambda *given: (written.append(1), write(*given)))
    with pytest.raises(InvalidExpression, match="the expression is too large"):
        TopicExpression(text)
    assert len(written) <= 2 * MOST_STEPS + 1


def test_matching_ends_when_the_effort_is_spent_and_goes_on_where_it_was() -> None:
    random = Random(1)
    names = ["".join(random.choices("ab", k=100)) for _ in range(5)]
    compiled = TopicExpression("|".join(["(.*a.{60})"] * 20))
    rounds = 0
    while True:
        rounds += 1
        effort = Effort(10_000)
        try:
            found = [compiled.matches(name, effort) for name in names]
        except TakesTooLong:
            # One more character may be matched than the effort allows.
            assert -len(compiled._program) <= effort.left < 0
        else:
            break
    assert 10 < rounds < 1000
    assert found == [name[-61] == "a" for name in names]
    effort = Effort(0)
    assert [compiled.matches(name, effort) for name in names] == found  # all states are cached


@pytest.mark.parametrize(
    "text", ["(a+)+b", "(a|a)*b", "(a*)*b", "(x+x+)+y", "(.*)(.*)(.*)(.*)(.*)[^a]", "(a?){200}a{200}"]
)
def test_expressions_that_make_others_backtrack_for_ever_take_the_steps_of_one_event(text: str) -> None:
    assert TopicExpression(text).matches("a" * 249, Effort()) == (text == "(a?){200}a{200}")


def test_what_is_remembered_of_an_expression_is_bounded() -> None:
    compiled = TopicExpression("(.*a.{12}|.*b.{12})")
    for number in range(3000):
        compiled.matches("".join("ab"[number >> bit & 1] for bit in range(12)) * 20, Effort(10**9))
    assert compiled._remembered <= 5000
    assert len(compiled._states) <= 5000
    assert compiled.matches("a" + "c" * 12, Effort(10**9))


def test_characters_that_an_expression_does_not_tell_apart_are_worked_out_once() -> None:
    compiled = TopicExpression("(.?){40}")
    for character in ALPHABET:
        assert compiled.matches(character * 40, Effort(10**9))
    # After each of the 40 characters: one state for word characters and one for the others.
    assert compiled._remembered <= 4 * 40


def test_the_same_text_is_read_once() -> None:
    assert expression("orders-.*") is expression("orders-.*")


def both_read(draw_from: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions whose meaning RE2 and `re` share."""
    leaves = st.one_of(
        draw_from.map(re.escape),
        st.sampled_from(
            [".", r"\d", r"\w", "[a-c]", "[^a-c]", "^", "$", r"\b", r"\B", r"[.\-_]", "[A-Z0-9]"]
        ),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map("".join),
            st.tuples(inner, inner).map("|".join).map("(?:{})".format),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?"])).map(
                lambda pair: f"(?:{pair[0]}){pair[1]}"
            ),
            inner.map("(?i:{})".format),
        ),
        max_leaves=8,
    )


@given(both_read(st.sampled_from("abCk._-1")), st.lists(st.text("abcCkK._-12", min_size=1, max_size=8)))
def test_where_re_means_the_same_the_answer_is_the_same(text: str, names: list[str]) -> None:
    compiled = TopicExpression(text)
    other = re.compile(text, re.ASCII)
    found = [compiled.matches(name, Effort(10**9)) for name in names]
    assert found == [bool(other.fullmatch(name)) for name in names]


@given(st.text("abc(){}[]|*+?.^$\\-:<>PQEdwpLix012,!=", max_size=14), st.text(ALPHABET, min_size=1))
def test_any_text_is_either_matched_or_refused(text: str, name: str) -> None:
    try:
        compiled = TopicExpression(text)
    except InvalidExpression:
        return
    assert compiled.matches(name, Effort()) is compiled.matches(name, Effort())


def test_a_hostile_expression_ends_within_the_effort_of_a_command() -> None:
    hostile = TopicExpression("(a+)+$b")
    before = hostile.effort.left
    assert not hostile.fullmatch("a" * 249)
    assert before - hostile.effort.left < 1_000  # `re` would take 2 ** 249 steps


def test_a_command_gives_up_an_expression_that_takes_too_many_steps() -> None:
    greedy = TopicExpression("(.?){200}(.?){200}[ab]{200}c", Effort(5_000))
    with pytest.raises(TakesTooLong, match="takes too many steps to match"):
        greedy.fullmatch("ab" * 124)
