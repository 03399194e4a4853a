"""What the transactional programs of every client share: commands come in by line, answers go out by line.

Commands, one a line, are a name and words `name=value`. A program has any number of producers, each with a
name:

    open    producer=NAME bootstrap=HOST:PORT id=TRANSACTIONAL-ID timeout=MS [group=NAME source=TOPIC]
    begin   producer=NAME
    send    producer=NAME topic=NAME partitions=N count=N tag=TEXT
    offsets producer=NAME group=NAME topic=NAME position=OFFSET
    commit  producer=NAME
    abort   producer=NAME
    close   producer=NAME
    read    bootstrap=HOST:PORT isolation=NAME wanted=TOPIC:PARTITION:OFFSET,...

`open` makes a producer whose transactional id is its own from then on. `group` and `source` are for a client
that sends the offsets of a group only as that group's consumer. `send` gives each of the partitions `count`
records with the keys and values of `key_of` and `value_of`, and waits until all are acknowledged. `offsets`
sends a position in partition 0. `close` ends no transaction, as a process does that is killed.

`read` reads each wanted partition from its start, without a group where the client can, until the record at
that offset has come. `isolation` is `read_committed` or `read_uncommitted`.

The answer to a command is its last line: `ok`, or `refused` and what the client says, in one line: the names
of the error and its causes, a colon, and the message. Before it, `read` prints each record as `record`, the
position of the partition among the wanted ones, offset, key and value.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

DEADLINE_SECONDS = 60.0


class TransactionProgram(Protocol):
    """A client's way to perform the commands; whatever one raises is what the client says."""

    def open(self, *, producer: str, bootstrap: str, id: str, timeout: str) -> None:
        """Make a producer and fence earlier ones of its id."""

    def begin(self, *, producer: str) -> None:
        """Begin a transaction."""

    def send(self, *, producer: str, topic: str, partitions: str, count: str, tag: str) -> None:
        """Send records to each partition."""

    def offsets(self, *, producer: str, group: str, topic: str, position: str) -> None:
        """Send a group's offset."""

    def commit(self, *, producer: str) -> None:
        """Commit the transaction."""

    def abort(self, *, producer: str) -> None:
        """Abort the transaction."""

    def close(self, *, producer: str) -> None:
        """Forget the producer."""

    def read(self, bootstrap: str, isolation: str, wanted: Wanted) -> Iterator[ReadRecord]:
        """The records of the wanted partitions."""


def key_of(number: int) -> str:
    """The key of a partition's record with this number of one `send`."""
    return f"key-{number}"


def value_of(tag: str, partition: int, number: int) -> str:
    """Its value."""
    return f"{tag}-{partition}-{number}"


def records_to_send(partitions: str, count: str, tag: str) -> Iterator[tuple[int, bytes, bytes]]:
    """Partition, key and value of each record of a `send`."""
    for number in range(int(count)):
        for partition in range(int(partitions)):
            yield partition, key_of(number).encode(), value_of(tag, partition, number).encode()


ReadRecord = tuple[str, int, int, bytes | None, bytes | None]
"""Topic, partition, offset, key, value."""


class Wanted:
    """The partitions of a `read`, each with its place among them, and the last offset of those still open."""

    def __init__(self, text: str) -> None:
        self.slots: dict[tuple[str, int], int] = {}
        self.missing: dict[tuple[str, int], int] = {}
        for slot, word in enumerate(text.split(",")):
            topic, partition, offset = word.split(":")
            self.slots[topic, int(partition)] = slot
            self.missing[topic, int(partition)] = int(offset)

    def arrived(self, place: tuple[str, int], offset: int) -> None:
        """Take note of a record that was read."""
        if offset >= self.missing.get(place, offset + 1):
            del self.missing[place]


def serve(program: TransactionProgram) -> None:
    """Perform commands until standard input ends."""
    _print(["ready"])
    for line in sys.stdin:
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words)
        try:
            _print([*_perform(program, name, options), "ok"])
        except Exception as error:  # whatever the client raises is what the test wants to know
            _print([f"refused {describe(error)}"])


def _perform(program: TransactionProgram, name: str, options: Mapping[str, str]) -> Iterable[str]:
    if name == "read":
        wanted = Wanted(options["wanted"])
        read = program.read(options["bootstrap"], options["isolation"], wanted)
        return [
            f"record {wanted.slots[topic, partition]} {offset} {_text(key)} {_text(value)}"
            for topic, partition, offset, key, value in read
        ]
    getattr(program, name)(**options)
    return ()


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode()


def describe(error: BaseException) -> str:
    """The names of an error and its causes, and its message, in one line."""
    names = [type(error).__name__]
    cause = error.__cause__ or error.__context__
    while cause is not None:
        names.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    return f"{' < '.join(names)}: {' '.join(str(error).split())}"


def _print(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
