"""`kcli consumer-groups reset-offsets` and `clone`: dry runs unless `--execute` is given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kcli.commands.groups.options import (
    DEFAULT_TIMEOUT_MS,
    AllGroups,
    DryRun,
    GroupArguments,
    GroupOption,
    TimeoutMs,
    app,
    chosen_groups,
    complete_group,
    refuse_dry_execution,
    refuse_several,
)
from kcli.commands.groups.reset_plan import (
    Exported,
    OffsetsFile,
    ResetKind,
    ResetView,
    Scope,
    in_tool_order,
    parse_offsets,
    parse_scope,
)
from kcli.commands.shared.arguments import not_empty
from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.output import note
from kcli.commands.shared.runner import command
from kcli.commands.shared.times import parse_datetime, parse_duration
from kcli.errors import KcliError, UsageError

DRY_RUN_NOTE = "dry run: nothing was changed, `--execute` sets these offsets"


class PositionOptions(NamedTuple):
    """The options that choose the new offsets."""

    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="To the first record of each partition")
    ] = False
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of each partition")] = False
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To the committed offset; to the end without one")
    ] = False
    to_offset: Annotated[int | None, typer.Option(metavar="OFFSET", help="To this offset")] = None
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="Forward by N records, or back if negative")
    ] = None
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="To the first record of this time: 2025-12-31T23:59:59.000, UTC without a zone",
        ),
    ] = None
    by_duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="To the first record since: P1D is a day ago")
    ] = None
    from_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="To the offsets in a CSV file as --export writes them")
    ] = None

    def kind(self) -> ResetKind:
        kinds = [kind for kind in ResetKind if kind is not ResetKind.COPY]
        given = [value is not None and value is not False for value in self]
        chosen = [kind for kind, is_given in zip(kinds, given, strict=True) if is_given]
        if not chosen:
            raise UsageError("no new offsets are chosen", hint=", ".join(kind.value for kind in kinds))
        refuse_several(chosen)
        return chosen[0]

    def value(self) -> int:
        """Return the offset, the distance, or the time in ms since 1970; 0 if the option has no value."""
        if self.to_datetime is not None:
            return parse_datetime(self.to_datetime)
        if self.by_duration is not None:
            return time.time_ns() // 1_000_000 - parse_duration(self.by_duration)
        return self.to_offset or self.shift_by or 0

    def file(self, groups: set[str]) -> OffsetsFile:
        if self.from_file is None:
            return OffsetsFile()
        from kcli.commands.shared.input_files import read_text

        return parse_offsets(read_text(self.from_file), str(self.from_file), groups)


@command(
    app, "reset-offsets", example="kcli consumer-groups reset-offsets billing --to-earliest --topic orders"
)
async def reset_offsets(
    groups: GroupArguments = None,
    group: GroupOption = None,
    all_groups: AllGroups = False,
    *,
    position: PositionOptions,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:PARTITIONS]", help="In orders, or in orders:0,2 (repeatable)"),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="In every partition with a committed offset")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Set the offsets")] = False,
    dry_run: DryRun = False,
    export: Annotated[bool, typer.Option("--export", help="Print the new offsets as CSV")] = False,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    cluster: ClusterAddress,
) -> ResetView | Exported:
    """Set the committed offsets of groups without members; without --execute only show them.

    Tables and JSON compare old and new offsets, and count the records to read again and to skip.
    """
    from kcli.commands.groups.lookup import every_name
    from kcli.commands.groups.reset import OffsetReset, ResetRequest

    refuse_dry_execution(execute=execute, dry_run=dry_run)
    kind = position.kind()
    scope = chosen_scope(topic or (), kind, all_topics=all_topics)
    value = position.value()
    named = [*(groups or ()), *(group or ())]
    planned = position.file(set(named))
    names = chosen_groups(named or (() if all_groups else list(planned.offsets)), (), all_groups=all_groups)
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        unlisted: list[KcliError] = []
        if all_groups:
            names, unlisted = await every_name(client, timeout_ms)
        request = ResetRequest(kind, value, scope, planned)
        reset = await OffsetReset(client, request, timeout_ms=timeout_ms).run(names, execute=execute)
    for line in reset.notes():
        note(line)
    if not (execute or dry_run or export) and any(plan.rows for plan in reset.plans):
        note(DRY_RUN_NOTE)
    plans, failures = in_tool_order(reset.plans), [*unlisted, *reset.failures]
    if export:
        return Exported(plans, execute, with_groups=all_groups or len(names) != 1, failures=failures)
    return ResetView(plans, execute, failures)


def chosen_scope(topics: Sequence[str], kind: ResetKind, *, all_topics: bool) -> Scope:
    """Return the scope of the options; a file has its own."""
    has_scope = bool(topics) or all_topics
    if has_scope and kind is ResetKind.FILE:
        raise UsageError("`--from-file` excludes `--topic` and `--all-topics`")
    if not has_scope and kind is not ResetKind.FILE:
        raise UsageError(
            "no topics are named", hint="`--topic TOPIC`, or `--all-topics` for those with committed offsets"
        )
    return parse_scope(topics, all_topics=all_topics)


@command(app, "clone", example="kcli consumer-groups clone billing billing-test --execute")
async def clone(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The group to copy", autocompletion=complete_group)
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The group that gets the offsets")],
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:PARTITIONS]", help="Only orders, or only orders:0,2 (repeatable)"),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the offsets")] = False,
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the committed offsets of NEW")] = False,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
) -> ResetView:
    """Copy the committed offsets of a group to another; without --execute only show them.

    NEW must have no members, and no offsets unless --force is given.
    """
    from kcli.client.admin import CommittedOffset
    from kcli.commands.groups.reset import commit, prepare_clone
    from kcli.commands.groups.reset_plan import parse_scope

    refuse_dry_execution(execute=execute, dry_run=dry_run)
    not_empty(group, "group")
    not_empty(new, "group")
    if group == new:
        raise UsageError("a group cannot be copied to itself")
    scope = parse_scope(topic or ())
    failures: list[KcliError] = []
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        plan, copied = await prepare_clone(
            client, group, new, scope=scope, force=force, timeout_ms=timeout_ms
        )
        if execute:
            offsets = {
                partition: CommittedOffset(entry.offset, entry.leader_epoch, entry.metadata)
                for partition, entry in copied.items()
            }
            failures = await commit(client, new, offsets, timeout_ms=timeout_ms)
    if not (execute or dry_run):
        note(DRY_RUN_NOTE)
    return ResetView([plan], execute, failures)
