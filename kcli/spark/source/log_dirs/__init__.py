"""Log directories as a source: those of a broker that runs or that is gone, and copies of them.

    LogDirsSource   what a planner asks: topics, offsets, times, splits    log_dirs_source
    LogDirsReader   what a task reads a split with                         log_dirs_reader

    Replica         a directory of segments, and what the checkpoints say of it      replicas
    Segment         a log file and its indexes                                        segments
    HeadWalk        the heads of entries, one after the other                         head_walk

Indexes and positions are hints, held against the entry that they point to. Nothing is ever written.
"""
