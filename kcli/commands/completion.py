"""`kcli completion`: prints the completion script of a shell.

A script hands the words of the command line to `kcli`, which answers with candidates. The environment
variables are those of Typer's completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from kcli.commands.shared.runner import command

app = typer.Typer(rich_markup_mode=None)

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
    """A shell with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Script(NamedTuple):
    """The completion script of a shell."""

    shell: str
    script: str

    def lines(self) -> Sequence[str]:
        return self.script.splitlines()


@command(app, "completion", example="kcli completion bash > ~/.local/share/bash-completion/completions/kcli")
async def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish", show_default=False)],
) -> Script:
    """Print the completion script of a shell."""
    return Script(shell.value, SCRIPTS[shell.value])
