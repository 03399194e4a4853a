"""Log compaction: choice, rewriting and swap of closed segments; never decides when, nor starts a thread."""
