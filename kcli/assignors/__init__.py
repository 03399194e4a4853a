"""Assignors: which member of a group reads which partition, and which broker gets which replica; no I/O."""
