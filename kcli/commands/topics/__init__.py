"""`kcli topics`, `get-offsets` and `delete-records`: topics, their offsets and their records."""
