"""`kcli consumer-groups clone`: one group's offsets for another; a dry run unless `--execute` is given."""

from __future__ import annotations

from typing import Annotated

import typer

from kcli.commands.groups.options import (
    DEFAULT_TIMEOUT_MS,
    DryRun,
    TimeoutMs,
    app,
    complete_group,
    refuse_dry_execution,
)
from kcli.commands.groups.reset_command import DRY_RUN_NOTE
from kcli.commands.groups.reset_view import ResetView
from kcli.commands.options import BootstrapServer, CommandConfig, Property
from kcli.commands.output import note
from kcli.commands.runner import command
from kcli.errors import KcliError, UsageError


@command(app, "clone", example="kcli consumer-groups clone billing billing-test --execute")
async def clone(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The group to copy", autocompletion=complete_group)
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The group that gets the offsets")],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[:PARTITIONS]",
            help="Only of orders, or of orders:0,2 (repeatable)",
            show_default=False,
        ),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the offsets")] = False,
    dry_run: DryRun = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also if NEW has committed offsets, which are overwritten")
    ] = False,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> ResetView:
    """Copy the committed offsets of a group to another; without --execute only show them.

    NEW must have no members, and no offsets unless --force is given.
    """
    from kcli.client.admin import CommittedOffset
    from kcli.commands.groups.clone import prepare_clone
    from kcli.commands.groups.reset import commit
    from kcli.commands.groups.reset_plan import parse_scope
    from kcli.commands.session import open_client

    refuse_dry_execution(execute=execute, dry_run=dry_run)
    if group == new:
        raise UsageError("a group cannot be copied to itself")
    scope = parse_scope(topic or ())
    failures: list[KcliError] = []
    async with open_client(
        bootstrap_server, command_config, command_property, timeout_ms=timeout_ms
    ) as client:
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
