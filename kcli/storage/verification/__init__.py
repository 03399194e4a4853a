"""Verification: whether the files of a partition agree with each other, and with the log directory's."""
