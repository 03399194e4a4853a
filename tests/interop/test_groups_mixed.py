"""A group of one member of every client, by the range assignor: it agrees, and it survives its members.

`KCLI_GROUP_ROUNDS` sets how often a member leaves and another joins, `KCLI_GROUP_SEED` which.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.support.group_ledger import Ledger
from tests.support.group_tool import DescribedState, GroupTool, group_metadata, offsets_records
from tests.support.producing import create_topic
from tests.support.steady_load import SteadyLoad
from tests.support.waiting import first

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apache_kafka import ApacheKafka, KafkaTools
    from tests.support.group_members import Members
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

KINDS = ("librdkafka", "kafka-python", "Java", "franz-go", "KafkaJS", "sarama", "kcli")
PARTITIONS = 12
ROUNDS = int(os.environ.get("KCLI_GROUP_ROUNDS", "30"))
SEED = int(os.environ.get("KCLI_GROUP_SEED", "1"))
RECORDS_PER_SECOND = 600
SETTLE_SECONDS = 60


def test_one_member_of_every_client_own_each_partition_once_in_one_generation(
    group_broker: KcliBroker | ApacheKafka,
    members: Members,
    group_tool: GroupTool,
    kafka_tool: KafkaTools,
) -> None:
    create_topic(group_broker.bootstrap, "mixed", PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic="mixed", group="mixed")
    for member in members.enlist(*KINDS):
        member.join()
    members.settle(PARTITIONS, SETTLE_SECONDS)
    stable = DescribedState("range", "Stable", len(KINDS))
    first(lambda: group_tool.state("mixed"), lambda state: state == stable, "the group is stable")
    described = group_tool.agreed("mixed", members)
    assert len(described) == len(KINDS)
    # One record holds the generation, its members and what each was assigned.
    metadata = group_metadata(offsets_records(kafka_tool, group_broker.node_directory), "mixed")
    stored = {
        each["memberId"]: frozenset(
            number for topic in each["assignment"]["assignedPartitions"] for number in topic["partitions"]
        )
        for each in metadata["members"]
    }
    assert stored == {each.member_id: each.partitions for each in described.values()}
    assert sorted(number for owned in stored.values() for number in owned) == list(range(PARTITIONS))


def test_members_leave_and_join_under_load_and_every_record_is_consumed_exactly_once(
    group_broker: KcliBroker | ApacheKafka, members: Members, show: Callable[[str], None]
) -> None:
    source = random.Random(SEED)
    create_topic(group_broker.bootstrap, "churn", PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic="churn", group="churn")
    crew = members.enlist(*KINDS)
    slowest = 0.0
    with SteadyLoad(group_broker.bootstrap, "churn", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        for member in crew[1:]:
            member.join()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        for number in range(ROUNDS):
            leaving = source.choice(members.inside)
            leaving.leave()
            left = max(event.at for event in members.of("left"))
            # Every other time the next one comes while the group still makes up for the one that went.
            if number % 2:
                slowest = max(slowest, members.settle(PARTITIONS, SETTLE_SECONDS) - left)
            source.choice([member for member in crew if not member.inside and member != leaving]).join()
            slowest = max(slowest, members.settle(PARTITIONS, SETTLE_SECONDS) - left)
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
    for member in members.inside:
        member.leave()
    ledger = Ledger(members.events)
    assert ledger.missing(ends) == {}
    assert ledger.wrong_values() == []
    assert ledger.repeated() == {}
    assert ledger.steps_back() == []
    assert list(members.of("lost", "failed")) == []
    show(
        f"mixed group of {len(KINDS)} clients: {ROUNDS} times one left and one joined, {sum(ends.values())} "
        f"records consumed exactly once; settled again in at most {slowest:.1f} s"
    )
