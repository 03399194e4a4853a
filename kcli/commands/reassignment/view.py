"""The results of `kcli reassign-partitions`: Kafka's lines, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.formatting import ids_text, plural, size_text
from kcli.commands.shared.output import Table
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.admin.replicas import TopicPartitionReplica


class ReassignmentState(StrEnum):
    """What has become of a partition or replica of a plan."""

    MOVING = "moving"
    COMPLETED = "completed"
    DIFFERENT = "different"
    """It is not as planned, and does not move."""
    MOVING_ELSEWHERE = "astray"
    """The replica moves to another log directory than the planned one."""
    MISSING = "missing"
    """The broker has no such replica."""


class PartitionState(NamedTuple):
    """A partition beside the plan: `state` is moving, completed or different."""

    topic: str
    partition: int
    state: ReassignmentState
    replicas: Sequence[int]
    target: Sequence[int]

    def line(self) -> str:
        name = f"{self.topic}-{self.partition}"
        match self.state:
            case ReassignmentState.MOVING:
                return f"Reassignment of partition {name} is still in progress."
            case ReassignmentState.COMPLETED:
                return f"Reassignment of partition {name} is completed."
            case _:
                return (
                    f"There is no active reassignment of partition {name}, but replica set is "
                    f"{ids_text(self.replicas)} rather than {ids_text(self.target)}."
                )


class LogDirState(NamedTuple):
    """A replica beside the log directory that the plan names."""

    topic: str
    partition: int
    broker: int
    state: ReassignmentState
    log_dir: str | None
    future_log_dir: str | None
    target: str

    def line(self) -> str:
        name = f"{self.topic}-{self.partition}"
        match self.state:
            case ReassignmentState.MOVING:
                return f"Reassignment of replica {name}-{self.broker} is still in progress."
            case ReassignmentState.COMPLETED:
                return f"Reassignment of replica {name}-{self.broker} completed successfully."
            case ReassignmentState.MOVING_ELSEWHERE:
                return (
                    f"Partition {name} on broker {self.broker} is being moved to log dir "
                    f"{self.future_log_dir} instead of {self.target}."
                )
            case ReassignmentState.MISSING:
                return (
                    f"Partition {name} is not found in any live log dir on broker {self.broker}. "
                    "There is likely an offline log directory on the broker."
                )
            case _:
                return (
                    f"Partition {name} on broker {self.broker} is not being moved from log dir "
                    f"{self.log_dir} to {self.target}."
                )


class Copy(NamedTuple):
    """A log to copy between brokers or directories; `size_bytes` is that of the source, None if unknown."""

    replica: TopicPartitionReplica
    size_bytes: int | None
    log_dir: str | None = None

    def document(self) -> object:
        return {**self.replica._asdict(), "size_bytes": self.size_bytes, "log_dir": self.log_dir}


class Proposal(NamedTuple):
    """The result of `generate`: two plans as JSON text, and the copies that the second one needs."""

    current: str
    proposed: str
    copies: Sequence[Copy]
    partitions: int

    def lines(self) -> Iterator[str]:
        yield from ("Current partition replica assignment", self.current, "")
        yield from ("Proposed partition reassignment configuration", self.proposed)

    def document(self) -> object:
        return {
            "current": json.loads(self.current),
            "proposed": json.loads(self.proposed),
            "copies": self.copies,
        }

    def tables(self) -> Iterator[Table]:
        now, then = (json.loads(text)["partitions"] for text in (self.current, self.proposed))
        rows = []
        for before, after in zip(now, then, strict=True):
            copies = [
                copy for copy in self.copies if copy.replica[:2] == (after["topic"], after["partition"])
            ]
            size = sum(copy.size_bytes or 0 for copy in copies)
            name, replicas = f"{after['topic']}-{after['partition']}", (before["replicas"], after["replicas"])
            rows.append((name, *map(ids_text, replicas), size_text(size) if copies else None))
        yield Table(("Partition", "Now", "Planned", "To copy"), rows)


class Started(NamedTuple):
    """The result of `execute`: rollback plan, throttles, started moves; `warns`: mention `--verify`."""

    rollback: str
    throttle: int | None
    log_dir_throttle: int | None
    started: Sequence[str]
    started_log_dirs: Sequence[str]
    copies: Sequence[Copy]
    warns: bool
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        yield from ("Current partition replica assignment", "", self.rollback, "")
        yield "Save this to use as the --reassignment-json-file option during rollback"
        if self.warns:
            yield (
                "Warning: You must run --verify periodically, until the reassignment completes, "
                "to ensure the throttle is removed."
            )
        if self.throttle is not None:
            yield f"The inter-broker throttle limit was set to {self.throttle} B/s"
        if self.log_dir_throttle is not None:
            yield f"The replica-alter-dir throttle limit was set to {self.log_dir_throttle} B/s"
        if self.started:
            yield (
                f"Successfully started partition {plural('reassignment', len(self.started))} "
                f"for {','.join(self.started)}"
            )
        yield from self.started_log_dirs

    def document(self) -> dict[str, object]:
        return {
            "rollback": json.loads(self.rollback),
            "throttle": self.throttle,
            "log_dir_throttle": self.log_dir_throttle,
            "started": self.started,
            "copies": self.copies,
            "failures": self.failures,
        }


class Verified(NamedTuple):
    """The result of `verify`; it has removed the throttles of `brokers` and `topics`."""

    partitions: Sequence[PartitionState]
    log_dirs: Sequence[LogDirState] = ()
    brokers: Sequence[int] = ()
    topics: Sequence[str] = ()
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines, an empty one if the plan names no log directories."""
        yield "Status of partition reassignment:"
        yield from (state.line() for state in self.partitions)
        yield from [state.line() for state in self.log_dirs] or [""]
        if self.topics:
            yield from cleared_lines(self.brokers, self.topics)

    def tables(self) -> Iterator[Table]:
        yield Table(
            ("Partition", "State", "Replicas", "Target"),
            [
                (f"{each.topic}-{each.partition}", each.state, ids_text(each.replicas), ids_text(each.target))
                for each in self.partitions
            ],
        )
        if self.log_dirs:
            yield Table(
                ("Replica", "State", "Directory", "Target"),
                [
                    (f"{each.topic}-{each.partition}-{each.broker}", each.state, each.log_dir, each.target)
                    for each in self.log_dirs
                ],
            )


