"""How `kcli verify-index` finds what to check, checks it in parallel and reports it."""
