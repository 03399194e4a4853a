"""Partitioner: chooses a partition by the hash of the key; without a key by stickiness, in turn or at random.

A hash covers *all* partitions of the topic, even leaderless ones, so that a key keeps its partition. A choice
without a key prefers partitions that have a leader. The clients' defaults differ:

| name                | key present                              | no key                                    |
|---------------------|------------------------------------------|-------------------------------------------|
| `murmur2`           | Java's hash; an empty key is hashed      | sticky                                    |
| `consistent_random` | librdkafka's CRC-32                      | random; an empty key counts as none       |
| `fnv1a`             | sarama's FNV-1a                          | random                                    |
| `sticky`            | ignored                                  | sticky: one partition per full batch      |
| `roundrobin`        | ignored                                  | in turn, from a random start              |

Sticky partitioning is Kafka's `BuiltInPartitioner` (KIP-794).
"""

from __future__ import annotations

import random
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kcli.client.network.metadata import TopicMetadata

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_WORDS = tuple(Struct(f"<{count}I") for count in range(64))


@lru_cache(maxsize=16_384)
def murmur2(key: bytes) -> int:
    """Return the 32-bit murmur2 of a key as Kafka computes it, unsigned."""
    length = len(key)
    h = 0x9747B28C ^ length
    count = length >> 2
    words = (_WORDS[count] if count < 64 else Struct(f"<{count}I")).unpack_from(key)
    for word in words:
        k = word * _MULTIPLIER & _MASK
        h = (h * _MULTIPLIER & _MASK) ^ ((k ^ k >> 24) * _MULTIPLIER & _MASK)
    tail = key[count * 4 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    h = (h ^ h >> 13) * _MULTIPLIER & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=16_384)
def fnv1a(key: bytes) -> int:
    """Return the 32-bit FNV-1a of a key, unsigned."""
    h = 0x811C9DC5
    for byte in key:
        h = (h ^ byte) * 0x01000193 & _MASK
    return h


def murmur2_partition(key: bytes, count: int) -> int:
    """Return Java's partition of a key: the sign bit is masked, not negated."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def crc32_partition(key: bytes, count: int) -> int:
    """Return librdkafka's `consistent` partition of a key."""
    return crc32(key) % count


def fnv1a_partition(key: bytes, count: int) -> int:
    """Return sarama's partition of a key: C's remainder of the signed hash, then its absolute value."""
    h = fnv1a(key)
    return (h if h < 0x80000000 else 0x100000000 - h) % count


_HASHES: dict[str, Callable[[bytes, int], int]] = {
    "murmur2": murmur2_partition,
    "consistent_random": crc32_partition,
    "fnv1a": fnv1a_partition,
}


def queue_weights(queue_sizes: Sequence[int]) -> list[int] | None:
    """Return the running sums for drawing a partition: the shorter its queue, the likelier.

    A queue's weight is the longest queue + 1 - its own. None (draw evenly) with fewer than two queues or if
    all are equally long.
    """
    if len(queue_sizes) < 2 or min(queue_sizes) == max(queue_sizes):
        return None
    longest = max(queue_sizes) + 1
    return list(accumulate(longest - size for size in queue_sizes))


def draw(running_sums: Sequence[int], number: int) -> int:
    """Return the index of the first running sum above `number`."""
    return bisect_right(running_sums, number)


class StickyState:
    """The partition of a topic's keyless records, and the bytes it got since it was chosen.

    `loads` is set by the sender: (partitions, running sums) while queues differ in length, else None.
    """

    __slots__ = ("loads", "partition", "produced_bytes")

    def __init__(self) -> None:
        self.partition = -1
        self.produced_bytes = 0
        self.loads: tuple[Sequence[int], Sequence[int]] | None = None


class Partitioner:
    """One named rule, with its state per topic."""

    def __init__(
        self,
        name: str = "murmur2",
        *,
        batch_size: int = 16_384,
        adaptive: bool = True,
        ignore_keys: bool = False,
        rng: random.Random | None = None,
    ) -> None:
        self.batch_size = max(1, batch_size)
        self.adaptive = adaptive
        self._random = random.Random() if rng is None else rng
        self._hash = None if ignore_keys else _HASHES.get(name)
        self._empty_is_none = name == "consistent_random"
        self._choose = {"murmur2": self._sticky, "sticky": self._sticky, "roundrobin": self._in_turn}.get(
            name, self._at_random
        )
        self.is_sticky = self._choose == self._sticky
        self._sticky_states: dict[str, StickyState] = {}
        self._counters: dict[str, int] = {}

    def partition(self, topic: TopicMetadata, key: bytes | None) -> int:
        """Return the partition for a record. The topic must have partitions."""
        if self._hash is None or key is None or (not key and self._empty_is_none):
            return self._choose(topic)
        return self._hash(key, len(topic.partitions))

    def is_free(self, key: bytes | None) -> bool:
        """Return whether records with this key may go to any partition, so that stickiness counts them."""
        return self.is_sticky and (self._hash is None or key is None)

    def not_appended(self, topic: TopicMetadata) -> None:
        """Undo the last choice of a partition: its record was not appended."""
        if topic.name in self._counters:
            self._counters[topic.name] -= 1

    def appended(self, topic: TopicMetadata, size: int, all_full: Callable[[], bool]) -> None:
        """Count bytes of a keyless record in the sticky partition, and switch when it has enough.

        It switches at `batch_size` bytes if all its queued batches are full (`all_full`), else at twice that,
        so that a lingering batch is filled and not left as a fragment.
        """
        state = self._sticky_states.get(topic.name) or self._state(topic.name)
        state.produced_bytes = produced = state.produced_bytes + size
        if produced >= self.batch_size and (produced >= 2 * self.batch_size or all_full()):
            state.partition = self._next(topic, state)
            state.produced_bytes = 0

    def update_loads(self, topic: TopicMetadata, queue_sizes: Mapping[int, int]) -> None:
        """Update the queue lengths of a topic; they count once every partition has a queue."""
        if not (self.adaptive and self.is_sticky) or topic.name not in self._sticky_states:
            return
        available = topic.available
        sums = None
        if len(queue_sizes) == len(topic.partitions):
            sums = queue_weights([queue_sizes[index] for index in available])
        self._state(topic.name).loads = None if sums is None else (available, sums)

    def _state(self, topic: str) -> StickyState:
        state = self._sticky_states.get(topic)
        if state is None:
            state = self._sticky_states[topic] = StickyState()
        return state

    def _sticky(self, topic: TopicMetadata) -> int:
        state = self._sticky_states.get(topic.name) or self._state(topic.name)
        if state.partition not in topic.partitions:
            state.partition = self._next(topic, state)
        return state.partition

    def _next(self, topic: TopicMetadata, state: StickyState) -> int:
        if state.loads is None:
            return self._at_random(topic)
        partitions, sums = state.loads
        return partitions[draw(sums, self._random.randrange(sums[-1]))]

    def _at_random(self, topic: TopicMetadata) -> int:
        return self._random.choice(topic.available or tuple(topic.partitions))

    def _in_turn(self, topic: TopicMetadata) -> int:
        choices = topic.available or tuple(sorted(topic.partitions))
        counter = self._counters.get(topic.name)
        if counter is None:
            counter = self._random.randrange(len(choices))
        self._counters[topic.name] = counter + 1
        return choices[counter % len(choices)]
