"""Exponential backoff with jitter (KIP-580, Kafka class `ExponentialBackoff`)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.client.config import RequestConfig

JITTER = 0.2
"""A delay lies within +-20 % of its nominal value."""


class Backoff:
    """Delays that double from `initial_ms` to `maximum_ms`; `reset` starts over after a success."""

    __slots__ = ("_initial_ms", "_maximum_ms", "failures")

    def __init__(self, initial_ms: int, maximum_ms: int) -> None:
        self._initial_ms = initial_ms
        self._maximum_ms = max(initial_ms, maximum_ms)
        self.failures = 0

    @classmethod
    def of(cls, config: RequestConfig) -> Backoff:
        """Return the backoff between two tries of a request."""
        return cls(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def next_delay(self) -> float:
        """Return the next delay in seconds and count one more failure."""
        nominal: float = min(self._initial_ms << min(self.failures, 30), self._maximum_ms)
        self.failures += 1
        return nominal * random.uniform(1 - JITTER, 1 + JITTER) / 1000

    def reset(self) -> None:
        self.failures = 0
