"""`kcli consumer-groups members` and `remove-members`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.groups.options import (
    DEFAULT_TIMEOUT_MS,
    GroupArgument,
    GroupOption,
    TimeoutMs,
    app,
    one_group,
)
from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.output import OutputFormat, Table, chosen_format, note
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from kcli.commands.groups.members import GroupMembers


class ShortMembers(NamedTuple):
    """The result of `consumer-groups members`."""

    group: GroupMembers

    def lines(self) -> Iterator[str]:
        from kcli.commands.groups.members import assignment_text

        for member in self.group.members:
            ids = (member.consumer_id, member.group_instance_id or "-", member.client_id)
            yield "\t".join((*ids, member.host.lstrip("/"), assignment_text(member.assignment)))

    def tables(self) -> Iterator[Table]:
        from kcli.commands.groups.members import MembersView

        return MembersView([self.group]).tables()

    def document(self) -> object:
        return self.group.document()


class RemovedMember(NamedTuple):
    member_id: str | None
    group_instance_id: str | None


class RemovedMembers(NamedTuple):
    """The result of `consumer-groups remove-members`."""

    group: str
    removed: Sequence[RemovedMember]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        for member in self.removed:
            yield f"Removed member {member.group_instance_id or member.member_id} from group {self.group}."


def note_no_members(group: str, output: OutputFormat | None) -> None:
    """Note on stderr that a group has no members, as Kafka's tool does, except for JSON."""
    if chosen_format(output) is not OutputFormat.JSON:
        note(f"Consumer group '{group}' has no active members.")


@command(app, "members", needs="group", example="kcli consumer-groups members billing")
async def members(
    group: GroupArgument = None,
    group_option: GroupOption = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    output: OutputFormat | None = None,
    *,
    cluster: ClusterAddress,
) -> ShortMembers:
    """List the members of a group: ids, host and partitions."""
    from kcli.commands.groups.lookup import describe
    from kcli.commands.groups.members import GroupMembers

    name = one_group(group, group_option)
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        found = await describe(client, [name], timeout_ms=timeout_ms)
    if found.failures:
        raise found.failures[0]
    if not found.groups[0].members:
        note_no_members(name, output)
    return ShortMembers(GroupMembers.of(found.groups[0]))


@command(
    app,
    "remove-members",
    needs="group",
    example="kcli consumer-groups remove-members billing --group-instance-id billing-1",
)
async def remove_members(
    group: GroupArgument = None,
    group_option: GroupOption = None,
    member_id: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Remove this member (repeatable)")
    ] = None,
    group_instance_id: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Remove this static member (repeatable)")
    ] = None,
    all_members: Annotated[bool, typer.Option("--all-members", help="Remove every member")] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason for the broker's log")] = "",
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    output: OutputFormat | None = None,
    *,
    cluster: ClusterAddress,
) -> RemovedMembers:
    """Remove members from a group; one that still runs joins again."""
    from kcli.client import admin
    from kcli.client.admin import MemberToRemove
    from kcli.commands.groups.lookup import refusal
    from kcli.commands.shared.session import failure
    from kcli.protocol.error_codes import ErrorCode, KafkaError

    name = one_group(group, group_option)
    chosen = [MemberToRemove(member) for member in member_id or ()]
    chosen += [MemberToRemove("", instance) for instance in group_instance_id or ()]
    if all_members == bool(chosen):
        raise UsageError(
            "no member is named" if not chosen else "`--all-members` excludes the names of members",
            hint="`--member-id`, `--group-instance-id` or `--all-members`",
        )
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        try:
            results = await admin.remove_members(
                client, name, None if all_members else chosen, reason=reason, timeout_ms=timeout_ms
            )
        except KafkaError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                raise refusal(name, error) from error
            raise failure(f"cannot remove members of consumer group `{name}`", error) from error
    if not results:
        note_no_members(name, output)
    removed, failures = [], []
    for member, refused in results.items():
        if refused is None:
            removed.append(RemovedMember(member.member_id or None, member.instance_id))
        else:
            label = member.instance_id or member.member_id
            failures.append(failure(f"cannot remove member `{label}` of consumer group `{name}`", refused))
    return RemovedMembers(name, removed, failures)
