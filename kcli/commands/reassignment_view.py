"""What the verbs of `kcli reassign-partitions` return: Kafka's lines, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kcli.commands.output import Table
from kcli.errors import KcliError

MOVING = "moving"
COMPLETED = "completed"
DIFFERENT = "different"


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


class Proposal(NamedTuple):
    """The result of `generate`: two plans as JSON text."""

    current: str
    proposed: str

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines."""
        yield from ("Current partition replica assignment", self.current, "")
        yield from ("Proposed partition reassignment configuration", self.proposed)

    def document(self) -> object:
        """Return both plans as documents."""
        return {"current": json.loads(self.current), "proposed": json.loads(self.proposed)}


class Started(NamedTuple):
    """The result of `execute`: the plan to go back with, the limit that was set, and what has begun."""

    rollback: str
    throttle: int | None
    started: Sequence[str]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines."""
        yield from ("Current partition replica assignment", "", self.rollback, "")
        yield "Save this to use as the --reassignment-json-file option during rollback"
        if self.throttle is not None:
            yield (
                "Warning: You must run --verify periodically, until the reassignment completes, "
                "to ensure the throttle is removed."
            )
            yield f"The inter-broker throttle limit was set to {self.throttle} B/s"
        if self.started:
            yield (
                f"Successfully started partition reassignment{plural(self.started)} "
                f"for {','.join(self.started)}"
            )

    def document(self) -> object:
        """Return the plan to go back with as a document."""
        return {**self._asdict(), "rollback": json.loads(self.rollback)}


class Verified(NamedTuple):
    """The result of `verify`; the throttles that it removed are those of `brokers` and `topics`."""

    partitions: Sequence[PartitionState]
    brokers: Sequence[int] = ()
    topics: Sequence[str] = ()
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines; the empty one stands for moves between log directories."""
        yield "Status of partition reassignment:"
        yield from (state.line() for state in self.partitions)
        yield ""
        if self.topics:
            yield from cleared_lines(self.brokers, self.topics)

    def tables(self) -> Iterator[Table]:
        """Return one table."""
        yield Table(
            ("Partition", "State", "Replicas", "Target"),
            [
                (f"{each.topic}-{each.partition}", each.state, ids(each.replicas), ids(each.target))
                for each in self.partitions
            ],
        )


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
    brokers: Sequence[int] = ()
    topics: Sequence[str] = ()
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return Kafka's lines: it ends the one about log directories with no line break."""
        if self.cancelled:
            yield (
                f"Successfully cancelled partition reassignment{plural(self.cancelled)} "
                f"for: {','.join(self.cancelled)}"
            )
        elif not self.failures:
            yield "None of the specified partition reassignments are active."
        directories = "None of the specified partition moves are active."
        if not self.topics:
            yield directories
            return
        brokers, topics = cleared_lines(self.brokers, self.topics)
        yield from (directories + brokers, topics)


def cleared_lines(brokers: Iterable[int], topics: Iterable[str]) -> list[str]:
    """Return Kafka's lines about throttles that are removed, with the sets as Java lists them."""
    from kcli.commands.java_order import hash_map_order
    from kcli.protocol.group_partition import string_hash

    broker_ids = hash_map_order(sorted(set(brokers)), lambda broker: broker)
    names = hash_map_order(sorted(set(topics)), lambda name: string_hash(name) & 0xFFFFFFFF)
    return [
        f"Clearing broker-level throttles on broker{plural(broker_ids)} {ids(broker_ids)}",
        f"Clearing topic-level throttles on topic{plural(names)} {','.join(names)}",
    ]


def plural(items: Sequence[object]) -> str:
    """Return the ending of a word for some items."""
    return "" if len(items) == 1 else "s"


def ids(numbers: Iterable[int]) -> str:
    """Return broker ids with commas between them."""
    return ",".join(map(str, numbers))
