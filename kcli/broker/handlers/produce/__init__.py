"""Produce: its reader, its handler, and the short path for one batch to one partition."""
