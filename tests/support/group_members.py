"""Group members of every client: real programs, driven through the lines that `member_program` describes.

`MemberPrograms` keeps the programs running between tests, since a JVM takes longer to start than a group
takes to rebalance. `Members` are those of one test: they join and leave, and everything that they report is
one list of events that `wait_until` watches.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.support.apache_kafka import java_command
from tests.support.member_program import JoinOptions
from tests.support.processes import ChildProcess
from tests.support.toolchain import INTEROP, go_program, java_classes, node_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

READY_SECONDS = 120.0
LEAVE_SECONDS = 60.0
CLOSE_SECONDS = 20.0
"""For those that are still in a group when their test ends: who needs longer is killed."""
REPOSITORY = INTEROP.parent.parent


def _python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(INTEROP / "python" / f"{name}_member.py")]


def _java(version: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        classes = java_classes("clients-0.10", "GroupMember")
        return java_command(f"clients-{version}", "GroupMember", "-Xmx128m", classes=classes)

    return command


def _go(name: str) -> Callable[[], list[str]]:
    return lambda: [str(go_program(f"{name}-member"))]


PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "librdkafka": _python("confluent"),
    "kafka-python": _python("kafka_python"),
    "aiokafka": _python("aiokafka"),
    "Java": _java("4.3"),
    "Java 2.8": _java("2.8"),
    "Java 1.1": _java("1.1"),
    "Java 0.10.2": _java("0.10"),
    "franz-go": _go("franz"),
    "sarama": _go("sarama"),
    "KafkaJS": lambda: ["node", str(node_directory() / "member.js")],
    "kcli": _python("kcli"),
}


@dataclass(frozen=True, slots=True)
class Event:
    """What a member reported, and when that was, by the monotonic clock."""

    at: float
    member: str
    kind: str
    partitions: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    """Of the records of the one partition, or the committed one of each partition."""
    values: tuple[str, ...] = ()
    reason: str = ""

    @classmethod
    def parse(cls, member: str, line: str) -> Event:
        """From a line of the member's program."""
        told = json.loads(line)
        new = cls(told["at"], member, told["event"])
        match new.kind:
            case "records":
                offsets, values = tuple(told["offsets"]), tuple(told["values"])
                return replace(new, partitions=(told["partition"],), offsets=offsets, values=values)
            case "committed":
                positions: dict[str, int] = told["offsets"]
                return replace(new, partitions=tuple(map(int, positions)), offsets=tuple(positions.values()))
            case "refused" | "failed":
                return replace(new, reason=told["reason"])
            case _:
                return replace(new, partitions=tuple(told.get("partitions", ())))


class Program:
    """One running member program; its lines go to whichever member it is at the time."""

    def __init__(self, kind: str, log: Path) -> None:
        self.kind = kind
        self.ready = threading.Event()
        self.hear: Callable[[str], None] = self._before_any_member
        self.child = ChildProcess(
            PROGRAMS[kind](),
            stderr=log,
            environment={"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", "NODE_NO_WARNINGS": "1"},
            on_line=self._heard,
        )

    def _heard(self, line: str | None) -> None:
        if line is None:
            self.ready.set()
            self.hear(json.dumps({"event": "ended", "at": time.monotonic()}))
        else:
            self.hear(line)

    def _before_any_member(self, line: str) -> None:
        self.ready.set()


