"""`kcli consume --group` shares a group with other clients, under load, and leaves it in order."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.group_ledger import Ledger
from tests.support.group_tool import GroupTool
from tests.support.processes import ChildProcess
from tests.support.producing import create_topic
from tests.support.steady_load import SteadyLoad
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import ApacheKafka
    from tests.support.group_members import Members
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PARTITIONS = 12
RECORDS_PER_SECOND = 600
SETTLE_SECONDS = 60
INTERRUPTED = 130
PROPERTIES = {
    "range": {
        "session.timeout.ms": "30000",
        "heartbeat.interval.ms": "300",
        "partition.assignment.strategy": "range",
    },
    "consumer": {"group.protocol": "consumer"},
}
"""By who assigns: a member, or the broker."""


class Command:
    """`kcli consume` as a child process, and what it printed."""

    def __init__(self, bootstrap: str, topic: str, group: str, *, assignor: str, errors: Path) -> None:
        self.printed: list[dict[str, object]] = []
        properties = {"client.id": "command", **PROPERTIES[assignor]}
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


@pytest.mark.parametrize(
    ("number", "assignor"),
    [(signal.SIGINT, "range"), (signal.SIGTERM, "range"), (signal.SIGINT, "consumer")],
    ids=["interrupted", "terminated", "consumer protocol"],
)
def test_the_command_is_a_member_like_any_other(
    group_broker: KcliBroker | ApacheKafka,
    group_tool: GroupTool,
    members: Members,
    tmp_path: Path,
    number: signal.Signals,
    assignor: str,
) -> None:
    name = f"command-{number.name}-{assignor}"
    create_topic(group_broker.bootstrap, name, PARTITIONS)
    members.common(bootstrap=group_broker.bootstrap, topic=name, group=name, assignor=assignor)
    crew = members.enlist("Java", "librdkafka")
    commands: list[Command] = []
    with SteadyLoad(group_broker.bootstrap, name, PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        group_tool.join_in_turn(name, PARTITIONS, *crew)
        for _ in range(2):
            errors = tmp_path / f"command-{len(commands)}.log"
            command = Command(group_broker.bootstrap, name, name, assignor=assignor, errors=errors)
            commands.append(command)
            members.wait_until(
                lambda: [len(member.owned) for member in crew] == [4, 4], SETTLE_SECONDS, "it took its share"
            )
            eventually(
                lambda: (
                    {member: len(each.partitions) for member, each in group_tool.members(name).items()}
                    == {"Java": 4, "librdkafka": 4, "command": 4}
                ),
                "it has its share",
            )
            command.wait_for_more(100)
            assert command.child.stop(number) == INTERRUPTED, command.child.errors
            members.settle(PARTITIONS, SETTLE_SECONDS)
            group_tool.rest(name, members)
        ends = load.stop()
        eventually(lambda: group_tool.offsets(name) == ends, "everything is committed")
    consumed = Ledger(members.events).consumed()
    everything = sum((command.offsets() for command in commands), Counter[tuple[object, object]]())
    for partition, counts in consumed.items():
        everything += Counter({(partition, offset): times for offset, times in counts.items()})
    assert set(everything) == {(p, offset) for p, end in ends.items() for offset in range(end)}
    assert {place for place, times in everything.items() if times > 1} == set()


@pytest.mark.parametrize("assignor", list(PROPERTIES))
def test_what_there_is_is_read_to_its_end_and_once(
    group_broker: KcliBroker | ApacheKafka, assignor: str
) -> None:
    name = f"to-the-end-{assignor}"
    create_topic(group_broker.bootstrap, name, PARTITIONS)
    with SteadyLoad(group_broker.bootstrap, name, PARTITIONS, per_second=RECORDS_PER_SECOND) as load:
        ends = load.stop()
    command = [sys.executable, "-m", "kcli", "consume", name, "-b", group_broker.bootstrap, "--group", name]
    command += ["--from-beginning", "--until-end"]
    for option, value in PROPERTIES[assignor].items():
        command += ["-X", f"{option}={value}"]
    counts = []
    for _ in range(2):
        finished = subprocess.run(command, capture_output=True, timeout=120, check=True)
        counts.append(len(finished.stdout.splitlines()))
    assert counts == [sum(ends.values()), 0]


def test_explain_names_the_member_that_is_stopped(
    group_broker: KcliBroker | ApacheKafka,
    group_tool: GroupTool,
    members: Members,
    kcli: Callable[..., Finished],
) -> None:
    name = "explained"
    create_topic(group_broker.bootstrap, name, 2)
    members.common(bootstrap=group_broker.bootstrap, topic=name, group=name, assignor="range", session=60_000)
    crew = members.enlist("librdkafka", "kafka-python")
    words = ("consumer-groups", "describe", name, "--explain", "--interval", "1", "-o", "json")

    def explained() -> Finished:
        return kcli(*words, "-b", group_broker.bootstrap)

    with SteadyLoad(group_broker.bootstrap, name, 2, per_second=50):
        group_tool.join_in_turn(name, 2, *crew)
        eventually(lambda: len(group_tool.offsets(name)) == 2, "both have committed")
        assert "stopped-committing" not in explained().out
        crew[0].freeze()
        try:
            # Each look takes three seconds; twice as long without a commit is a problem.
            eventually(lambda: explained().exit_code == 3, "the problem is found")
            finished = explained()
        finally:
            crew[0].thaw()
    assert finished.exit_code == 3
    first, *others = json.loads(finished.out)["groups"][0]["findings"]
    assert (first["level"], first["code"]) == ("problem", "stopped-committing")
    assert first["message"].startswith("`librdkafka` at ")
    assert "while others do" in first["message"]
    assert first["hint"].endswith("without heartbeats it is removed 1m00s after the last one")
    assert not {"lag-grows", "lag-shrinks"} & {finding["code"] for finding in others}
