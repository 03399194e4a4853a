"""Log directories as a source: a running or stopped broker's, and copies. Never writes to them.

    log_dirs_source   what a planner asks: topics, offsets, times, splits
    log_dirs_reader   reads a split in a task
    replicas          a directory of segments, and what the checkpoints say about it
    segment           a log file, its indexes, and the heads of its entries

Indexes and positions are hints: they are checked against the entry that they point to.
"""