class MemberPrograms:
    """The programs that run, idle ones first in line for the next test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._idle: dict[str, list[Program]] = {}
        self._started = 0

    def take(self, kinds: Iterable[str]) -> list[Program]:
        """Programs of these kinds, ready for commands; missing ones start side by side."""
        taken = [self._idle[kind].pop() if self._idle.get(kind) else self._start(kind) for kind in kinds]
        for program in taken:
            program.ready.wait(READY_SECONDS)
            running = program.ready.is_set() and program.child.is_running()
            assert running, f"{program.kind}: {program.child.errors[-3000:]}"
        return taken

    def _start(self, kind: str) -> Program:
        self._started += 1
        return Program(kind, self._directory / f"{kind.replace(' ', '-')}-{self._started}.log")

    def give_back(self, program: Program) -> None:
        """A program outside any group."""
        program.hear = program._before_any_member
        self._idle.setdefault(program.kind, []).append(program)

    def close(self) -> None:
        """End every idle program."""
        for programs in self._idle.values():
            for program in programs:
                program.child.kill()


@dataclass(slots=True, eq=False)
class Member:
    """A program as a member of a group."""

    name: str
    """Its client id too."""
    program: Program
    members: Members
    owned: set[int] = field(default_factory=set)
    inside: bool = False
    """Whether it was told to join and has neither left nor failed since."""
    assignments: int = 0
    """How often it was told what it owns, since it joined."""

    def join(self, **options: str | int) -> None:
        """Send the command; returns before the member has joined."""
        wanted = {"client": self.name, **self.members.options(options)}
        words = JoinOptions.parse(f"{name}={value}" for name, value in wanted.items()).words()
        with self.members.changed:
            self.inside, self.assignments = True, 0
        self.program.child.write_line(f"join {words}")

    def leave(self) -> None:
        """Leave in order and wait until that is done."""
        self.ask_to_leave()
        self.members.wait_until(lambda: not self.inside, LEAVE_SECONDS, f"{self.name} has left")

    def ask_to_leave(self) -> None:
        """Send the command."""
        self.program.child.write_line("leave")

    def kill(self) -> float:
        """SIGKILL the program; the group does not hear of it. When that was."""
        with self.members.changed:
            self.inside = False
        at = time.monotonic()
        self.program.child.kill()
        return at

    def freeze(self) -> float:
        """SIGSTOP: the member is silent, its connections stay. When that was."""
        at = time.monotonic()
        os.kill(self.program.child.pid, signal.SIGSTOP)
        return at

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.program.child.pid, signal.SIGCONT)

    def hear(self, line: str) -> None:
        """Take in a line of the program."""
        event = Event.parse(self.name, line)
        with self.members.changed:
            match event.kind:
                case "assigned":
                    self.owned |= set(event.partitions)
                    self.assignments += 1
                case "revoked" | "lost":
                    self.owned -= set(event.partitions)
                case "left" | "failed" | "ended":
                    self.owned.clear()
                    self.inside = False
                case "records":
                    (partition,) = event.partitions
                    reached = self.members.reached
                    reached[partition] = max(event.offsets[-1] + 1, reached.get(partition, 0))
            self.members.events.append(event)
            self.members.changed.notify_all()


class Members:
    """The members of a test, and everything they report."""

    def __init__(self, programs: MemberPrograms, **defaults: str | int) -> None:
        self._programs = programs
        self._defaults = defaults
        self.changed = threading.Condition(threading.RLock())
        self.events: list[Event] = []
        self.reached: dict[int, int] = {}
        """Behind the highest offset of each partition that a member consumed."""
        self.all: list[Member] = []

    def options(self, given: dict[str, str | int]) -> dict[str, str | int]:
        """What a member joins with: the test's common options, and its own."""
        return {**self._defaults, **given}

    def common(self, **defaults: str | int) -> None:
        """Set options that every member joins with."""
        self._defaults |= defaults

    def enlist(self, *kinds: str) -> list[Member]:
        """Programs of these kinds as members, outside the group so far."""
        found = []
        for kind, program in zip(kinds, self._programs.take(kinds), strict=True):
            number = sum(each.program.kind == kind for each in self.all) + 1
            name = kind.replace(" ", "-")
            member = Member(name if number == 1 else f"{name}-{number}", program, self)
            program.hear = member.hear
            self.all.append(member)
            found.append(member)
        return found

    @property
    def inside(self) -> list[Member]:
        """The members that were told to join and have not left."""
        return [each for each in self.all if each.inside]

    def owners(self) -> dict[int, list[str]]:
        """Who owns each partition by what the members said."""
        found: dict[int, list[str]] = {}
        for member in self.inside:
            for partition in member.owned:
                found.setdefault(partition, []).append(member.name)
        return found

    def is_settled(self, partitions: int) -> bool:
        """Whether each partition has one owner, and each member an assignment that is not empty."""
        owners = self.owners()
        return (
            len(owners) == partitions
            and all(len(names) == 1 for names in owners.values())
            and all(member.assignments and member.owned for member in self.inside)
        )

    def settle(self, partitions: int, timeout: float, what: str = "the group is settled") -> float:
        """Wait until it is; returns when the last partition moved."""
        self.wait_until(lambda: self.is_settled(partitions), timeout, what)
        return self.last_move()

    def last_move(self) -> float:
        """When a member was last told about its partitions, or left."""
        return max(event.at for event in self.of("assigned", "revoked", "lost", "left"))

    def wait_until(self, holds: Callable[[], bool], timeout: float, what: str) -> None:
        """Wait for a condition on the members or events."""
        deadline = time.monotonic() + timeout
        with self.changed:
            while not holds():
                left = deadline - time.monotonic()
                assert left > 0, f"not in {timeout} s: {what}\n{self.story()}"
                self.changed.wait(left)

    def consume_up_to(self, ends: Mapping[int, int], timeout: float) -> None:
        """Wait until every partition is consumed to its end."""
        self.wait_until(
            lambda: all(self.reached.get(partition, 0) >= end for partition, end in ends.items()),
            timeout,
            f"everything is consumed, up to {ends}",
        )

    def of(self, *kinds: str, since: float = 0.0, member: str = "") -> Iterator[Event]:
        """The events of some kinds, in order."""
        with self.changed:
            events = list(self.events)
        for event in events:
            if event.kind in kinds and event.at >= since and member in ("", event.member):
                yield event

    def story(self) -> str:
        """Who owns what, and the last events but for records and commits."""
        lines = [f"{each.name}: inside {each.inside}, owns {sorted(each.owned)}" for each in self.all]
        shown = [event for event in self.events if event.kind not in ("records", "committed")]
        lines += [
            f"{each.at:.3f} {each.member} {each.kind} {list(each.partitions)} {each.reason}"
            for each in shown[-60:]
        ]
        return "\n".join(lines)

    def close(self) -> None:
        """Let every member leave, and give the programs back that are still of use."""
        for member in self.all:
            if member.program.child.is_running():
                member.thaw()
                if member.inside:
                    member.ask_to_leave()
        with self.changed:
            self.changed.wait_for(lambda: not self.inside, CLOSE_SECONDS)
        for member in self.all:
            if member.inside or not member.program.child.is_running():
                member.program.child.kill()
            else:
                self._programs.give_back(member.program)
