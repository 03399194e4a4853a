"""Committed offsets of groups of every kind: commit, fetch, delete, expire.

Pure: events in, effects out.
"""
