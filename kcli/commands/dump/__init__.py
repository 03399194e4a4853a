"""How `kcli dump-log` finds, reads and prints what log files hold."""
