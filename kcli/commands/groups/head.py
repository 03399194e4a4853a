"""GroupHead: what every view of a consumer group begins with, its kind, its state and its coordinator.

Alone they are what `kcli consumer-groups describe --state` shows; the text is that of Kafka's own tool (class
`ConsumerGroupCommand`), byte for byte.

What `kcli consumer-groups list` shows: groups, with their types and states if they are asked for.

The text is that of Kafka's own tool (class `ConsumerGroupCommand`), in whose order the groups come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kcli.commands.shared.java import columns, hash_map_order, widest
from kcli.commands.shared.output import Table
from kcli.errors import KcliError, UsageError
from kcli.protocol.java import string_hash

REBALANCING = frozenset(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"))
"""The states in which a group is on its way to another assignment."""


class Coordinator(NamedTuple):
    """The broker that coordinates a group."""

    id: int
    host: str
    port: int

    def text(self) -> str:
        """Return the broker as Kafka's tool shows it."""
        return f"{self.host}:{self.port}  ({self.id})"


class GroupHead(NamedTuple):
    """One group. `type` is Classic or Consumer; the epochs are those of the consumer protocol (KIP-848)."""

    group: str
    type: str | None
    state: str
    coordinator: Coordinator | None
    assignor: str | None
    group_epoch: int | None
    target_assignment_epoch: int | None
    member_count: int

    def note(self) -> str | None:
        """Return what Kafka's tool says on stderr about the state, after an empty line, if anything."""
        if self.state == "Empty":
            return f"\nConsumer group '{self.group}' has no active members."
        if self.state in REBALANCING:
            return f"\nWarning: Consumer group '{self.group}' is rebalancing."
        return None

    def title(self) -> str:
        """Return the heading of the group's table."""
        members = "1 member" if self.member_count == 1 else f"{self.member_count} members"
        parts = [self.group, self.type, self.state, members, self.assignor]
        return "  ".join(part for part in parts if part)

    def state_lines(self, *, verbose: bool) -> list[str]:
        """Return the lines of `describe --state` of Kafka's tool; they begin with an empty one."""
        coordinator = None if self.coordinator is None else self.coordinator.text()
        strategy = self.assignor or None
        names = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
        cells: list[object] = [self.group, coordinator, strategy, self.state]
        widths = [widest(15, [self.group]), widest(25, [coordinator or ""]), 20, 20]
        if verbose:
            names += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
            cells += [self.group_epoch, self.target_assignment_epoch]
            widths += [15, 25]
        return [
            "",
            columns((*widths, 0), (*names, "#MEMBERS")),
            columns((*widths, 0), (*cells, self.member_count)),
        ]


class StatesView(NamedTuple):
    """The result of `describe --state`."""

    groups: Sequence[GroupHead]
    verbose: bool = False
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return for each group an empty line, a heading and a line."""
        for group in self.groups:
            yield from group.state_lines(verbose=self.verbose)

    def tables(self) -> Iterator[Table]:
        """Return one table."""
        names = ["Group", "Type", "State", "Coordinator", "Assignor", "Members"]
        rows: list[list[object]] = [
            [
                head.group,
                head.type,
                head.state,
                None if head.coordinator is None else head.coordinator.text(),
                head.assignor,
                head.member_count,
            ]
            for head in self.groups
        ]
        if self.verbose:
            names += ["Epoch", "Target epoch"]
            for row, head in zip(rows, self.groups, strict=True):
                row += [head.group_epoch, head.target_assignment_epoch]
        yield Table(names, rows)

    def document(self) -> object:
        """Return the groups."""
        return {"groups": self.groups, "failures": self.failures}


STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "Dead",
)
TYPES = ("Classic", "Consumer")


class GroupRow(NamedTuple):
    """A group. Brokers before 2.6 do not tell states, those before 3.8 no types."""

    group: str
    type: str | None
    state: str | None
    protocol_type: str


class Listing(NamedTuple):
    """The result of `consumer-groups list`."""

    groups: Sequence[GroupRow]
    show_type: bool = False
    show_state: bool = False
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return the names of groups, or columns under a heading."""
        if not self.show_type and not self.show_state:
            yield from (row.group for row in self.groups)
            return
        widths = [widest(15, (row.group for row in self.groups)) + 10]
        widths += [20] * (self.show_type + self.show_state)
        yield columns(widths, self._chosen("GROUP", "TYPE", "STATE"))
        for row in self.groups:
            yield columns(widths, self._chosen(row.group, row.type or "Unknown", row.state or "Unknown"))

    def _chosen(self, group: str, type: str, state: str) -> list[str]:
        return [group, *([type] if self.show_type else ()), *([state] if self.show_state else ())]

    def document(self) -> object:
        """Return the groups."""
        return {"groups": self.groups, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        """Return one table, by name."""
        rows = sorted(self.groups, key=lambda row: row.group)
        yield Table(("Group", "Type", "State"), [(row.group, row.type, row.state) for row in rows])


def in_tool_order(rows: Iterable[GroupRow]) -> list[GroupRow]:
    """Return the groups in the order in which Kafka's tool lists them."""
    by_name = {row.group: row for row in rows}
    return [by_name[name] for name in hash_map_order(by_name, string_hash)]


def parse_words(text: str | None, option: str, known: Sequence[str]) -> list[str]:
    """Return the states or types in a list with commas, as Kafka spells them; no words for None."""
    spelled = {word.lower(): word for word in known}
    found = []
    for word in (text or "").split(",") if text else ():
        name = spelled.get(word.strip().lower())
        if name is None:
            raise UsageError(f"`{option}` cannot be {word.strip()}", hint=", ".join(known))
        found.append(name)
    return found
