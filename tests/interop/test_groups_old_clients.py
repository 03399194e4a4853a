"""Consumers of earlier years in a group with one of today: they join, consume, commit and leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.group_ledger import Ledger
from tests.support.group_tool import GroupTool
from tests.support.producing import create_topic
from tests.support.steady_load import SteadyLoad

if TYPE_CHECKING:
    from tests.support.apache_kafka import KafkaTools
    from tests.support.group_members import Members
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PARTITIONS = 4
RECORDS_PER_SECOND = 200
SETTLE_SECONDS = 60


@pytest.mark.parametrize("kind", ["Java 2.8", "Java 1.1", "Java 0.10.2"])
def test_an_old_consumer_shares_a_group_with_a_new_one(
    kcli_broker: KcliBroker, members: Members, kafka_tool: KafkaTools, kind: str
) -> None:
    name = kind.replace(" ", "-")
    create_topic(kcli_broker.bootstrap, name, PARTITIONS)
    members.common(bootstrap=kcli_broker.bootstrap, topic=name, group=name)
    old, new = members.enlist(kind, "librdkafka")
    with SteadyLoad(kcli_broker.bootstrap, name, PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        # The old one leads the group first, then follows.
        for member in (old, new):
            member.join()
            members.settle(PARTITIONS, SETTLE_SECONDS)
        old.leave()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        old.join()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        for member in (old, new):
            members.wait_until(
                lambda name=member.name: any(members.of("records", member=name)),
                SETTLE_SECONDS,
                f"{member.name} has read something",
            )
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
    assert len(old.owned) == len(new.owned) == PARTITIONS // 2
    for member in (old, new):
        member.leave()
    ledger = Ledger(members.events)
    assert ledger.missing(ends) == {}
    assert ledger.repeated() == {}
    assert ledger.wrong_values() == []
    assert ledger.steps_back() == []
    assert GroupTool(kafka_tool, kcli_broker.bootstrap).offsets(name) == ends
