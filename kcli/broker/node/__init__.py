"""One node, from open to close, with its heartbeats and housekeeping; it never looks at the other nodes of
the process.
"""
