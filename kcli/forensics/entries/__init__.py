"""The entries of a log file: sound batches, heads, damage, and the records inside; nothing is written."""
