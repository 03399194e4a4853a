"""Which partitions a selection means, and what it names in vain."""

from __future__ import annotations

import pytest

from kcli.errors import UsageError
from kcli.protocol.topics import TopicPartition
from kcli.spark.source.ranges.selection import Assign, Selection, Subscribe, SubscribePattern, select
from kcli.spark.source.source import TopicIdentity

TOPICS = (
    TopicIdentity("orders", "id", (0, 1)),
    TopicIdentity("old-orders", None, (0,)),
    TopicIdentity("users", None, (0,)),
    TopicIdentity("__consumer_offsets", None, (0,)),
)


@pytest.mark.parametrize(
    ("selection", "chosen", "missing"),
    [
        pytest.param(Subscribe(("orders",)), ["orders-0", "orders-1"], [], id="a topic"),
        pytest.param(
            Subscribe(("users", "gone", "users")), ["users-0"], ["gone"], id="one that is not there"
        ),
        pytest.param(Subscribe(("__consumer_offsets",)), ["__consumer_offsets-0"], [], id="internal by name"),
        pytest.param(
            SubscribePattern("orders"), ["old-orders-0", "orders-0", "orders-1"], [], id="found in a name"
        ),
        pytest.param(SubscribePattern("^orders$"), ["orders-0", "orders-1"], [], id="anchored"),
        pytest.param(SubscribePattern("offsets"), [], [], id="no internal ones by pattern"),
        pytest.param(
            Assign((TopicPartition("orders", 1), TopicPartition("orders", 7), TopicPartition("gone", 0))),
            ["orders-1"],
            ["gone", "orders-7"],
            id="partitions",
        ),
    ],
)
def test_a_selection_means_what_there_is(selection: Selection, chosen: list[str], missing: list[str]) -> None:
    selected = select(selection, TOPICS)
    assert [f"{topic}-{index}" for topic, index in selected.partitions] == chosen
    names = [one.topic if one.partition < 0 else f"{one.topic}-{one.partition}" for one in selected.missing]
    assert names == missing
    assert {topic.name for topic in selected.topics} == {one.topic for one in selected.partitions}


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="invalid topic pattern: orders"):
        select(SubscribePattern("orders["), TOPICS)
