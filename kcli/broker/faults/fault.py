"""Fault: one thing that goes wrong until it is cleared. Values only: who does harm with them is elsewhere.

| kind | what goes wrong |
|---|---|
| `drop` | requests are never answered; their connection stays open |
| `disconnect` | requests are not answered, their connection is closed |
| `delay` | requests are handled later |
| `error` | requests are answered with an error |
| `cut` | a node reaches another no more: neither to replicate nor to find the controller |
| `slow` | what a node says to another comes later |
| `lose` | the next calls of a node to another get lost |
| `isolate` | every link to and from a node is cut; clients still reach it |
| `freeze` | a node's followers copy nothing; everything else of it works |
| `fill-disk` | every write to a node's log directories fails: no space left on the device |

With `after`, a request is done as if nothing were wrong, and only its answer suffers: what happens to a
producer whose acknowledgement is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.protocol.error_codes import ErrorCode

REQUEST_KINDS = ("drop", "disconnect", "delay", "error")
LINK_KINDS = ("cut", "slow", "lose")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFault:
    """Requests that match everything given here suffer. Names may be patterns such as `app-*`."""

    kind: str
    node: int | None = None
    api: str | None = None
    client_id: str | None = None
    topic: str | None = None
    next: int | None = None
    """How many requests suffer before the fault is over; None: all, until it is cleared."""
    probability: float = 1.0
    delay_ms: int = 0
    code: ErrorCode | None = None
    after: bool = False

    def concerns(self, api: str, client_id: str) -> bool:
        """Return whether a request's header fits; its topics are another question."""
        return (self.api is None or self.api == api) and (
            self.client_id is None or fnmatchcase(client_id, self.client_id)
        )

    def concerns_any(self, topics: Collection[str]) -> bool:
        """Return whether one of a request's topics fits."""
        return self.topic is None or any(fnmatchcase(topic, self.topic) for topic in topics)

    def __str__(self) -> str:
        what = {"delay": f" {self.delay_ms} ms", "error": f" {self.code.name}" if self.code else ""}
        words = [f"{self.kind}{what.get(self.kind, '')}", *(["after"] if self.after else [])]
        for name, value in (("api", self.api), ("node", self.node), ("client-id", self.client_id)):
            words += [f"{name} {value}"] if value is not None else []
        words += [f"topic {self.topic}"] if self.topic is not None else []
        words += [f"probability {self.probability:g}"] if self.probability < 1 else []
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFault:
    """Calls from one node to another suffer; with `both`, calls in either direction."""

    kind: str
    source: int
    target: int
    both: bool = True
    delay_ms: int = 0
    next: int = 0

    @property
    def links(self) -> list[tuple[int, int]]:
        """The pairs (from, to) that suffer."""
        there = (self.source, self.target)
        return [there, (self.target, self.source)] if self.both else [there]

    def __str__(self) -> str:
        what = {"slow": f" {self.delay_ms} ms", "lose": f" {self.next} calls"}.get(self.kind, "")
        arrow = "<->" if self.both else "->"
        return f"{self.kind}{what} {self.source}{arrow}{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFault:
    """A whole node is isolated (`isolate`), copies nothing (`freeze`) or has no space left (`fill-disk`)."""

    kind: str
    node: int

    def __str__(self) -> str:
        return f"{self.kind} node {self.node}"


Fault = RequestFault | LinkFault | NodeFault
