"""The runtime of coordinators: loads shards, performs their effects, and follows leadership.

Knows nothing of groups.
"""
