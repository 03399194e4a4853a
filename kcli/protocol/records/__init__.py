"""Record batches (magic 2), message sets (magic 0 and 1) and control records; never opens files."""
