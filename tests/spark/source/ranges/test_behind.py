"""How far a stream is behind, from its progress alone."""

from __future__ import annotations

import json

import pytest

from kcli.spark import offsets_behind_latest

READ = {"orders": {"0": 40, "1": 7}}
THERE = {"orders": {"0": 50, "1": 7, "2": 5}}


def progress(*sources: tuple[object, object]) -> dict[str, object]:
    return {"sources": [{"endOffset": end, "latestOffset": latest} for end, latest in sources]}


@pytest.mark.parametrize(
    "sources",
    [[(READ, THERE)], [(json.dumps(READ), json.dumps(THERE))], [(READ, THERE), ("17", "18"), ({"a": 1}, {})]],
    ids=["values", "JSON", "another source beside it"],
)
def test_the_metrics_are_those_of_sparks_own_source(sources: list[tuple[object, object]]) -> None:
    assert offsets_behind_latest(progress(*sources)) == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "10",
        "avgOffsetsBehindLatest": "5.0",
    }


def test_nothing_is_claimed_before_the_first_batch() -> None:
    assert offsets_behind_latest(progress((None, None), (READ, None))) == {}
