"""`kcli consumer-groups list`."""

from __future__ import annotations

from typing import Annotated

import typer

from kcli.commands.groups.listing import STATES, TYPES, GroupRow, Listing, in_tool_order, parse_words
from kcli.commands.groups.options import DEFAULT_TIMEOUT_MS, LogDir, TimeoutMs, app, refuse_broker_options
from kcli.commands.options import BootstrapServer, CommandConfig, Property
from kcli.commands.runner import command


@command(
    app,
    "list",
    example="kcli consumer-groups list --state stable,empty",
    optional_values={"--state": "", "--type": ""},
)
async def list_groups(
    context: typer.Context,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="[STATES]", help="Show states; only groups in these, if any are given", show_default=False
        ),
    ] = None,
    type: Annotated[
        str | None,
        typer.Option(
            metavar="[TYPES]",
            help="Show types; only groups of these, classic or consumer, if any are given",
            show_default=False,
        ),
    ] = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    log_dir: LogDir = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Listing:
    """List the consumer groups of a cluster, or those in the files of a broker."""
    states, types = parse_words(state, "--state", STATES), parse_words(type, "--type", TYPES)
    if log_dir:
        refuse_broker_options(context)
        from kcli.commands.groups.files import GroupFiles
        from kcli.commands.groups.lookup import CONSUMER_PROTOCOL_TYPES
        from kcli.commands.groups.offline import listing_row

        files = GroupFiles(log_dir)
        every = [listing_row(group) for group in files.groups().values() if group.exists]
        rows = [
            row
            for row in every
            if row.protocol_type in CONSUMER_PROTOCOL_TYPES
            and (not states or row.state in states)
            and (not types or row.type in types)
        ]
        failures = files.failures
    else:
        from kcli.commands.groups.lookup import list_consumer_groups
        from kcli.commands.session import open_client

        async with open_client(
            bootstrap_server, command_config, command_property, timeout_ms=timeout_ms
        ) as client:
            groups, failures = await list_consumer_groups(
                client, states=states, types=types, timeout_ms=timeout_ms
            )
        rows = [GroupRow(group.group_id, group.type, group.state, group.protocol_type) for group in groups]
    return Listing(
        in_tool_order(rows), show_type=type is not None, show_state=state is not None, failures=failures
    )
