"""GroupHead: the kind, state and coordinator of a group, with which every view begins; and listings.

The texts are those of Kafka's tool (class `ConsumerGroupCommand`), byte for byte, in its order of groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kcli.commands.shared.java import Column, hash_map_order, table_lines, widest
from kcli.commands.shared.output import Table
from kcli.errors import KcliError, UsageError
from kcli.protocol.java import string_hash

if TYPE_CHECKING:
    from kcli.client.admin import GroupDescription

Cell = TypeVar("Cell")

REBALANCING = frozenset(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"))
"""The states of a group that is getting another assignment."""


class Coordinator(NamedTuple):
    id: int
    host: str
    port: int

    def text(self) -> str:
        return f"{self.host}:{self.port}  ({self.id})"


class GroupHead(NamedTuple):
    """What every view of a group begins with; the epochs are those of the consumer protocol (KIP-848)."""

    group: str
    type: str | None
    state: str
    coordinator: Coordinator | None
    assignor: str | None
    group_epoch: int | None
    target_assignment_epoch: int | None
    member_count: int

    @classmethod
    def of(cls, group: GroupDescription) -> GroupHead:
        node = group.coordinator
        return cls(
            group.group_id,
            group.type,
            group.state,
            Coordinator(node.node_id, node.host, node.port),
            group.assignor or None,
            group.epoch,
            group.target_assignment_epoch,
            len(group.members),
        )

    def note(self) -> str | None:
        """Return what Kafka's tool prints on stderr about the state, None if nothing."""
        if self.state == "Empty":
            return f"Consumer group '{self.group}' has no active members."
        if self.state in REBALANCING:
            return f"Warning: Consumer group '{self.group}' is rebalancing."
        return None

    def title(self) -> str:
        members = "1 member" if self.member_count == 1 else f"{self.member_count} members"
        parts = [self.group, self.type, self.state, members, self.assignor]
        return "  ".join(part for part in parts if part)

    def state_lines(self, *, verbose: bool) -> list[str]:
        """Return the lines of `describe --state` of Kafka's tool, which begin with an empty one."""
        columns = [Column("GROUP", 15, True), Column("COORDINATOR (ID)", 25, True)]
        columns += [Column("ASSIGNMENT-STRATEGY", 20), Column("STATE", 20)]
        coordinator = None if self.coordinator is None else self.coordinator.text()
        cells: list[object] = [self.group, coordinator, self.assignor or None, self.state]
        if verbose:
            columns += [Column("GROUP-EPOCH", 15), Column("TARGET-ASSIGNMENT-EPOCH", 25)]
            cells += [self.group_epoch, self.target_assignment_epoch]
        return ["", *table_lines([*columns, Column("#MEMBERS", 0)], [[*cells, self.member_count]])]


class StatesView(NamedTuple):
    """The result of `describe --state`."""

    groups: Sequence[GroupHead]
    verbose: bool = False
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        for group in self.groups:
            yield from group.state_lines(verbose=self.verbose)

    def tables(self) -> Iterator[Table]:
        names = ["Group", "Type", "State", "Coordinator", "Assignor", "Members"]
        rows: list[list[object]] = [
            [*head[:3], head.coordinator and head.coordinator.text(), head.assignor, head.member_count]
            for head in self.groups
        ]
        if self.verbose:
            names += ["Epoch", "Target epoch"]
            for row, head in zip(rows, self.groups, strict=True):
                row += [head.group_epoch, head.target_assignment_epoch]
        yield Table(names, rows)

    def document(self) -> object:
        return {"groups": self.groups, "failures": self.failures}


STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead")
TYPES = ("Classic", "Consumer")


class GroupRow(NamedTuple):
    """A listed group. Brokers before 2.6 do not tell states, those before 3.8 no types."""

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
        if not self.show_type and not self.show_state:
            yield from (row.group for row in self.groups)
            return
        width = widest(15, (row.group for row in self.groups)) + 10
        columns = self._chosen(Column("GROUP", width), Column("TYPE", 20), Column("STATE", 20))
        yield from table_lines(
            columns,
            [self._chosen(row.group, row.type or "Unknown", row.state or "Unknown") for row in self.groups],
        )

    def _chosen(self, group: Cell, type: Cell, state: Cell) -> list[Cell]:
        return [group, *([type] if self.show_type else ()), *([state] if self.show_state else ())]

    def document(self) -> object:
        return {"groups": self.groups, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        rows = sorted(self.groups, key=lambda row: row.group)
        yield Table(("Group", "Type", "State"), [(row.group, row.type, row.state) for row in rows])


def in_tool_order(rows: Iterable[GroupRow]) -> list[GroupRow]:
    """Return the groups in the order in which Kafka's tool lists them."""
    by_name = {row.group: row for row in rows}
    return [by_name[name] for name in hash_map_order(by_name, string_hash)]


def parse_words(text: str | None, option: str, known: Sequence[str]) -> list[str]:
    """Return the states or types in a list with commas, as Kafka spells them."""
    spelled = {word.lower(): word for word in known}
    found = []
    for word in (text or "").split(",") if text else ():
        name = spelled.get(word.strip().lower())
        if name is None:
            raise UsageError(f"`{option}` cannot be {word.strip()}", hint=", ".join(known))
        found.append(name)
    return found
