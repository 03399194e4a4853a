"""A broker that stops, or is killed, comes back with its groups, and their members go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.group_ledger import Ledger
from tests.support.group_tool import GroupTool, group_metadata, offsets_records
from tests.support.producing import create_topic
from tests.support.steady_load import SteadyLoad

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apache_kafka import ApacheKafka, KafkaTools
    from tests.support.group_members import Members
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PARTITIONS = 12
RECORDS_PER_SECOND = 600
SETTLE_SECONDS = 60
PATIENT = ("Java", "librdkafka", "kafka-python", "kcli")
"""Clients that keep their membership while the coordinator is away; the others join anew."""
IMPATIENT = ("franz-go", "sarama", "KafkaJS", "aiokafka")


def stored_group(tools: KafkaTools, broker: KcliBroker | ApacheKafka, group: str) -> dict[str, Any]:
    """What a classic group's last record says, but for when it was written."""
    metadata = group_metadata(offsets_records(tools, broker.node_directory), group)
    del metadata["currentStateTimestamp"]
    return metadata


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_groups_are_as_before_and_members_go_on(
    own_group_broker: KcliBroker | ApacheKafka,
    end_broker: Callable[[str], None],
    members: Members,
    kafka_tool: KafkaTools,
    stop: str,
) -> None:
    broker = own_group_broker
    tool = GroupTool(kafka_tool, broker.bootstrap)
    create_topic(broker.bootstrap, "restart", PARTITIONS)
    create_topic(broker.bootstrap, "left", PARTITIONS)
    members.common(bootstrap=broker.bootstrap, topic="restart", group="restart")
    # A group that is only offsets by then.
    crew = members.enlist(*PATIENT)
    crew[0].join(topic="left", group="left")
    with SteadyLoad(broker.bootstrap, "left", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        members.wait_until(lambda: len(members.reached) == PARTITIONS, SETTLE_SECONDS, "some are consumed")
        left = load.stop()
        members.consume_up_to(left, SETTLE_SECONDS)
    crew[0].leave()
    assert tool.offsets("left") == left
    begun = len(members.events)
    members.reached.clear()

    with SteadyLoad(broker.bootstrap, "restart", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        for member in crew:
            member.join()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        described = tool.agreed("restart", members)
        owned = {name: each.partitions for name, each in described.items()}
        metadata = stored_group(kafka_tool, broker, "restart")
        end_broker(stop)
        before = Ledger(members.events[begun:]).committed()
        broker.start()
        offsets = tool.offsets("restart")
        assert {partition for partition, offset in before.items() if offsets[partition] < offset} == set()
        assert tool.members("restart") == described
        assert stored_group(kafka_tool, broker, "restart") == metadata
        assert tool.offsets("left") == left
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
        assert stored_group(kafka_tool, broker, "restart")["generation"] == metadata["generation"]
        assert {member.name: member.owned for member in crew} == owned
    for member in crew:
        member.leave()
    ledger = Ledger(members.events[begun:])
    assert tool.offsets("restart") == ends
    assert ledger.missing(ends) == {}
    assert ledger.repeated() == {}
    assert ledger.steps_back() == []


def test_every_client_goes_on_when_the_broker_is_back(
    own_group_broker: KcliBroker | ApacheKafka,
    end_broker: Callable[[str], None],
    members: Members,
    kafka_tool: KafkaTools,
) -> None:
    broker = own_group_broker
    create_topic(broker.bootstrap, "all", PARTITIONS)
    # Who joins anew leaves a member behind that nobody hears of again.
    members.common(bootstrap=broker.bootstrap, topic="all", group="all", session=15_000)
    with SteadyLoad(broker.bootstrap, "all", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        for member in members.enlist(*PATIENT, *IMPATIENT):
            member.join()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        end_broker("killed")
        broker.start()
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
        members.settle(PARTITIONS, SETTLE_SECONDS)
    for member in members.inside:
        member.leave()
    assert GroupTool(kafka_tool, broker.bootstrap).offsets("all") == ends
    ledger = Ledger(members.events)
    assert ledger.missing(ends) == {}
    assert ledger.steps_back() == []
    assert list(members.of("failed")) == []
