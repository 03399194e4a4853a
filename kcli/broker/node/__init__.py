"""One node: its life from open to close, its heartbeats and its housekeeping.

It does not know the other nodes of the process.
"""
