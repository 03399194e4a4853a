"""Brokers as a source: offsets and sizes for a planner, and the records of a split for a task.

    brokers_source   what a planner asks; one short client session per question
    brokers_reader   reads a split in a task, over its own connection to one broker

A task keeps one fetch in flight while it decodes the previous response. Its connection is a blocking socket,
because a task has nothing else to do: one system call fills a buffer that is used again for every response,
and records are decoded where they arrived.
"""
