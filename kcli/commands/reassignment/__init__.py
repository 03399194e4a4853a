"""The actions of `kcli reassign-partitions`, and the plans, moves and throttles they work with.

Each verb is a `…_command`, declared on the application in `options`. `cluster` is what they ask before they
act. `generate` finds by `strategy` where partitions shall be and writes a `plan`; `execute` reads one, and
`execution` carries it out, with `throttles`, and with `log_dirs` where replicas move between directories.
`moves` holds a plan against the cluster's state, `progress` tells how far copies are, `wait` waits for their
end. `view` is what all of them return and print.
"""
