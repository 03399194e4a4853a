"""Importing: Parquet files of an export become records of a topic again.

The target's own end offset is the memory of what was delivered: a state file says where each partition ended
before the first record of the import, an idempotent producer appends in order and without gaps, so the
difference is the number of records that are there already. Whoever is killed goes on after the last of them.
"""
