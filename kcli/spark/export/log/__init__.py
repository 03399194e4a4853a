"""The log of a target: identity, lock, plans, receipts and commits. Holds no data file."""
