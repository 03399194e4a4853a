"""ReplicationThrottle: limits how fast replicas copy (KIP-73, class `ReplicationQuotaManager`).

A broker limits what it sends as a leader, and what it fetches as a follower, each to one rate. The limit
holds for replicas that a topic's configuration names, and only while they are not in sync: in-sync replicas
must not fall behind. The rate is measured over the last seconds.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SAMPLES = 11
SAMPLE_MS = 1000
LONGEST_WAIT_MS = 1000
EVERY_PARTITION = frozenset({-1})
_NONE: frozenset[int] = frozenset()


def throttled_partitions(value: str, node_id: int) -> frozenset[int]:
    """Return the partitions that a topic's configuration throttles on a node, `EVERY_PARTITION` for `*`."""
    words = [word.strip() for word in value.split(",") if word.strip()]
    if words == ["*"]:
        return EVERY_PARTITION
    pairs = [word.partition(":") for word in words]
    return frozenset(int(partition) for partition, _, broker in pairs if int(broker) == node_id)


class ReplicationThrottle:
    """One direction of one node; `rate` returns its limit in bytes per second."""

    def __init__(self, config_name: str, node_id: int, *, rate: Callable[[], int]) -> None:
        self._config_name = config_name
        self._node_id = node_id
        self._rate = rate
        self._topics: dict[str, frozenset[int]] = {}
        self._samples: deque[tuple[int, int]] = deque()
        """Start time and bytes of the last seconds, oldest first."""

    @property
    def rate(self) -> int:
        """The limit in bytes per second."""
        return self._rate()

    def configure(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Take over which replicas of a topic are throttled."""
        throttled = throttled_partitions(overrides.get(self._config_name, ""), self._node_id)
        if throttled:
            self._topics[topic] = throttled
        else:
            self._topics.pop(topic, None)

    def is_throttled(self, topic: str, index: int) -> bool:
        if not self._topics:
            return False
        throttled = self._topics.get(topic, _NONE)
        return throttled is EVERY_PARTITION or index in throttled

    def record(self, size: int, now_ms: int) -> None:
        """Count the bytes that a throttled replica copied."""
        if self._samples and now_ms - self._samples[-1][0] < SAMPLE_MS:
            begin, before = self._samples[-1]
            self._samples[-1] = (begin, before + size)
        else:
            self._samples.append((now_ms, size))

    def wait_ms(self, now_ms: int) -> int:
        """Return how long throttled replicas must wait, 0 if they need not."""
        while self._samples and now_ms - self._samples[0][0] >= SAMPLES * SAMPLE_MS:
            self._samples.popleft()
        copied = sum(size for _, size in self._samples)
        if not copied:
            return 0
        elapsed_ms = max(now_ms - self._samples[0][0], SAMPLE_MS)
        rate = self.rate
        if copied * 1000 <= rate * elapsed_ms:
            return 0
        needed_ms = copied * 1000 // rate if rate else SAMPLES * SAMPLE_MS
        return min(max(needed_ms - elapsed_ms, 1), LONGEST_WAIT_MS)
