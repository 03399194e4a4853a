"""What `kcli consumer-groups list` shows: groups, with their types and states if they are asked for.

The text is that of Kafka's own tool (class `ConsumerGroupCommand`), in whose order the groups come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kcli.commands.java.order import hash_map_order
from kcli.commands.java.text import columns, widest
from kcli.commands.output import Table
from kcli.errors import KcliError, UsageError
from kcli.protocol.topics import string_hash

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
