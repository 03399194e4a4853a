"""The members of a group and their partitions, as `kcli consumer-groups describe` shows them.

The text is that of Kafka's tool (class `ConsumerGroupCommand`), byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.groups.head import GroupHead
from kcli.commands.groups.offsets import Owner
from kcli.commands.shared.java import Column, table_lines
from kcli.commands.shared.output import Table
from kcli.errors import KcliError
from kcli.protocol.java import java_order
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from kcli.client.admin import GroupDescription, GroupMember

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

    @classmethod
    def of(cls, member: GroupMember, group: GroupDescription) -> MemberRow:
        target = member.target_assignment
        return cls(
            member.member_id,
            member.instance_id,
            member.host,
            member.client_id,
            len(member.assignment),
            member.epoch,
            by_topic(sorted(member.assignment)),
            group.target_assignment_epoch,
            None if target is None else by_topic(sorted(target)),
            None if member.is_classic is None else not member.is_classic,
            member.rack_id,
        )


class GroupMembers(NamedTuple):
    head: GroupHead
    members: Sequence[MemberRow]

    @classmethod
    def of(cls, group: GroupDescription) -> GroupMembers:
        return cls(GroupHead.of(group), [MemberRow.of(member, group) for member in group.members])

    def owners(self) -> list[Owner]:
        """Return the members that have partitions."""
        owners = []
        for member in self.members:
            topics = member.assignment.items()
            partitions = [TopicPartition(topic, index) for topic, indexes in topics for index in indexes]
            if partitions:
                owners.append(Owner(member.consumer_id, member.host, member.client_id, partitions))
        return owners

    def is_migrating(self) -> bool:
        """Tell whether the group has members of both protocols."""
        return {True, False} <= {member.upgraded for member in self.members}

    def document(self) -> object:
        return {**self.head._asdict(), "members": self.members}


class MembersView(NamedTuple):
    """The result of `describe --members`."""

    groups: Sequence[GroupMembers]
    verbose: bool = False
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        for group in self.groups:
            yield from self._group_lines(group)

    def _group_lines(self, group: GroupMembers) -> Iterator[str]:
        static = any(member.group_instance_id for member in group.members)
        columns = [Column("GROUP", 15, True), Column("CONSUMER-ID", 15, True)]
        if static:
            columns.append(Column("GROUP-INSTANCE-ID", 17, True))
        columns += [Column("HOST", 15, True), Column("CLIENT-ID", 15, True), Column("#PARTITIONS", 15)]
        columns += self._detail_columns(group)
        rows: list[list[object]] = []
        for member in group.members:
            cells: list[object] = [group.head.group, member.consumer_id]
            if static:
                cells.append(member.group_instance_id or "")
            cells += [member.host, member.client_id, member.partition_count]
            rows.append([*cells, *self._details(group, member)])
        yield from ("", *table_lines(columns, rows))

    def _detail_columns(self, group: GroupMembers) -> list[Column]:
        if not self.verbose:
            return [Column("", 0)]  # Kafka's lines end with a blank
        columns = [Column("CURRENT-EPOCH", 15), Column("CURRENT-ASSIGNMENT", 20, True)]
        columns += [Column("TARGET-EPOCH", 15), Column("TARGET-ASSIGNMENT", 20, True)]
        return [*columns, Column("UPGRADED", 0)] if group.is_migrating() else columns

    def _details(self, group: GroupMembers, member: MemberRow) -> list[object]:
        if not self.verbose:
            return [""]
        cells: list[object] = [member.current_epoch, assignment_text(member.assignment), member.target_epoch]
        cells.append(assignment_text(member.target_assignment))
        upgraded = None if member.upgraded is None else str(member.upgraded).lower()
        return [*cells, upgraded] if group.is_migrating() else cells

    def document(self) -> object:
        return {"groups": self.groups, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        for group in self.groups:
            names = ["Consumer", "Instance", "Host", "Client", "Partitions", "Assignment"]
            rows: list[list[object]] = [
                [*member[:5], assignment_text(member.assignment)] for member in group.members
            ]
            if self.verbose:
                names += ["Epoch", "Target", "Target epoch", "Upgraded"]
                for row, member in zip(rows, group.members, strict=True):
                    target = assignment_text(member.target_assignment)
                    row += [member.current_epoch, target, member.target_epoch, member.upgraded]
            yield Table(names, rows, group.head.title())


def assignment_text(assignment: Assignment | None) -> str:
    """Return `orders:0,1;clicks:2`, in Java's order of these texts; a dash for no partitions."""
    if not assignment or not any(assignment.values()):
        return "-"
    topics = (f"{topic}:{','.join(map(str, sorted(ids)))}" for topic, ids in assignment.items() if ids)
    return ";".join(sorted(topics, key=java_order))
