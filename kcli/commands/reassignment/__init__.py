"""The actions of `kcli reassign-partitions`, and the plans, moves and throttles they work with."""
