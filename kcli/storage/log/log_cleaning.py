"""Cleaning: the flag that ties a running compaction to its log.

Whatever makes the result of a compaction void sets it: a truncation, the deletion or the move of the
replica, a failed directory, a stop. Nobody waits: the compaction sees the flag at its next step and removes
its files. `kcli.storage.cleaning` does the work.
"""

from __future__ import annotations


class Cleaning:
    """A compaction of one log while it runs. Any thread may read the flag."""

    __slots__ = ("is_discarded",)

    def __init__(self) -> None:
        self.is_discarded = False

    def discard(self) -> None:
        """Make the result void."""
        self.is_discarded = True
