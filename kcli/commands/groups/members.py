"""What `kcli consumer-groups describe` shows of members: who they are and what they have.

The text is that of Kafka's own tool (class `ConsumerGroupCommand`), byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kcli.commands.groups.head import GroupHead
from kcli.commands.shared.java import columns, widest
from kcli.commands.shared.output import Table
from kcli.errors import KcliError
from kcli.protocol.java import java_order

Assignment = Mapping[str, Sequence[int]]
"""Partitions by topic, ascending."""


class MemberRow(NamedTuple):
    """A member. The epochs, the target and `upgraded` are those of the consumer protocol (KIP-848)."""

    consumer_id: str
    group_instance_id: str | None
    host: str
    client_id: str
    partition_count: int
    current_epoch: int | None
    assignment: Assignment
    target_epoch: int | None
    target_assignment: Assignment | None
    upgraded: bool | None
    rack_id: str | None = None


class GroupMembers(NamedTuple):
    """A group and its members."""

    head: GroupHead
    members: Sequence[MemberRow]

    def is_migrating(self) -> bool:
        """Tell whether members of both protocols are in the group."""
        return {True, False} <= {member.upgraded for member in self.members}

    def document(self) -> object:
        """Return the group's fields and its members."""
        return {**self.head._asdict(), "members": self.members}


class MembersView(NamedTuple):
    """The result of `describe --members`."""

    groups: Sequence[GroupMembers]
    verbose: bool = False
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return for each group an empty line, a heading and a line for each member."""
        for group in self.groups:
            yield from self._group_lines(group)

    def _group_lines(self, group: GroupMembers) -> Iterator[str]:
        members = group.members
        static = any(member.group_instance_id for member in members)
        names, widths = ["GROUP", "CONSUMER-ID"], [widest(15, [group.head.group] if members else ())]
        widths.append(widest(15, (member.consumer_id for member in members)))
        if static:
            names.append("GROUP-INSTANCE-ID")
            widths.append(widest(17, (member.group_instance_id or "" for member in members)))
        names += ["HOST", "CLIENT-ID", "#PARTITIONS"]
        widths += [widest(15, (member.host for member in members))]
        widths += [widest(15, (member.client_id for member in members)), 15]
        yield ""
        details = self._detail_widths(group)
        yield columns(widths, names) + " " + columns(details, self._detail_names(group))
        for member in members:
            cells: list[object] = [group.head.group, member.consumer_id]
            if static:
                cells.append(member.group_instance_id or "")
            cells += [member.host, member.client_id, member.partition_count]
            yield columns(widths, cells) + " " + columns(details, self._details(group, member))

    def _detail_names(self, group: GroupMembers) -> list[str]:
        if not self.verbose:
            return []
        names = ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        return [*names, "UPGRADED"] if group.is_migrating() else names

    def _detail_widths(self, group: GroupMembers) -> list[int]:
        if not self.verbose:
            return []
        current = widest(20, (assignment_text(member.assignment) for member in group.members))
        target = widest(20, (assignment_text(member.target_assignment) for member in group.members))
        return [15, current, 15, target, 0] if group.is_migrating() else [15, current, 15, target]

    def _details(self, group: GroupMembers, member: MemberRow) -> list[object]:
        if not self.verbose:
            return []
        cells: list[object] = [
            member.current_epoch,
            assignment_text(member.assignment),
            member.target_epoch,
            assignment_text(member.target_assignment),
        ]
        return [*cells, java_boolean(member.upgraded)] if group.is_migrating() else cells

    def document(self) -> object:
        """Return the groups with their members."""
        return {"groups": self.groups, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        """Return a table for each group."""
        for group in self.groups:
            names = ["Consumer", "Instance", "Host", "Client", "Partitions", "Assignment"]
            rows: list[list[object]] = [
                [
                    member.consumer_id,
                    member.group_instance_id,
                    member.host,
                    member.client_id,
                    member.partition_count,
                    assignment_text(member.assignment),
                ]
                for member in group.members
            ]
            if self.verbose:
                names += ["Epoch", "Target", "Target epoch", "Upgraded"]
                for row, member in zip(rows, group.members, strict=True):
                    target = assignment_text(member.target_assignment)
                    row += [member.current_epoch, target, member.target_epoch, member.upgraded]
            yield Table(names, rows, group.head.title())


def assignment_text(assignment: Assignment | None) -> str:
    """Return `orders:0,1;clicks:2`: the texts of topics in Java's order; a dash for nothing."""
    if not assignment or not any(assignment.values()):
        return "-"
    topics = (f"{topic}:{','.join(map(str, sorted(ids)))}" for topic, ids in assignment.items() if ids)
    return ";".join(sorted(topics, key=java_order))


def java_boolean(value: bool | None) -> str | None:
    """Return a boolean as Java prints it; None stays None."""
    return None if value is None else str(value).lower()
