"""Formats of records: batches (magic 2), message sets (magic 0 and 1), control records.

Reads bytes, never files.
"""
