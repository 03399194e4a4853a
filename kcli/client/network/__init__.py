"""Connections to the brokers of a cluster and what is known of it.

Knows nothing of topics' contents or of groups.
"""