class Executed(NamedTuple):
    """The result of `execute --wait`: its start and its end."""

    started: Started
    verified: Verified
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        yield from self.started.lines()
        yield from self.verified.lines()

    def document(self) -> object:
        return {**self.started.document(), **self.verified._asdict(), "failures": self.failures}


class MovingPartition(NamedTuple):
    topic: str
    partition: int
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


class Moving(NamedTuple):
    """The result of `list`."""

    partitions: Sequence[MovingPartition]

    def lines(self) -> Iterator[str]:
        if not self.partitions:
            yield "No partition reassignments found."
            return
        yield "Current partition reassignments:"
        for each in self.partitions:
            adding = f" adding: {ids_text(each.adding)}." if each.adding else ""
            removing = f" removing: {ids_text(each.removing)}." if each.removing else ""
            yield f"{each.topic}-{each.partition}: replicas: {ids_text(each.replicas)}.{adding}{removing}"

    def tables(self) -> Iterator[Table]:
        yield Table(
            ("Partition", "Replicas", "Adding", "Removing"),
            [(f"{each.topic}-{each.partition}", *map(ids_text, each[2:])) for each in self.partitions],
        )


class Cancelled(NamedTuple):
    """The result of `cancel`; it has removed the throttles of `brokers` and `topics`."""

    cancelled: Sequence[str]
    cancelled_log_dirs: Sequence[str] = ()
    brokers: Sequence[int] = ()
    topics: Sequence[str] = ()
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines; the one about log directories has no line break at its end."""
        if self.cancelled:
            yield (
                f"Successfully cancelled partition {plural('reassignment', len(self.cancelled))} "
                f"for: {','.join(self.cancelled)}"
            )
        elif not self.failures:
            yield "None of the specified partition reassignments are active."
        cleared = cleared_lines(self.brokers, self.topics) if self.topics else []
        if self.cancelled_log_dirs:
            yield from (*self.cancelled_log_dirs, *cleared)
        else:
            brokers, *topics = cleared or [""]
            yield from (f"None of the specified partition moves are active.{brokers}", *topics)


def cleared_lines(brokers: Iterable[int], topics: Iterable[str]) -> list[str]:
    """Return Kafka's lines about removed throttles, the sets in Java's order."""
    from kcli.commands.shared.java import hash_map_order
    from kcli.protocol.java import string_hash

    broker_ids = hash_map_order(sorted(set(brokers)), lambda broker: broker)
    names = hash_map_order(sorted(set(topics)), lambda name: string_hash(name) & 0xFFFFFFFF)
    cleared = [
        f"Clearing broker-level throttles on {plural('broker', len(broker_ids))} {ids_text(broker_ids)}"
    ]
    if names:
        cleared.append(f"Clearing topic-level throttles on {plural('topic', len(names))} {','.join(names)}")
    return cleared
