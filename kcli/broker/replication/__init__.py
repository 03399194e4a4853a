"""The replicas of one node: partitions, in-sync replicas, fetchers, moves between log directories. It reads
no request.
"""
