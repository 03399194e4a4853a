"""Fetching: the assigned partitions, their positions, and their fetched records. It knows no groups."""
