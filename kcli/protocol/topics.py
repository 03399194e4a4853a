"""TopicPartition: the name of a partition.

The topics that belong to the cluster itself (class `Topic`).

The coordinators keep their state in `INTERNAL_TOPICS`, which are ordinary topics with ordinary logs. The
metadata log has the name and the shape of a topic's partition, and is none: the controller alone writes it.

The partition of the coordinators' topic that keeps a group or a transaction, by the hash of its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class TopicPartition(NamedTuple):
    """A partition of a topic. Prints as Kafka does: `orders-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


TopicIdPartition = tuple[bytes, int]
"""A partition of the topic with that id: a plain tuple, as assignors and coordinators make very many."""


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Group partitions as requests do: topic -> indexes, in the given order."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


GROUP_METADATA_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, "__transaction_state", "__share_group_state"})
METADATA_TOPIC = "__cluster_metadata"


def string_hash(text: str) -> int:
    """Return Java's `String.hashCode()` as an unsigned 32-bit number: it runs over UTF-16 units."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        result = (31 * result + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return result


def partition_for(name: str, count: int) -> int:
    """Return the partition, of `count`, that holds a group or a transactional id.

    Java takes the absolute value of a signed hash, and 0 for the one that has none (`Utils.abs`).
    """
    value = string_hash(name)
    if value > 0x8000_0000:
        return (0x1_0000_0000 - value) % count
    return 0 if value == 0x8000_0000 else value % count
