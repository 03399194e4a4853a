"""`kcli consume --group` shares a group with other clients, under load, and leaves it in order."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.group_ledger import Ledger
from tests.support.group_tool import GroupTool, eventually
from tests.support.processes import ChildProcess
from tests.support.producing import create_topic
from tests.support.steady_load import SteadyLoad

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.apache_kafka import ApacheKafka
    from tests.support.group_members import Members
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PARTITIONS = 12
RECORDS_PER_SECOND = 600
SETTLE_SECONDS = 30
INTERRUPTED = 130


class Command:
    """`kcli consume` as a child process, and what it printed."""

    def __init__(self, bootstrap: str, topic: str, group: str, errors: Path) -> None:
        self.printed: list[dict[str, object]] = []
        properties = {
            "client.id": "command",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "300",
            "partition.assignment.strategy": "range",
        }
        command = [sys.executable, "-m", "kcli", "consume", topic, "-b", bootstrap, "--group", group]
        command += ["--from-beginning", "-o", "json"]
        for name, value in properties.items():
            command += ["-X", f"{name}={value}"]
        self.child = ChildProcess(command, stderr=errors, on_line=self._heard)

    def _heard(self, line: str | None) -> None:
        if line is not None:
            self.printed.append(json.loads(line))

    def wait_for_more(self, count: int) -> None:
        """Wait until it has printed so many more."""
        enough = len(self.printed) + count
        eventually(lambda: len(self.printed) >= enough, f"{enough} records printed")

    def offsets(self) -> Counter[tuple[object, object]]:
        """How often each offset of each partition was printed."""
        assert all(each["value"] == f"{each['partition']}:{each['offset']}" for each in self.printed)
        return Counter((each["partition"], each["offset"]) for each in self.printed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["interrupted", "terminated"])
def test_the_command_is_a_member_like_any_other(
    group_broker: KcliBroker | ApacheKafka,
    group_tool: GroupTool,
    members: Members,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    name = f"command-{number.name}"
    create_topic(group_broker.bootstrap, name, PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic=name, group=name)
    crew = members.enlist("Java", "librdkafka")
    commands: list[Command] = []
    with SteadyLoad(group_broker.bootstrap, name, PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        for member in crew:
            member.join()
        members.settle(PARTITIONS, SETTLE_SECONDS)
        for _ in range(2):
            errors = tmp_path / f"command-{len(commands)}.log"
            command = Command(group_broker.bootstrap, name, name, errors)
            commands.append(command)
            members.wait_until(
                lambda: [len(member.owned) for member in crew] == [4, 4], SETTLE_SECONDS, "it took its share"
            )
            described = group_tool.members(name)
            assert {member: len(each.partitions) for member, each in described.items()} == {
                "Java": 4,
                "librdkafka": 4,
                "command": 4,
            }
            command.wait_for_more(100)
            assert command.child.stop(number) == INTERRUPTED, command.child.errors
            members.settle(PARTITIONS, SETTLE_SECONDS)
        ends = load.stop()
        eventually(lambda: group_tool.offsets(name) == ends, "everything is committed")
    consumed = Ledger(members.events).consumed()
    everything = sum((command.offsets() for command in commands), Counter[tuple[object, object]]())
    for partition, counts in consumed.items():
        everything += Counter({(partition, offset): times for offset, times in counts.items()})
    assert set(everything) == {(p, offset) for p, end in ends.items() for offset in range(end)}
    assert {place for place, times in everything.items() if times > 1} == set()
