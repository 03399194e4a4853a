# Completion of kcli for fish: write it to ~/.config/fish/completions/kcli.fish
function __kcli_complete
    _KCLI_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \
        _TYPER_COMPLETE_ARGS=(commandline -cp) kcli 2>/dev/null
end
complete --command kcli --no-files \
    --condition '__kcli_complete is-args' --arguments '(__kcli_complete get-args)'
