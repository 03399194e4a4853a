"""`kcli reassign-partitions` and `preferred-replica-election`: plans, execution, throttles and elections."""
