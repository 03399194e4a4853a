"""`kcli consumer-groups describe`: offsets and lag, members, states, history, and explanations."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.groups.options import (
    DEFAULT_TIMEOUT_MS,
    AllGroups,
    GroupArguments,
    GroupOption,
    LogDir,
    TimeoutMs,
    ViewOptions,
    app,
    chosen_groups,
    refuse_broker_options,
)
from kcli.commands.shared.options import ClusterAddress, OutputFormat
from kcli.commands.shared.output import chosen_format, note, print_result
from kcli.commands.shared.runner import command
from kcli.errors import ChecksFailed

if TYPE_CHECKING:
    from kcli.commands.groups.description import Description

DEFAULT_INTERVAL_S = 5.5
"""A little more than the five seconds in which consumers commit by default."""


@command(app, "describe", example="kcli consumer-groups describe billing --time-lag")
async def describe(
    context: typer.Context,
    groups: GroupArguments = None,
    group: GroupOption = None,
    all_groups: AllGroups = False,
    *,
    views: ViewOptions,
    time_lag: Annotated[
        bool, typer.Option("--time-lag", help="Show the age of the first unread record")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show epochs and assignments, and the traceback of a bug")
    ] = False,
    watch: Annotated[
        float | None, typer.Option(min=0.1, metavar="SECONDS", help="Repeat after so many seconds")
    ] = None,
    interval: Annotated[
        float,
        typer.Option(min=0.1, metavar="SECONDS", help="Time between the four snapshots of --explain"),
    ] = DEFAULT_INTERVAL_S,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    log_dir: LogDir = None,
    output: OutputFormat | None = None,
    cluster: ClusterAddress,
) -> object:
    """Describe consumer groups: their partitions and lag, members or state.

    With --log-dir it reads the files of a broker instead of asking one. --explain ends with exit code 3 if it
    finds a problem.
    """
    from kcli.commands.groups.description import DescribeOptions, describe_files, describe_live
    from kcli.commands.groups.findings import ExplainView

    names = chosen_groups(groups, group, all_groups=all_groups)
    view = views.chosen()
    view.check(time_lag=time_lag, watch=watch is not None, offline=bool(log_dir))
    if log_dir:
        refuse_broker_options(context)
        return with_notes(describe_files(log_dir, names, view, verbose=verbose), output)
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        options = DescribeOptions(view, verbose, time_lag, round(interval * 1000), timeout_ms)
        take = functools.partial(describe_live, client, names, options)
        if watch is None:
            found = with_notes(await take(), output)
            if not isinstance(found, ExplainView) or not found.has_problem or found.failures:
                return found
            print_result(found, output)
            raise typer.Exit(ChecksFailed.exit_code)
        from kcli.commands.groups.watch import watch as watch_result

        await watch_result(take, watch, output)
        return None


def with_notes(description: Description, output: OutputFormat | None) -> Description:
    """Print the notes about a description on stderr, except for JSON, and return it."""
    from kcli.commands.groups.description import notes

    if chosen_format(output) is not OutputFormat.JSON:
        for line in notes(description):
            note("")  # as Kafka's tool does
            note(line)
    return description
