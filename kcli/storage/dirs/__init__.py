"""A node's log directories and all logs in them: identity, locks, checkpoints; never looks into a record."""
