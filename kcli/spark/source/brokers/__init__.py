"""Topics of running brokers: offsets and sizes for a planner, and the records of a split for a task.

    BrokersSource   what a planner asks, one short session of the client per question   brokers_source
    BrokersReader   what tasks read with: a connection of their own to one broker       brokers_reader

A task keeps one fetch in flight while it decodes the answer to the one before. Its connection is a plain
blocking socket, because a task has nothing else to do: one system call fills a buffer that is used again for
every answer, and the bytes of records are decoded where they arrived.
"""
