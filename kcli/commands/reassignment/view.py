"""What the verbs of `kcli reassign-partitions` return: Kafka's lines, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kcli.commands.shared.formatting import plural
from kcli.commands.shared.output import Table
from kcli.errors import KcliError

MOVING = "moving"
COMPLETED = "completed"
DIFFERENT = "different"
MISSING = "missing"
ASTRAY = "astray"


class PartitionState(NamedTuple):
    """How a partition stands to the plan: `state` is moving, completed or different."""

    topic: str
    partition: int
    state: str
    replicas: Sequence[int]
    target: Sequence[int]

    def line(self) -> str:
        """Return Kafka's line."""
        name = f"{self.topic}-{self.partition}"
        match self.state:
            case "moving":
                return f"Reassignment of partition {name} is still in progress."
            case "completed":
                return f"Reassignment of partition {name} is completed."
            case _:
                return (
                    f"There is no active reassignment of partition {name}, but replica set is "
                    f"{ids(self.replicas)} rather than {ids(self.target)}."
                )


class LogDirState(NamedTuple):
    """How a replica stands to the log directory of a plan.

    `state` is moving, completed, different (it lies in `log_dir` and stays there), astray (it moves to
    `future_log_dir`, which is another one) or missing (the broker has no such replica).
    """

    topic: str
    partition: int
    broker: int
    state: str
    log_dir: str | None
    future_log_dir: str | None
    target: str

    def line(self) -> str:
        """Return Kafka's line."""
        name = f"{self.topic}-{self.partition}"
        match self.state:
            case "moving":
                return f"Reassignment of replica {name}-{self.broker} is still in progress."
            case "completed":
                return f"Reassignment of replica {name}-{self.broker} completed successfully."
            case "astray":
                return (
                    f"Partition {name} on broker {self.broker} is being moved to log dir "
                    f"{self.future_log_dir} instead of {self.target}."
                )
            case "missing":
                return (
                    f"Partition {name} is not found in any live log dir on broker {self.broker}. "
                    "There is likely an offline log directory on the broker."
                )
            case _:
                return (
                    f"Partition {name} on broker {self.broker} is not being moved from log dir "
                    f"{self.log_dir} to {self.target}."
                )


class PlannedCopy(NamedTuple):
    """A log that a broker gets, and its size where that is known."""

    topic: str
    partition: int
    broker: int
    size_bytes: int | None
    log_dir: str | None = None


class Proposal(NamedTuple):
    """The result of `generate`: two plans of `partitions` as JSON text, and what the second one copies."""

    current: str
    proposed: str
    copies: Sequence[PlannedCopy]
    partitions: int

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines."""
        yield from ("Current partition replica assignment", self.current, "")
        yield from ("Proposed partition reassignment configuration", self.proposed)

    def document(self) -> object:
        """Return both plans as documents."""
        return {
            "current": json.loads(self.current),
            "proposed": json.loads(self.proposed),
            "copies": self.copies,
        }

    def tables(self) -> Iterator[Table]:
        """Return a table of the partitions of the plan."""
        from kcli.commands.shared.formatting import size_text

        now, then = (json.loads(text)["partitions"] for text in (self.current, self.proposed))
        rows = []
        for before, after in zip(now, then, strict=True):
            copies = [
                copy
                for copy in self.copies
                if (copy.topic, copy.partition) == (after["topic"], after["partition"])
            ]
            size = sum(copy.size_bytes or 0 for copy in copies)
            rows.append(
                (
                    f"{after['topic']}-{after['partition']}",
                    ids(before["replicas"]),
                    ids(after["replicas"]),
                    size_text(size) if copies else None,
                )
            )
        yield Table(("Partition", "Now", "Planned", "To copy"), rows)


class Started(NamedTuple):
    """The result of `execute`: the plan to go back with, the limits that were set, and what has begun.

    `warns` says whether Kafka's line about `--verify` has to be there.
    """

    rollback: str
    throttle: int | None
    log_dir_throttle: int | None
    started: Sequence[str]
    started_log_dirs: Sequence[str]
    copies: Sequence[PlannedCopy]
    warns: bool
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines."""
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
        """Return the plan to go back with as a document."""
        return {
            "rollback": json.loads(self.rollback),
            "throttle": self.throttle,
            "log_dir_throttle": self.log_dir_throttle,
            "started": self.started,
            "copies": self.copies,
            "failures": self.failures,
        }


class Verified(NamedTuple):
    """The result of `verify`; the throttles that it removed are those of `brokers` and `topics`."""

    partitions: Sequence[PartitionState]
    log_dirs: Sequence[LogDirState] = ()
    brokers: Sequence[int] = ()
    topics: Sequence[str] = ()
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines; an empty one stands for no moves between log directories."""
        yield "Status of partition reassignment:"
        yield from (state.line() for state in self.partitions)
        yield from [state.line() for state in self.log_dirs] or [""]
        if self.topics:
            yield from cleared_lines(self.brokers, self.topics)

    def tables(self) -> Iterator[Table]:
        """Return a table of partitions, and one of log directories if the plan names any."""
        yield Table(
            ("Partition", "State", "Replicas", "Target"),
            [
                (f"{each.topic}-{each.partition}", each.state, ids(each.replicas), ids(each.target))
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
    """The result of `execute --wait` as a document: how it started and how it ended."""

    started: Started
    verified: Verified
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return the lines of both."""
        yield from self.started.lines()
        yield from self.verified.lines()

    def document(self) -> object:
        """Return the fields of both."""
        return {**self.started.document(), **self.verified._asdict(), "failures": self.failures}


class MovingPartition(NamedTuple):
    """A partition on the move."""

    topic: str
    partition: int
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


class Moving(NamedTuple):
    """The result of `list`."""

    partitions: Sequence[MovingPartition]

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines."""
        if not self.partitions:
            yield "No partition reassignments found."
            return
        yield "Current partition reassignments:"
        for each in self.partitions:
            adding = f" adding: {ids(each.adding)}." if each.adding else ""
            removing = f" removing: {ids(each.removing)}." if each.removing else ""
            yield f"{each.topic}-{each.partition}: replicas: {ids(each.replicas)}.{adding}{removing}"

    def tables(self) -> Iterator[Table]:
        """Return one table."""
        yield Table(
            ("Partition", "Replicas", "Adding", "Removing"),
            [
                (f"{each.topic}-{each.partition}", ids(each.replicas), ids(each.adding), ids(each.removing))
                for each in self.partitions
            ],
        )


class Cancelled(NamedTuple):
    """The result of `cancel`; the throttles that it removed are those of `brokers` and `topics`."""

    cancelled: Sequence[str]
    cancelled_log_dirs: Sequence[str] = ()
    brokers: Sequence[int] = ()
    topics: Sequence[str] = ()
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines: it does not break the one about log directories."""
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
    """Return Kafka's lines about throttles that are removed, with the sets as Java lists them."""
    from kcli.commands.shared.java import hash_map_order
    from kcli.protocol.topics import string_hash

    broker_ids = hash_map_order(sorted(set(brokers)), lambda broker: broker)
    names = hash_map_order(sorted(set(topics)), lambda name: string_hash(name) & 0xFFFFFFFF)
    cleared = [f"Clearing broker-level throttles on {plural('broker', len(broker_ids))} {ids(broker_ids)}"]
    if names:
        cleared.append(f"Clearing topic-level throttles on {plural('topic', len(names))} {','.join(names)}")
    return cleared


def ids(numbers: Iterable[int]) -> str:
    """Return broker ids with commas between them."""
    return ",".join(map(str, numbers))
