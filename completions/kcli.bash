# Completion of kcli for bash: write it to ~/.local/share/bash-completion/completions/kcli
_kcli_completion() {
    local IFS=$'\n'
    COMPREPLY=($(
        COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _KCLI_COMPLETE=complete_bash "$1" 2>/dev/null
    ))
}
complete -o default -F _kcli_completion kcli
