"""The replicas of one node: partitions, in-sync replicas, fetchers, moves of logs. It reads no request."""
