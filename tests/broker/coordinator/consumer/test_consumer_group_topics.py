"""Consumer groups whose topics are created, grown and deleted, and the topics that expressions match."""

from __future__ import annotations

from random import Random

import pytest

from kcli.protocol.error_codes import ErrorCode
from tests.broker.coordinator.consumer.settled_consumers import settled, stored
from tests.broker.coordinator.virtual_consumers import Consumer, VirtualConsumers


@pytest.fixture
def world() -> VirtualConsumers:
    return VirtualConsumers()


# --- topics ------------------------------------------------------------------------------------------


def test_a_topic_that_grows_is_noticed_with_the_next_heartbeat_of_anyone(world: VirtualConsumers) -> None:
    first, second = settled(world, "a", "b")
    world.topics(t=6)
    size = len(world.log)
    second.beat()
    assert stored(world, size)[0] == "Metadata epoch 4"
    first.beat()
    assert world.outline() == {"a": "4 stable t0 t1 t4", "b": "4 stable t2 t3 t5"}


def test_a_topic_may_come_later_and_go_and_come_again_as_another(world: VirtualConsumers) -> None:
    only = Consumer(world, "a", {"subscribed_topic_names": ["t", "late"]})
    only.beat()
    world.topics(late=1)
    only.beat()
    assert world.outline() == {"a": "3 stable late0 t0 t1 t2 t3"}
    world.topics(late=0)
    only.beat()
    assert world.outline() == {"a": "4 stable t0 t1 t2 t3"}
    world.topics(late=2)
    only.beat()
    assert world.outline() == {"a": "5 stable late0 late1 t0 t1 t2 t3"}


def test_a_topic_that_nobody_reads_changes_nothing(world: VirtualConsumers) -> None:
    world.enter("a")
    size = len(world.log)
    world.topics(other=3)
    world.beat("a", 2)
    assert len(world.log) == size


# --- expressions -------------------------------------------------------------------------------------


def test_an_expression_is_resolved_at_once_and_again_when_topics_come_and_go(world: VirtualConsumers) -> None:
    world.topics(orders=1, u=1)
    call = world.enter("a", subscribed_topic_regex="t|or.*")
    assert world.given(call) == "orders0 t0 t1 t2 t3"
    assert stored(world)[:2] == ["MemberMetadata a t|or.*", "RegularExpression t|or.* orders,t"]
    world.topics(u2=1)
    world.beat("a", 2)
    assert len(stored(world)) == 6
    world.topics(ores=1)
    assert world.given(world.beat("a", 2)) == "orders0 ores0 t0 t1 t2 t3"
    world.topics(orders=0)
    world.beat("a", 3, owned={("t", 0)})
    assert world.consumer_group().regexes["t|or.*"].topics == {"t", "ores"}


def test_names_and_an_expression_add_up_and_the_expression_goes_with_its_last_member(
    world: VirtualConsumers,
) -> None:
    world.topics(u=1)
    world.enter("a", "u", subscribed_topic_regex="t")
    world.enter("b", "u", subscribed_topic_regex="t")
    assert world.consumer_group().subscribed == {"t", "u"}
    size = len(world.log)
    world.beat("b", -1)
    assert "RegularExpression t none" not in stored(world, size)
    world.beat("a", 2, subscribed_topic_regex="")
    assert "RegularExpression t none" in stored(world, size)
    assert world.consumer_group().subscribed == {"u"}


def test_an_expression_that_matches_nothing_is_no_error(world: VirtualConsumers) -> None:
    call = world.enter("a", subscribed_topic_regex="nothing")
    assert (call.error, call.response.member_epoch, world.given(call)) == (ErrorCode.NONE, 2, "")


def test_expressions_are_matched_again_when_the_interval_has_passed(world: VirtualConsumers) -> None:
    world.enter("a", subscribed_topic_regex="t.*")
    world.beat("a", 2)
    world.image = type(world.image)(topics={}, topics_by_id={}, offset=9)
    world.beat("a", 2)
    assert world.consumer_group().regexes["t.*"].topics == {"t"}
    world.now_ms += 600_000
    world.beat("a", 2)
    assert world.consumer_group().regexes["t.*"].topics == frozenset()


COSTLY = "|".join(["(.*a.{200})"] * 40)
"""Matches what has an `a` 201 characters before its end, which takes many steps to find out."""


def costly_names(count: int) -> dict[str, int]:
    random = Random(1)
    return {"".join(random.choices("ab", k=249)): 1 for _ in range(count)}


def test_an_expression_that_takes_too_long_is_refused(world: VirtualConsumers) -> None:
    world.topics(**costly_names(10))
    call = world.enter("a", subscribed_topic_regex=COSTLY)
    assert call.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert call.response.error_message.endswith("it takes too many steps to match")
    assert not world.log
    # Members with another subscription are not affected.
    assert world.given(world.enter("b", subscribed_topic_regex="t")) == "t0 t1 t2 t3"
    assert world.beat("b", 2, subscribed_topic_regex=COSTLY).error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.beat("b", 2).error is ErrorCode.NONE


def test_what_an_expression_matched_stays_when_it_comes_to_take_too_long(world: VirtualConsumers) -> None:
    # Another text: the states of the one above are cached.
    costly = COSTLY + "|t"
    assert world.given(world.enter("a", subscribed_topic_regex=costly)) == "t0 t1 t2 t3"
    world.topics(**costly_names(10))
    call = world.beat("a", 2, subscribed_topic_names=["u"])
    assert call.error is ErrorCode.NONE
    assert world.consumer_group().regexes[costly].topics == {"t"}
    assert world.given(world.enter("b", subscribed_topic_regex=costly)) is not None
