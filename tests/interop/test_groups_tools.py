"""Apache Kafka's own tools on groups, against kcli, and against Apache Kafka to prove the tests."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.group_tool import DescribedState, GroupTool, offsets_records
from tests.support.producing import create_topic, delete_topic, produce
from tests.support.records import TestRecord
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.apache_kafka import ApacheKafka, KafkaTools
    from tests.support.group_members import Member, Members
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PARTITIONS, RECORDS = 3, 30
EVERYTHING = dict.fromkeys(range(PARTITIONS), RECORDS)
SESSION_MS = 6000
SETTLE_SECONDS = 60
HOUR_MS = 3_600_000


@pytest.fixture(params=["apache_kafka", "kcli_broker"])
def broker(request: pytest.FixtureRequest) -> KcliBroker | ApacheKafka:
    """Each of the two brokers."""
    found: KcliBroker | ApacheKafka = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def tool(kafka_tool: KafkaTools, broker: KcliBroker | ApacheKafka) -> GroupTool:
    """kafka-consumer-groups against it."""
    return GroupTool(kafka_tool, broker.bootstrap)


@pytest.fixture
def topic(broker: KcliBroker | ApacheKafka) -> Iterator[str]:
    """A topic of 30 records in each partition, one a second, the first of an hour ago."""
    create_topic(broker.bootstrap, "tool-groups", PARTITIONS)
    started_ms = int(time.time() * 1000) - HOUR_MS
    records = [
        TestRecord(partition, -1, started_ms + number * 1000, None, b"%d:%d" % (partition, number))
        for number in range(RECORDS)
        for partition in range(PARTITIONS)
    ]
    produce(broker.bootstrap, "tool-groups", records)
    yield "tool-groups"
    delete_topic(broker.bootstrap, "tool-groups")


def consume(
    tools: KafkaTools, broker: KcliBroker | ApacheKafka, topic: str, group: str, count: int
) -> list[str]:
    """What the console consumer prints as a member of a group, when it begins at the beginning.

    It is no member any more afterwards.
    """
    result = tools(
        "kafka-console-consumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", "60000"),
    )
    assert result.code == 0, result
    assert f"Processed a total of {count} messages" in result.errors
    wait_until_empty(GroupTool(tools, broker.bootstrap), group)
    return result.lines


def wait_until_empty(tool: GroupTool, group: str) -> None:
    """Wait until who has left a group is not among its members any more."""
    eventually(lambda: tool.state(group).state == "Empty", f"{group} is empty")


def described(group: str, *offsets: int | None) -> list[str]:
    """The table of a group without members."""
    head = (
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
        "CONSUMER-ID     HOST            CLIENT-ID"
    )
    return [
        head,
        *(
            f"{group:<15} {'tool-groups':<15} {partition:<10} {offset:<15} {RECORDS:<15} "
            f"{RECORDS - offset:<15} {'-':<15} {'-':<15} -"
            for partition, offset in enumerate(offsets)
            if offset is not None
        ),
    ]


def test_console_consumers_share_the_offsets_of_their_group(
    broker: KcliBroker | ApacheKafka, tool: GroupTool, kafka_tool: KafkaTools, topic: str
) -> None:
    earlier = consume(kafka_tool, broker, topic, "console", 40)
    assert tool.state("console") == DescribedState("-", "Empty", 0)
    assert sum(tool.offsets("console").values()) == 40
    later = consume(kafka_tool, broker, topic, "console", 50)
    everything = [f"{p}:{number}" for p in range(PARTITIONS) for number in range(RECORDS)]
    assert sorted(earlier + later) == sorted(everything)
    assert tool("--describe", "--group", "console") == described("console", 30, 30, 30)
    listed = [line.split() for line in tool("--list", "--state", "--type")]
    assert ["console", "Classic", "Empty"] in listed
    assert tool("--delete", "--group", "console") == [
        "Deletion of requested consumer groups ('console') was successful."
    ]
    assert "console" not in tool("--list")


RESETS: list[tuple[tuple[str, ...], tuple[int, int, int]]] = [
    (("--to-earliest", "--all-topics"), (0, 0, 0)),
    (("--to-latest", "--topic", "tool-groups"), (30, 30, 30)),
    (("--shift-by", "-5", "--topic", "tool-groups:0,2"), (25, 30, 25)),
    (("--shift-by", "-100", "--topic", "tool-groups:1"), (25, 0, 25)),
    (("--to-offset", "7", "--topic", "tool-groups"), (7, 7, 7)),
    (("--to-current", "--all-topics"), (7, 7, 7)),
    (("--to-offset", "7000", "--topic", "tool-groups:0"), (30, 7, 7)),
    (("--to-datetime", "2020-01-01T00:00:00.000", "--all-topics"), (0, 0, 0)),
    (("--by-duration", "PT1H5M", "--topic", "tool-groups:1,2"), (0, 0, 0)),
    (("--by-duration", "PT1S", "--all-topics"), (30, 30, 30)),
]


def test_every_kind_of_reset(
    broker: KcliBroker | ApacheKafka, tool: GroupTool, kafka_tool: KafkaTools, topic: str, tmp_path: Path
) -> None:
    consume(kafka_tool, broker, topic, "reset", 90)
    base = ("--group", "reset", "--reset-offsets")
    before = (30, 30, 30)
    for how, expected in RESETS:
        planned = tool(*base, *how, "--dry-run")
        assert tool.offsets("reset") == dict(enumerate(before)), how
        assert tool(*base, *how, "--execute") == planned
        assert tool("--describe", "--group", "reset") == described("reset", *expected), how
        before = expected
    exported = tool(*base, "--to-earliest", "--topic", "tool-groups:0", "--dry-run", "--export")
    assert exported == ["tool-groups,0,0"]
    plan = tmp_path / "plan.csv"
    plan.write_text("tool-groups,0,3\ntool-groups,2,4\n")
    tool(*base, "--from-file", str(plan), "--execute")
    assert tool("--describe", "--group", "reset") == described("reset", 3, 30, 4)
    deleted = tool("--delete-offsets", "--group", "reset", "--topic", "tool-groups:0")
    assert deleted[0] == "Request succeeded for deleting offsets from group reset."
    assert tool("--describe", "--group", "reset") == described("reset", None, 30, 4)


def test_what_is_refused_while_a_group_has_members(
    broker: KcliBroker | ApacheKafka, tool: GroupTool, topic: str, members: Members
) -> None:
    (member,) = members.enlist("librdkafka")
    member.join(bootstrap=broker.bootstrap, topic=topic, group="active")
    eventually(lambda: tool.offsets("active") == EVERYTHING, "everything is consumed and committed")
    refused = tool("--group", "active", "--reset-offsets", "--to-earliest", "--all-topics", "--execute")
    assert refused[0] == (
        "Error: Assignments can only be reset if the group 'active' is inactive, "
        "but the current state is Stable."
    )
    refused = tool("--delete", "--group", "active", "--group", "unheard-of")
    assert refused[0] == "Error: Deletion of some consumer groups failed:"
    exceptions = "org.apache.kafka.common.errors"
    assert set(refused[1:]) == {
        f"* Group 'active' could not be deleted due to: {exceptions}.GroupNotEmptyException: "
        "The group is not empty.",
        f"* Group 'unheard-of' could not be deleted due to: {exceptions}.GroupIdNotFoundException: "
        "The group id does not exist.",
    }
    refused = tool("--delete-offsets", "--group", "active", "--topic", topic)
    assert sum("GroupSubscribedToTopicException" in line for line in refused) == PARTITIONS
    (missing,) = tool("--describe", "--group", "unheard-of")
    assert re.search(r"GroupIdNotFoundException: Group unheard-of not found\.$", missing)
    assert tool.offsets("active") == EVERYTHING


def test_perf_test_joins_a_group(
    broker: KcliBroker | ApacheKafka, tool: GroupTool, kafka_tool: KafkaTools, topic: str
) -> None:
    result = kafka_tool(
        "kafka-consumer-perf-test",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", "perf"),
        *("--num-records", str(PARTITIONS * RECORDS), "--timeout", "60000"),
    )
    assert result.code == 0, result
    wait_until_empty(tool, "perf")
    figures = [field.strip() for field in result.lines[-1].split(",")]
    assert int(figures[4]) == PARTITIONS * RECORDS
    assert tool("--describe", "--group", "perf") == described("perf", 30, 30, 30)


def consume_with_a_static_member(
    members: Members, dynamic: Member, static: Member, tool: GroupTool, group: str, assignor: str
) -> None:
    """Let two members consume everything, of which the static one stays in the group for its session."""
    tool.join_in_turn(group, PARTITIONS, dynamic, assignor=assignor)
    tool.join_in_turn(group, PARTITIONS, static, assignor=assignor, instance="static")
    members.consume_up_to(EVERYTHING, SETTLE_SECONDS)
    dynamic.leave()
    # A static member of librdkafka cannot unsubscribe first, and may hang if it is closed in a rebalance.
    members.settle(PARTITIONS, SETTLE_SECONDS)
    eventually(lambda: tool.state(group).state == "Stable", f"{group} is stable")
    static.leave()
    members.reached.clear()


def test_the_dump_tool_decodes_every_record_about_groups(
    broker: KcliBroker | ApacheKafka, tool: GroupTool, kafka_tool: KafkaTools, topic: str, members: Members
) -> None:
    configured = kafka_tool(
        *("kafka-configs", "--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", "groups"),
        *("--entity-name", "dump-modern", "--add-config", f"consumer.session.timeout.ms={SESSION_MS}"),
    )
    assert configured.code == 0, configured
    members.common(bootstrap=broker.bootstrap, topic=topic, session=SESSION_MS)
    classic, static = members.enlist("Java", "librdkafka")
    for group, assignor in (("dump-classic", "range"), ("dump-modern", "consumer")):
        consume_with_a_static_member(members, classic, static, tool, group, assignor)
    classic.join(group="dump-deleted")
    members.consume_up_to(EVERYTHING, SETTLE_SECONDS)
    classic.leave()
    wait_until_empty(tool, "dump-deleted")
    tool("--delete", "--group", "dump-deleted")
    records = offsets_records(kafka_tool, broker.node_directory)
    types = {
        group: {int(record.key["type"]) for record in records if record.group == group}
        for group in ("dump-classic", "dump-modern")
    }
    assert types == {"dump-classic": {1, 2}, "dump-modern": {1, 3, 5, 6, 7, 8}}
    # Whichever way the client named the topic, its id is kept with the offset.
    offsets = [record.value for record in records if record.group in types and int(record.key["type"]) == 1]
    assert all(value is not None and len(value["data"]["topicId"]) == 22 for value in offsets)
    # The last record of everything about a deleted group is a tombstone.
    last = {str(record.key): record.value for record in records if record.group == "dump-deleted"}
    assert list(last.values()) == [None] * (PARTITIONS + 1)
    # Other tests look at all groups there are.
    for group in types:
        wait_until_empty(tool, group)
