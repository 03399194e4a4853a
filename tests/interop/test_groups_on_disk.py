"""Groups in `__consumer_offsets` as the original writes and reads them: kcli takes over, and hands back."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.group_tool import GroupTool
from tests.support.producing import create_topic, produce
from tests.support.records import TestRecord
from tests.support.steady_load import SteadyLoad
from tests.support.waiting import eventually, first

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.group_members import Members
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PARTITIONS = 6
RECORDS_PER_SECOND = 300
SETTLE_SECONDS = 60


def consume_as_groups(
    broker: KcliBroker | ApacheKafka, topic: str, members: Members, tool: GroupTool
) -> dict[int, int]:
    """Let a classic group, one of the new protocol and one that has left consume a topic; its ends.

    The first two have members still, a static one among them.
    """
    create_topic(broker.bootstrap, topic, PARTITIONS)
    members.common(bootstrap=broker.bootstrap, topic=topic, session=60_000)
    static, dynamic, modern, gone = members.enlist("Java", "librdkafka", "franz-go", "Java")
    with SteadyLoad(broker.bootstrap, topic, PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        static.join(group=f"{topic}-classic", instance="static")
        dynamic.join(group=f"{topic}-classic")
        members.settle(PARTITIONS, SETTLE_SECONDS)
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
    for member, group, assignor in ((gone, "gone", "range"), (modern, "modern", "consumer")):
        members.reached.clear()
        member.join(group=f"{topic}-{group}", assignor=assignor)
        members.consume_up_to(ends, SETTLE_SECONDS)
    gone.leave()
    for group, state in zip(groups_of(topic), ("Stable", "Stable", "Empty"), strict=True):
        wait_for_offsets(tool, group, ends)
        wait_for_state(tool, group, state)
    return ends


def wait_for_offsets(tool: GroupTool, group: str, ends: Mapping[int, int]) -> None:
    """Ask until a group has committed everything."""
    eventually(lambda: tool.offsets(group) == ends, f"{group} has committed {ends}")


def wait_for_state(tool: GroupTool, group: str, wanted: str) -> None:
    """Ask until a group has come to rest: what is seen of it from then on stays."""
    first(lambda: tool.state(group).state, lambda state: state == wanted, f"{group} is {wanted}")


def groups_of(topic: str) -> list[str]:
    """The names of those three."""
    return [f"{topic}-{name}" for name in ("classic", "modern", "gone")]


def seen(tools: KafkaTools, bootstrap: str, topic: str) -> dict[str, Any]:
    """What Apache Kafka's tool says about each of those groups."""
    tool = GroupTool(tools, bootstrap)
    return {
        group: (tool.type(group), tool.offsets(group), tool.state(group), tool.members(group))
        for group in groups_of(topic)
    }


def test_kcli_takes_over_the_groups_that_apache_kafka_wrote(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools, members: Members, tmp_path: Path
) -> None:
    (tmp_path / "apache").mkdir()
    apache = ApacheKafka(tmp_path / "apache", kafka_tool)
    apache.start()
    try:
        ends = consume_as_groups(apache, "taken", members, GroupTool(kafka_tool, apache.bootstrap))
        before = seen(kafka_tool, apache.bootstrap, "taken")
        for member in members.inside:
            member.freeze()
    finally:
        apache.stop()
    # In the place of the original, so that members find it.
    broker = new_kcli_broker(arguments=["--adopt"])
    broker.port, broker.bootstrap = apache.port, apache.bootstrap
    for name in ("__consumer_offsets-0", *(f"taken-{number}" for number in range(PARTITIONS))):
        shutil.copytree(apache.data / name, broker.node_directory / name)
    broker.start()
    assert seen(kafka_tool, broker.bootstrap, "taken") == before
    for member in members.inside:
        member.thaw()
    more = [
        TestRecord(number, -1, int(time.time() * 1000), None, b"%d:%d" % (number, end))
        for number, end in ends.items()
    ]
    produce(broker.bootstrap, "taken", more)
    ends = {number: end + 1 for number, end in ends.items()}
    tool = GroupTool(kafka_tool, broker.bootstrap)
    for group in ("taken-classic", "taken-modern"):
        wait_for_offsets(tool, group, ends)
    assert {group: state[1] for group, state in seen(kafka_tool, broker.bootstrap, "taken").items()} == {
        "taken-classic": ends,
        "taken-modern": ends,
        "taken-gone": before["taken-gone"][1],
    }
    assert list(members.of("failed")) == []


def test_apache_kafka_reads_the_groups_that_kcli_wrote(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools, members: Members, tmp_path: Path
) -> None:
    broker = new_kcli_broker().start()
    consume_as_groups(broker, "given", members, GroupTool(kafka_tool, broker.bootstrap))
    before = seen(kafka_tool, broker.bootstrap, "given")
    for member in members.inside:
        member.kill()
    assert broker.stop() == 0
    (tmp_path / "apache").mkdir()
    apache = ApacheKafka(tmp_path / "apache", kafka_tool, data=broker.node_directory)
    apache.start()
    try:
        # Its port is open before its coordinators have read their logs.
        tool = GroupTool(kafka_tool, apache.bootstrap)
        eventually(lambda: all(tool.type(group) for group in before), "all three are listed")
        assert seen(kafka_tool, apache.bootstrap, "given") == before
    finally:
        apache.stop()
