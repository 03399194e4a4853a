"""`kcli reassign-partitions` and `preferred-replica-election`: plans, moves, throttles and elections."""
