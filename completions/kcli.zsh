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
