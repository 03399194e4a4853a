"""Replica assignments of new partitions, as `--replica-assignment` has them."""

from __future__ import annotations

from kcli.commands.whole_numbers import LARGEST_INT32, signed_number
from kcli.errors import UsageError


def parse_replica_assignment(text: str) -> list[list[int]]:
    """Return the broker ids of each partition from `1:2,2:3`."""
    assignments: list[list[int]] = []
    for index, entry in enumerate(text.split(",")):
        brokers = [broker_id(word, text) for word in entry.split(":")]
        if len(set(brokers)) != len(brokers):
            raise UsageError(f"partition {index} names a broker twice: {entry}")
        if assignments and len(brokers) != len(assignments[0]):
            raise UsageError(f"partition {index} has another replication factor than partition 0: {entry}")
        assignments.append(brokers)
    return assignments


def broker_id(word: str, text: str) -> int:
    """Return one broker of the replica assignment `text`; the cluster judges whether there is such a one."""
    broker = signed_number(word.strip())
    if broker is None:
        raise UsageError(f"`--replica-assignment` wants broker ids like 1:2,2:3: {text}")
    if abs(broker) > LARGEST_INT32:
        raise UsageError(f"a broker id in `--replica-assignment` is too large: {word}")
    return broker
