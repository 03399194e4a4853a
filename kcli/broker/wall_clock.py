"""The time of day."""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Return the time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
