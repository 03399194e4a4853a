"""KIP-848: groups that the broker assigns, of Java, librdkafka, franz-go and kcli, and changes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.group_ledger import Ledger
from tests.support.group_tool import DescribedState, GroupTool
from tests.support.producing import create_topic
from tests.support.steady_load import SteadyLoad
from tests.support.waiting import first

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.apache_kafka import ApacheKafka, KafkaTools
    from tests.support.group_members import Members
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PARTITIONS = 12
RECORDS_PER_SECOND = 600
SETTLE_SECONDS = 60
SESSION_SECONDS, HEARTBEAT_MS = 3, 500
DEFAULT_SESSION_SECONDS = 45
"""The others learn that a member is gone when their next heartbeat is due."""


def test_members_of_every_client_join_and_leave(
    group_broker: KcliBroker | ApacheKafka, members: Members, group_tool: GroupTool
) -> None:
    create_topic(group_broker.bootstrap, "modern", PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic="modern", group="modern", assignor="consumer")
    java, rdkafka, franz, ours = members.enlist("Java", "librdkafka", "franz-go", "kcli")
    with SteadyLoad(group_broker.bootstrap, "modern", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        group_tool.join_in_turn("modern", PARTITIONS, java, rdkafka, franz, ours)
        wait_for_equal_shares(members)
        assert group_tool.type("modern") == "Consumer"
        assert len(group_tool.agreed("modern", members)) == 4
        assert group_tool.state("modern").strategy == "uniform"
        for member in (java, ours):
            member.leave()
            members.settle(PARTITIONS, SETTLE_SECONDS)
            group_tool.join_in_turn("modern", PARTITIONS, member)
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
    check_nothing_is_lost(members, ends)


def test_the_partitions_of_killed_members_move_when_their_session_ends(
    group_broker: KcliBroker | ApacheKafka,
    members: Members,
    group_tool: GroupTool,
    kafka_tool: KafkaTools,
    show: Callable[[str], None],
) -> None:
    """One of each client is killed at the same time, and one of each is left to take over."""
    create_topic(group_broker.bootstrap, "killed", PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic="killed", group="killed", assignor="consumer")
    crew = members.enlist("Java", "kcli", "Java", "kcli", "franz-go")
    slow = members.enlist("librdkafka", "librdkafka")
    configured = kafka_tool(
        *("kafka-configs", "--bootstrap-server", group_broker.bootstrap, "--alter"),
        *("--entity-type", "groups", "--entity-name", "killed"),
        "--add-config",
        f"consumer.session.timeout.ms={SESSION_SECONDS * 1000},consumer.heartbeat.interval.ms={HEARTBEAT_MS}",
    )
    assert configured.code == 0, configured
    with SteadyLoad(group_broker.bootstrap, "killed", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        # Who joins in turn does so for librdkafka's sake, which is not there yet.
        for member in crew:
            member.join()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        group_tool.join_in_turn("killed", PARTITIONS, *slow)
        killed = [member.kill() for member in (*crew[:2], slow[0])]
        moved = members.settle(PARTITIONS, SETTLE_SECONDS, "the partitions of the killed ones moved")
        group_tool.join_in_turn("killed", PARTITIONS, *members.enlist("librdkafka"))
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
    check_nothing_is_lost(members, ends)
    taken = moved - killed[0]
    show(f"KIP-848: who was killed lost all within {taken:.1f} s, the session is {SESSION_SECONDS} s")
    assert SESSION_SECONDS - 1 < taken < DEFAULT_SESSION_SECONDS / 2


def wait_for_equal_shares(members: Members) -> None:
    """All partitions may be read before the last one has moved to where it is to be."""
    members.wait_until(
        lambda: sorted(len(member.owned) for member in members.inside) == [3, 3, 3, 3],
        SETTLE_SECONDS,
        "the shares are equal",
    )


def check_nothing_is_lost(members: Members, ends: Mapping[int, int]) -> None:
    """Every record was read, and no member failed."""
    ledger = Ledger(members.events)
    assert ledger.missing(ends) == {}
    assert ledger.wrong_values() == []
    assert list(members.of("failed")) == []


@pytest.mark.parametrize(
    ("assignor", "kinds"),
    [
        ("range", ("Java", "librdkafka", "franz-go", "kcli")),
        # As a leader of this one librdkafka adds data of its own, which the new protocol would lose.
        ("cooperative-sticky", ("Java", "franz-go", "kcli")),
    ],
    ids=["range", "cooperative-sticky"],
)
def test_a_live_group_changes_to_the_new_protocol_and_back(
    group_broker: KcliBroker | ApacheKafka,
    members: Members,
    group_tool: GroupTool,
    assignor: str,
    kinds: tuple[str, ...],
) -> None:
    name = f"migrates-{assignor}"
    create_topic(group_broker.bootstrap, name, PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic=name, group=name)
    crew = members.enlist(*kinds)
    with SteadyLoad(group_broker.bootstrap, name, PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        for member in crew:
            member.join(assignor=assignor)
        members.settle(PARTITIONS, SETTLE_SECONDS)
        assert group_tool.type(name) == "Classic"
        for protocol, type_when_begun in (("consumer", "Consumer"), (assignor, "Consumer")):
            for number, member in enumerate(crew):
                member.leave()
                members.settle(PARTITIONS, SETTLE_SECONDS, f"{member.name} left")
                group_tool.join_in_turn(name, PARTITIONS, member, assignor=protocol)
                last = number == len(crew) - 1
                expected = "Classic" if last and protocol == assignor else type_when_begun
                found = group_tool.type(name)
                assert found == expected, f"{member.name} joined as {protocol}\n{members.story()}"
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
    for member in crew:
        member.leave()
    check_nothing_is_lost(members, ends)


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_groups_of_the_new_protocol_are_as_before(
    own_group_broker: KcliBroker | ApacheKafka,
    end_broker: Callable[[str], None],
    members: Members,
    kafka_tool: KafkaTools,
    stop: str,
) -> None:
    broker = own_group_broker
    tool = GroupTool(kafka_tool, broker.bootstrap)
    create_topic(broker.bootstrap, "modern", PARTITIONS)
    members.common(bootstrap=broker.bootstrap, topic="modern", group="modern", assignor="consumer")
    crew = members.enlist("Java", "librdkafka", "kcli")
    with SteadyLoad(broker.bootstrap, "modern", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        tool.join_in_turn("modern", PARTITIONS, *crew)
        # An owner for every partition may be a step on the way to an even share.
        stable = DescribedState("uniform", "Stable", len(crew))
        first(lambda: tool.state("modern"), lambda state: state == stable, "the group is stable")
        described = tool.agreed("modern", members)
        owned = {name: each.partitions for name, each in described.items()}
        end_broker(stop)
        before = Ledger(members.events).committed()
        broker.start()
        offsets = tool.offsets("modern")
        assert {partition for partition, offset in before.items() if offsets[partition] < offset} == set()
        assert tool.members("modern") == described
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
        assert {member.name: member.owned for member in crew} == owned
        assert tool.members("modern") == described
    ledger = Ledger(members.events)
    assert ledger.missing(ends) == {}
    assert ledger.repeated() == {}
    assert ledger.steps_back() == []
