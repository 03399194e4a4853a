"""The actions of `kcli consumer-groups`, and what they read, decide and print.

Each verb is a `…_command`, declared on the application in `options`. Two readers find out about groups:
`lookup` and `records` ask a cluster, `files` and `offline` read `__consumer_offsets` from log directories.
What `describe` shows is taken by `description` as a `view`: `offsets_view` (with `lag`), `members_view`,
`history_view` (of the `history` in the records) and `explain_view`, each behind a `head`, and again and
again under `watch`. To explain, `inquiry` collects `facts`, and `explain` and `progress` draw `findings`
from them. `list` shows a `listing`. A reset is parsed and planned by `reset_plan`, `reset_times` and
`reset_csv`, carried out by `reset` and shown by `reset_view`; `clone` plans the copy of a group. `reading`
is the member that `kcli consume --group` is.
"""
