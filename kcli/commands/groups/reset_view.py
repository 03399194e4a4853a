"""What `reset-offsets` and `clone` show: the new offsets, beside the old ones in tables and JSON, or as CSV.

The text is that of Kafka's own tool (class `OffsetsUtils`), byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcli.commands.groups.reset_csv import csv_lines
from kcli.commands.groups.reset_plan import ResetPlan
from kcli.commands.java.order import hash_map_order
from kcli.commands.java.text import columns, widest
from kcli.commands.output import Table
from kcli.errors import KcliError
from kcli.protocol.topics import string_hash


class ResetView(NamedTuple):
    """The plans of groups, in the order of Kafka's tool; a group that has members has an empty one."""

    groups: Sequence[ResetPlan]
    executed: bool
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return an empty line, a heading and a line for each partition; nothing if nothing was planned."""
        if self.failures and not self.groups:
            return
        yield ""
        if not self.groups:
            return
        widths = [
            widest(15, (plan.group for plan in self.groups)),
            widest(15, (row.topic for plan in self.groups for row in plan.rows)),
            10,
            0,
        ]
        yield columns(widths, ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"))
        for plan in self.groups:
            for row in plan.rows:
                yield columns(widths, (plan.group, row.topic, row.partition, row.new_offset))

    def tables(self) -> Iterator[Table]:
        """Return a table for each group that compares the offsets."""
        for plan in self.groups:
            if plan.rows:
                yield Table(
                    ("Topic", "Partition", "Current", "New", "Change", "Read again", "Skipped"),
                    [
                        (
                            row.topic,
                            row.partition,
                            row.current_offset,
                            row.new_offset,
                            None if row.change is None else f"{row.change:+d}",
                            row.records_to_read_again,
                            row.records_to_skip,
                        )
                        for row in plan.rows
                    ],
                    f"{plan.group}  {'executed' if self.executed else 'dry run'}",
                )


class Exported(NamedTuple):
    """The same plans as CSV (`--export`); with groups in it unless exactly one was named."""

    groups: Sequence[ResetPlan]
    executed: bool
    with_groups: bool
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return the lines of the file, and an empty one as Kafka's tool does."""
        rows = {
            plan.group: [(row.topic, row.partition, row.new_offset) for row in plan.rows]
            for plan in self.groups
        }
        yield from csv_lines(rows, with_groups=self.with_groups)
        yield ""

    def document(self) -> object:
        """Return the same document as without `--export`."""
        return ResetView(self.groups, self.executed, self.failures)


def in_tool_order(plans: Sequence[ResetPlan]) -> list[ResetPlan]:
    """Return plans in the order in which Kafka's tool lists their groups."""
    by_group = {plan.group: plan for plan in plans}
    return [by_group[group] for group in hash_map_order(by_group, string_hash)]
