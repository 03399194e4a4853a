"""How `kcli verify-index` finds what to check, checks it in parallel and reports it.

`targets` are the replicas that the paths stand for, and `run` does with them what was asked for: `plan`
makes the `tasks` of a verification and checks what belongs to log directories as a whole; `other_tasks`
makes those of `--rebuild` and `--compare`. The `workforce` does them in several processes, a large log by
its `ranges`. The `printer` prints what they report, as `findings_view` words it. The checks are
`kcli.forensics.verification`.
"""
