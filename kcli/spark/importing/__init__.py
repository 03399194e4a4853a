"""Importing: Parquet files of an export become records of a topic again. Never writes to the export.

The end offsets of the target tell what was delivered: a state file holds where each partition ended before
the import, and an idempotent producer appends in order and without gaps, so the difference is the number of
records that arrived. An import that was killed goes on behind the last of them.
"""
