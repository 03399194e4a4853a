"""What the interop clients in Python have in common: their command line, and the partitions they wait for.

create  BOOTSTRAP TOPIC PARTITIONS
produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.support.records import TestRecord, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_SECONDS = 240.0


class Lane(NamedTuple):
    """How one file of records is to be produced."""

    partition: int
    codec: str
    acks: str
    is_idempotent: bool
    records: list[TestRecord]

    @classmethod
    def parse(cls, argument: str) -> Lane:
        """Return what an argument of `produce` says, and the records of its file."""
        partition, codec, acks, idempotent, path = argument.split(":", 4)
        return cls(int(partition), codec, acks, idempotent == "1", list(decode(Path(path).read_bytes())))


class Wanted:
    """The partitions to read, by topic and index, each with its slot, and how many records are missing."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        self.slots: dict[tuple[str, int], int] = {}
        self.missing: dict[tuple[str, int], int] = {}
        for slot, argument in enumerate(arguments):
            topic, partition, count = argument.split(":")
            self.slots[topic, int(partition)] = slot
            self.missing[topic, int(partition)] = int(count)

    def arrived(self, place: tuple[str, int], count: int) -> None:
        """Take note of records that were read."""
        left = self.missing.get(place, 0) - count
        if left > 0:
            self.missing[place] = left
        else:
            self.missing.pop(place, None)


def run_client(
    *,
    create: Callable[[str, str, int], None],
    produce: Callable[[str, str, Lane], None],
    consume: Callable[[str, Wanted], list[TestRecord]],
) -> None:
    """Do what the command line says."""
    action, bootstrap, name, *rest = sys.argv[1:]
    if action == "create":
        create(bootstrap, name, int(rest[0]))
    elif action == "produce":
        for argument in rest:
            produce(bootstrap, name, Lane.parse(argument))
    else:
        Path(name).write_bytes(encode(consume(bootstrap, Wanted(tuple(rest)))))
