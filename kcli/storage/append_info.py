"""AppendInfo: what an append did to a log."""

from __future__ import annotations


class AppendInfo:
    """Where records went. `first_offset` is -1 if there was nothing to append.

    A `duplicate` was written before: the offsets are those of then. `log_append_time` is -1 unless the broker
    set the timestamps. `size` counts the bytes stored now.
    """

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
        "size",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        log_append_time: int,
        log_start_offset: int,
        duplicate: bool = False,
        size: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.size = size
