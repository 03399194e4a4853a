"""Fetching: the assigned partitions, their positions, and the records that come for them."""
