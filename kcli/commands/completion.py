"""`kcli completion`: shell completion scripts, and the names that only a cluster knows.

A script hands the words of the command line back to `kcli`, which answers with the candidates; the
environment variables are those of Typer's completion. Names of topics and groups come from the cluster that
the words name, within `TIME_LIMIT_S`, and any failure means no candidates: completion never prints an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from kcli.commands.shared.runner import command
from kcli.errors import KcliError

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.client.client import Client

app = typer.Typer(rich_markup_mode=None)

TIME_LIMIT_S = 0.5

SCRIPTS = {
    "bash": """\
# Completion of kcli for bash: write it to ~/.local/share/bash-completion/completions/kcli
_kcli_completion() {
    local IFS=$'\\n'
    COMPREPLY=($(
        COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _KCLI_COMPLETE=complete_bash "$1" 2>/dev/null
    ))
}
complete -o default -F _kcli_completion kcli
""",
    "zsh": """\
#compdef kcli
# Completion of kcli for zsh: write it to a directory of $fpath as _kcli
_kcli_completion() {
    eval "$(_TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _KCLI_COMPLETE=complete_zsh kcli 2>/dev/null)"
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _kcli_completion "$@"
else
    compdef _kcli_completion kcli
fi
""",
    "fish": """\
# Completion of kcli for fish: write it to ~/.config/fish/completions/kcli.fish
function __kcli_complete
    _KCLI_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \\
        _TYPER_COMPLETE_ARGS=(commandline -cp) kcli 2>/dev/null
end
complete --command kcli --no-files \\
    --condition '__kcli_complete is-args' --arguments '(__kcli_complete get-args)'
""",
}


class Shell(StrEnum):
    """A shell that kcli knows how to complete in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Script(NamedTuple):
    """The completion script of a shell."""

    shell: str
    script: str

    def lines(self) -> Sequence[str]:
        """Return the lines of the script."""
        return self.script.splitlines()


@command(app, "completion", example="kcli completion bash > ~/.local/share/bash-completion/completions/kcli")
async def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish", show_default=False)],
) -> Script:
    """Print the completion script of a shell."""
    return Script(shell.value, SCRIPTS[shell.value])


def topic_names(parameters: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the cluster's topics that begin with `incomplete`: none if it does not answer in time."""
    return names_beginning_with(incomplete, fetch_topic_names, parameters)


def group_names(parameters: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the consumer groups that begin with `incomplete`: none if no broker answers in time."""
    return names_beginning_with(incomplete, fetch_group_names, parameters)


def config_names(parameters: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the configurations that begin with `incomplete` of the broker, group or topic that is named.

    Where no topic is, any will do: all have the same names. Of a list with commas the last item counts.
    """
    before, comma, last = incomplete.rpartition(",")
    found = names_beginning_with(last, partial(fetch_config_names, parameters=parameters), parameters)
    return [f"{before}{comma}{name}" for name in found]


def names_beginning_with(
    incomplete: str, fetch: Callable[[Client], Awaitable[list[str]]], parameters: Mapping[str, Any]
) -> list[str]:
    """Return those names that begin with `incomplete`."""
    import trio

    try:
        names = trio.run(ask_cluster, fetch, parameters)
    except* Exception:
        # A shell shows whatever is printed in the middle of the line: no names is all there is to say.
        names = []
    return [name for name in names if name.startswith(incomplete)]


async def ask_cluster(
    fetch: Callable[[Client], Awaitable[list[str]]], parameters: Mapping[str, Any]
) -> list[str]:
    """Ask the cluster that the command line names, within the time limit."""
    import os

    import trio

    import kcli.client.admin  # noqa: F401 - what it takes to import is not the cluster's time
    from kcli.commands.shared.session import open_client

    command_config: Path | None = parameters.get("command_config")
    with trio.move_on_after(TIME_LIMIT_S):
        async with open_client(
            parameters.get("bootstrap_server") or os.environ.get("KCLI_BOOTSTRAP_SERVER") or None,
            command_config,
            parameters.get("command_property"),
        ) as client:
            return await fetch(client)
    return []


async def fetch_topic_names(client: Client) -> list[str]:
    """Return the names of the cluster's topics."""
    from kcli.client import admin

    return [listing.name for listing in await admin.list_topics(client)]


async def fetch_config_names(client: Client, *, parameters: Mapping[str, Any]) -> list[str]:
    """Return the names of the configurations of what a command line names."""
    from kcli.client import admin

    kinds = {"broker": admin.ConfigResourceType.BROKER, "group": admin.ConfigResourceType.GROUP}
    named = [
        admin.ConfigResource(kind, parameters[key]) for key, kind in kinds.items() if parameters.get(key)
    ]
    if not named:
        topics = await fetch_topic_names(client)
        wanted = parameters.get("topic") or parameters.get("topic_option")
        some = wanted if wanted in topics else next(iter(topics), "")
        named = [admin.ConfigResource(admin.ConfigResourceType.TOPIC, some)]
    answer = (await admin.describe_configs(client, named))[named[0]]
    return [] if isinstance(answer, KcliError) else [entry.name for entry in answer]


async def fetch_group_names(client: Client) -> list[str]:
    """Return the names of the cluster's consumer groups."""
    from kcli.commands.groups.lookup import list_consumer_groups

    groups, _ = await list_consumer_groups(client)
    return [group.group_id for group in groups]
