"""The fields of a consumer-protocol heartbeat: all at first, then the changed ones."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kcli.client.config import ConsumerConfig
from kcli.client.fetch.subscription_state import TopicSubscription
from kcli.client.groups.consumer_heartbeat import HeartbeatFields, says_nothing
from kcli.client.groups.consumer_membership import ConsumerMembership
from kcli.client.network.metadata import ClusterMetadata, TopicMetadata
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

ORDERS = b"orders".ljust(16)


class Told:
    """A member of the group `g`, and the fields of its heartbeats besides its ids."""

    def __init__(self, **config: Any) -> None:
        self.topics = TopicSubscription(exclude_internal=True)
        self.fields = HeartbeatFields(ConsumerConfig(group_id="g", **config), self.topics)
        self.membership = ConsumerMembership("me")
        self.membership.join()

    def answered(self) -> None:
        answer = ConsumerGroupHeartbeatResponse(member_id="me", member_epoch=3)
        self.membership.answered(answer, self.membership.token, was_stable=False)

    def next(self) -> dict[str, Any]:
        request = self.fields.next(self.membership)
        assert (request.group_id, request.member_id) == ("g", "me")
        assert request.member_epoch == self.membership.epoch
        return said(request)


def said(request: ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if request.rebalance_timeout_ms != -1:
        told["timeout"] = request.rebalance_timeout_ms
    others = {
        "instance": request.instance_id,
        "rack": request.rack_id,
        "names": request.subscribed_topic_names,
        "regex": request.subscribed_topic_regex,
        "assignor": request.server_assignor,
    }
    told |= {name: value for name, value in others.items() if value is not None}
    if request.topic_partitions is not None:
        told["owned"] = {entry.topic_id: entry.partitions for entry in request.topic_partitions}
    return told


def test_everything_is_told_at_first_and_then_what_changes() -> None:
    told = Told(client_rack="r1", group_remote_assignor="range", max_poll_interval_ms=7)
    told.topics.subscribe(["b", "a"])
    everything = {"timeout": 7, "rack": "r1", "names": ["a", "b"], "assignor": "range", "owned": {}}
    assert told.next() == everything
    # Until a response comes, every join sends all fields.
    assert told.next() == everything
    told.answered()
    assert told.next() == {}
    assert not told.fields.has_news
    told.topics.subscribe(["a"])
    assert told.fields.has_news
    assert told.next() == {"names": ["a"]}
    assert told.next() == {}
    told.membership.reconciled({ORDERS: frozenset({2, 0})})
    assert told.next() == {"owned": {ORDERS: [0, 2]}}
    assert told.next() == {}
    told.fields.forget()
    assert told.next() == {**everything, "names": ["a"], "owned": {ORDERS: [0, 2]}}


def test_an_expression_is_told_in_the_place_of_names() -> None:
    told = Told()
    told.topics.subscribe_expression("log.*")
    assert told.fields.min_version == 1
    assert told.next() == {"timeout": 300_000, "names": [], "regex": "log.*", "owned": {}}
    told.answered()
    # The assigned topics are not sent.
    told.topics.topics = frozenset({"log1"})
    assert not told.fields.has_news
    assert told.next() == {}
    told.topics.subscribe_expression("other")
    assert told.fields.has_news
    assert told.next() == {"regex": "other"}


def test_a_pattern_is_told_as_the_names_it_matches() -> None:
    told = Told()
    told.topics.subscribe_pattern(
        re.compile("log.*"), ClusterMetadata(topics={"log1": TopicMetadata("log1")})
    )
    assert told.fields.min_version == 0
    assert told.next()["names"] == ["log1"]


@pytest.mark.parametrize(("instance", "epoch"), [("", -1), ("i1", -2)])
def test_the_last_heartbeat_says_whether_the_member_will_be_back(instance: str, epoch: int) -> None:
    told = Told(group_instance_id=instance)
    request = told.fields.last(told.membership)
    assert (request.member_id, request.member_epoch) == ("me", epoch)
    assert said(request) == ({"instance": instance} if instance else {})


def test_a_static_member_says_so_each_time() -> None:
    told = Told(group_instance_id="i1")
    told.next()
    told.answered()
    assert told.next() == {"instance": "i1"}
    assert says_nothing(told.fields.next(told.membership))
