"""The runtime of coordinators: loads shards, performs their effects, follows leadership; knows no groups."""
