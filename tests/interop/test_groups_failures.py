"""Members that die, fall silent, come back, or come twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.group_ledger import Ledger
from tests.support.group_tool import group_metadata, offsets_records
from tests.support.producing import create_topic
from tests.support.steady_load import SteadyLoad

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apache_kafka import ApacheKafka, KafkaTools
    from tests.support.group_members import Members
    from tests.support.group_tool import GroupTool
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PARTITIONS = 12
RECORDS_PER_SECOND = 600
SETTLE_SECONDS = 60
SESSION_SECONDS, HEARTBEAT_MS = 3, 100
"""The others learn that a member is gone when their next heartbeat is due."""
DEFAULT_SESSION_SECONDS = 45


def test_the_partitions_of_silent_members_move_when_their_session_ends(
    group_broker: KcliBroker | ApacheKafka, members: Members, show: Callable[[str], None]
) -> None:
    """One is killed and one stopped at the same time: that one's connections stay, and it comes back."""
    create_topic(group_broker.bootstrap, "silent", PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic="silent", group="silent")
    members.common(session=SESSION_SECONDS * 1000, heartbeat=HEARTBEAT_MS)
    killed, stopped, *others = members.enlist("Java", "Java", "librdkafka", "franz-go")
    with SteadyLoad(group_broker.bootstrap, "silent", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        for member in (killed, stopped, *others):
            member.join()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        before = stopped.freeze()
        killed.kill()
        members.wait_until(
            lambda: sorted(number for member in others for number in member.owned) == list(range(PARTITIONS)),
            SETTLE_SECONDS,
            "the others own what the silent ones had",
        )
        moved = members.last_move()
        stopped.thaw()
        members.settle(PARTITIONS, SETTLE_SECONDS, f"{stopped.name} is back")
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
    ledger = Ledger(members.events)
    assert ledger.missing(ends) == {}
    assert ledger.wrong_values() == []
    assert list(members.of("failed")) == []
    taken = moved - before
    show(f"silent members: the partitions moved after {taken:.1f} s, the session is {SESSION_SECONDS} s")
    assert SESSION_SECONDS - 1 < taken < DEFAULT_SESSION_SECONDS / 2


@pytest.mark.parametrize("kind", ["Java", "librdkafka", "franz-go", "sarama", "kcli"])
def test_a_static_member_restarts_without_a_rebalance(
    group_broker: KcliBroker | ApacheKafka,
    members: Members,
    group_tool: GroupTool,
    kafka_tool: KafkaTools,
    kind: str,
) -> None:
    name = f"static-{kind}"
    create_topic(group_broker.bootstrap, name, PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic=name, group=name)
    # Not kafka-python: as a leader it forgets members when static ones stand between the others.
    static, *others = members.enlist(kind, "franz-go", "librdkafka")
    with SteadyLoad(group_broker.bootstrap, name, PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        static.join(instance="static")
        for member in others:
            member.join()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        before = group_tool.agreed(name, members)
        owned = set(static.owned)
        generation = group_metadata(offsets_records(kafka_tool, group_broker.node_directory), name)
        changes = len(list(members.of("assigned", "revoked", member=others[0].name)))
        static.leave()
        static.join(instance="static")
        members.settle(PARTITIONS, SETTLE_SECONDS)
        assert static.owned == owned
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
        after = group_tool.agreed(name, members)
    assert {each.partitions for each in after.values()} == {each.partitions for each in before.values()}
    assert after[others[0].name] == before[others[0].name]
    again = group_metadata(offsets_records(kafka_tool, group_broker.node_directory), name)
    assert again["generation"] == generation["generation"]
    assert len(list(members.of("assigned", "revoked", member=others[0].name))) == changes
    ledger = Ledger(members.events)
    assert ledger.missing(ends) == {}
    assert ledger.repeated() == {}


@pytest.mark.parametrize(
    ("kind", "assignor"),
    [
        ("Java", "range"),
        ("librdkafka", "range"),
        ("kcli", "range"),
        ("Java", "consumer"),
        ("kcli", "consumer"),
    ],
)
def test_of_two_members_with_one_instance_id_one_is_fenced(
    group_broker: KcliBroker | ApacheKafka, members: Members, kind: str, assignor: str
) -> None:
    name = f"duplicate-{kind}-{assignor}"
    create_topic(group_broker.bootstrap, name, PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic=name, group=name, assignor=assignor)
    members.common(instance="only")
    first, second = members.enlist(kind, kind)
    first.join()
    members.settle(PARTITIONS, SETTLE_SECONDS)
    second.join()
    # In the new protocol the id belongs to the first until it leaves, or falls silent.
    stays, goes = (first, second) if assignor == "consumer" else (second, first)
    members.wait_until(lambda: not goes.inside, SETTLE_SECONDS, "one of them is told")
    (failure,) = members.of("failed")
    assert failure.member == goes.name
    assert "instance" in failure.reason.lower()
    members.settle(PARTITIONS, SETTLE_SECONDS)
    assert stays.owned == set(range(PARTITIONS))
