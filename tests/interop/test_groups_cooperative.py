"""Cooperative rebalances with every client that has them: partitions that do not move never stop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.group_ledger import Ledger
from tests.support.producing import create_topic
from tests.support.steady_load import SteadyLoad

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apache_kafka import ApacheKafka
    from tests.support.group_members import Member, Members
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

KINDS = ("librdkafka", "Java", "franz-go", "sarama", "kafka-python", "kcli")
PARTITIONS = 12
RECORDS_PER_SECOND = 600
SETTLE_SECONDS = 60
HEARTBEAT_MS = 100
"""Members learn of a change of the group with their next one."""


class Kept:
    """What members keep over one change of the group, and whether it went on meanwhile."""

    def __init__(self, members: Members, what: str) -> None:
        self.members = members
        self.what = what
        self.before = {member: set(member.owned) for member in members.inside}
        self.started = time.monotonic()
        self.ended = 0.0
        self.kept: dict[Member, set[int]] = {}

    def settle(self) -> None:
        """Wait until the group is settled again."""
        self.ended = self.members.settle(PARTITIONS, SETTLE_SECONDS, self.what)
        self.kept = {member: owned & member.owned for member, owned in self.before.items()}

    def longest_pause(self, ledger: Ledger) -> tuple[float, str]:
        """How long one of the kept partitions was not read, and where; for when all events are there."""
        longest = (0.0, "")
        for member, kept in self.kept.items():
            for event in self.members.of("revoked", "lost", since=self.started, member=member.name):
                given = kept & set(event.partitions)
                lasting = event.at > self.ended or not given
                assert lasting, f"{self.what}: {member.name} gave up {given} and got it"
            for partition in kept:
                pause = ledger.longest_pause(partition, self.started, self.ended)
                longest = max(longest, (pause, f"{member.name} while {self.what}"))
        return longest


def test_partitions_that_do_not_move_never_stop(
    group_broker: KcliBroker | ApacheKafka, members: Members, show: Callable[[str], None]
) -> None:
    create_topic(group_broker.bootstrap, "cooperative", PARTITIONS)
    members.common(
        bootstrap=group_broker.bootstrap,
        topic="cooperative",
        group="cooperative",
        assignor="cooperative-sticky",
        heartbeat=HEARTBEAT_MS,
    )
    crew = members.enlist(*KINDS)
    changes = []
    with SteadyLoad(group_broker.bootstrap, "cooperative", PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        crew[0].join()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        for member in crew[1:]:
            changes.append(Kept(members, f"{member.name} joins"))
            member.join()
            changes[-1].settle()
        for member in crew[:-1]:
            changes.append(Kept(members, f"{member.name} leaves"))
            member.leave()
            changes[-1].settle()
        ends = load.stop()
        members.consume_up_to(ends, SETTLE_SECONDS)
    crew[-1].leave()
    ledger = Ledger(members.events)
    assert ledger.missing(ends) == {}
    assert ledger.wrong_values() == []
    assert list(members.of("lost", "failed")) == []
    # Each checks that no partition was given up meanwhile that stayed with its member.
    longest, where = max(change.longest_pause(ledger) for change in changes)
    show(
        f"cooperative-sticky, {len(changes)} changes of the group: partitions that stayed where they were "
        f"paused at most {longest:.2f} s ({where})"
    )
