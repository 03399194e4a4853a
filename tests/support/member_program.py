"""What the group member programs share: commands come in on standard input, events go out on standard output.

A program serves one membership after another; it starts outside any group and says `ready`. Commands, one a
line:

    join bootstrap=HOST:PORT group=NAME topic=NAME assignor=NAME session=MS heartbeat=MS instance=ID client=ID
    leave

`assignor` is `range`, `cooperative-sticky`, or `consumer` for the protocol in which the broker assigns.
`leave` leaves the group in order; the end of standard input, or SIGTERM, does that and ends the program.

Events are JSON objects, one a line. `at` is the moment by the system's monotonic clock, in seconds: events of
several programs have an order, however late they are read. `event` names the kind:

    ready       the program takes commands
    assigned    `partitions` are the member's from now on, besides those it has
    revoked     `partitions` were given up in order: their positions are committed
    lost        `partitions` were taken away
    records     of `partition`, with their `offsets` and `values`
    committed   `offsets` by partition; not of a client that does not say whether a commit was taken
    refused     a commit was refused: `reason`; the member goes on
    failed      the membership ended with an error: `reason`
    left        the membership ended in order

Members commit what they printed: about five times a second, before they give partitions up, and when they
leave.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

COMMIT_SECONDS = 0.2
POLL_SECONDS = 0.1
POLL_RECORDS = 500


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """What a `join` command asks for."""

    bootstrap: str
    group: str
    topic: str
    assignor: str = "range"
    session: int = 30_000
    """Longer than a busy machine keeps anyone waiting: a test of members that fall silent asks for less."""
    heartbeat: int = 300
    instance: str = ""
    client: str = "member"

    @classmethod
    def parse(cls, words: Iterable[str]) -> JoinOptions:
        """From `name=value` words."""
        values: dict[str, Any] = {}
        for word in words:
            name, _, value = word.partition("=")
            values[name] = int(value) if name in ("session", "heartbeat") else value
        return cls(**values)

    def words(self) -> str:
        """As `parse` reads them; empty values are left out."""
        named = ((name, getattr(self, name)) for name in self.__slots__)
        return " ".join(f"{name}={value}" for name, value in named if value != "")


class Reporter:
    """Prints events; usable from any thread."""

    def __init__(self) -> None:
        self._printing = threading.Lock()

    def __call__(self, event: str, **fields: object) -> None:
        with self._printing:
            line = json.dumps({"event": event, "at": time.monotonic(), **fields})
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def assigned(self, partitions: Iterable[int]) -> None:
        """The member owns more."""
        self("assigned", partitions=sorted(partitions))

    def revoked(self, partitions: Iterable[int]) -> None:
        """The member gave partitions up."""
        self("revoked", partitions=sorted(partitions))

    def lost(self, partitions: Iterable[int]) -> None:
        """The member's partitions were taken away."""
        self("lost", partitions=sorted(partitions))

    def records(self, partition: int, offsets: list[int], values: list[str]) -> None:
        """The member consumed records."""
        self("records", partition=partition, offsets=offsets, values=values)

    def committed(self, offsets: Mapping[int, int]) -> None:
        """The coordinator took offsets."""
        if offsets:
            self("committed", offsets={str(partition): offset for partition, offset in offsets.items()})


class Commands:
    """The commands on standard input, read by a thread of their own."""

    def __init__(self) -> None:
        self._joins: SimpleQueue[JoinOptions | None] = SimpleQueue()
        self._leave = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            command, *words = line.split()
            if command == "join":
                self._leave.clear()
                self._joins.put(JoinOptions.parse(words))
            else:
                self._leave.set()
        self._end()

    def _end(self) -> None:
        self._joins.put(None)
        self._leave.set()

    @property
    def leaving(self) -> bool:
        """Whether the present membership shall end."""
        return self._leave.is_set()

    def next_join(self) -> JoinOptions | None:
        """Wait for the next membership; None at the end."""
        return self._joins.get()


def serve(member: Callable[[JoinOptions, Commands, Reporter], None]) -> None:
    """Run one membership after another until standard input ends."""
    report = Reporter()
    commands = Commands()
    report("ready")
    while (options := commands.next_join()) is not None:
        try:
            member(options, commands, report)
        except Exception as error:  # whatever the client raises is what the test wants to know
            report("failed", reason=f"{type(error).__name__}: {error}")
        else:
            report("left")
