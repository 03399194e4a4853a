"""The Typer application `kcli consumer-groups`, and the options that its verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kcli.commands.shared.arguments import LARGEST_INT32, not_empty
from kcli.errors import MissingArgument, UsageError

app = typer.Typer(
    name="consumer-groups",
    help="List, describe, reset, clone and delete consumer groups and their offsets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DEFAULT_TIMEOUT_MS = 30_000


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    from kcli.commands.groups.lookup import complete_group_names

    return complete_group_names(context.params, incomplete)


GroupArgument = Annotated[
    str | None, typer.Argument(metavar="GROUP", help="The group", autocompletion=complete_group)
]
GroupArguments = Annotated[
    list[str] | None, typer.Argument(metavar="GROUP...", help="The groups", autocompletion=complete_group)
]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", hidden=True, autocompletion=complete_group)
]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="All groups of the cluster")]
TimeoutMs = Annotated[
    int,
    typer.Option(
        "--timeout", min=1, max=LARGEST_INT32, metavar="MS", help="How long to wait for a broker's answer"
    ),
]
LogDir = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Read a broker's log directory, or a data directory of kcli, not a broker (repeatable)",
    ),
]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the new offsets: the default")]


def refuse_dry_execution(*, execute: bool, dry_run: bool) -> None:
    if execute and dry_run:
        raise UsageError("`--execute` and `--dry-run` exclude each other")


def refuse_several(chosen: Sequence[Enum]) -> None:
    """Raise for more than one option; the values are the options' names."""
    if len(chosen) > 1:
        raise UsageError(f"`{chosen[0].value}` and `{chosen[1].value}` exclude each other")


def refuse_broker_options(context: typer.Context) -> None:
    """Raise for an option that names a broker beside `--log-dir`."""
    for option in ("--bootstrap-server", "--command-config", "--command-property", "--profile"):
        source = context.get_parameter_source(option.strip("-").replace("-", "_"))
        # The broker in the environment may be meant for other commands.
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"`--log-dir` and `{option}` exclude each other")


def chosen_groups(
    arguments: Sequence[str] | None, options: Sequence[str] | None, *, all_groups: bool = False
) -> list[str]:
    """Return the groups given as arguments and with Kafka's `--group`, each once; none for all groups."""
    names = list(dict.fromkeys([*(arguments or ()), *(options or ())]))
    if all_groups and names:
        raise UsageError("`--all-groups` excludes the names of groups")
    if not all_groups and not names:
        raise MissingArgument("GROUP")
    return [not_empty(name, "group") for name in names]


def one_group(argument: str | None, options: Sequence[str] | None) -> str:
    """Return the one group given as an argument or with Kafka's `--group`."""
    names = chosen_groups(None if argument is None else [argument], options)
    if len(names) > 1:
        raise UsageError(f"one group at a time: {', '.join(names)}")
    return names[0]


class View(Enum):
    """The views of `describe`; the values are the options' names."""

    OFFSETS = "--offsets"
    MEMBERS = "--members"
    STATE = "--state"
    TOTAL_LAG = "--total-lag"
    EXPLAIN = "--explain"
    HISTORY = "--history"

    def check(self, *, time_lag: bool, watch: bool, offline: bool) -> None:
        """Raise for options that exclude this view."""
        if time_lag and self not in (View.OFFSETS, View.TOTAL_LAG):
            raise UsageError(f"`--time-lag` and `{self.value}` exclude each other")
        if watch and self in (View.EXPLAIN, View.HISTORY):
            raise UsageError(f"`--watch` and `{self.value}` exclude each other")
        if not offline:
            return
        for option, is_given in (
            ("--time-lag", time_lag),
            ("--watch", watch),
            (self.value, self is View.EXPLAIN),
        ):
            if is_given:
                raise UsageError(f"`{option}` needs a broker, it cannot be used with `--log-dir`")


class ViewOptions(NamedTuple):
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Show partitions, offsets and lag: the default")
    ] = False
    members: Annotated[bool, typer.Option("--members", help="Show members and their partitions")] = False
    state: Annotated[bool, typer.Option("--state", help="Show state, coordinator and assignor")] = False
    total_lag: Annotated[
        bool, typer.Option("--total-lag", help="Show the lag of each group, and of all together")
    ] = False
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why a group rebalances, is empty, stuck or behind")
    ] = False
    history: Annotated[
        bool, typer.Option("--history", help="Show the past commits and generations that still exist")
    ] = False

    def chosen(self) -> View:
        views = (View.OFFSETS, View.MEMBERS, View.STATE, View.TOTAL_LAG, View.EXPLAIN, View.HISTORY)
        chosen = [view for view, is_set in zip(views, self, strict=True) if is_set]
        refuse_several(chosen)
        return chosen[0] if chosen else View.OFFSETS
