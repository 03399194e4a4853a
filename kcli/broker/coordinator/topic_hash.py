"""Hashes of what a consumer group must know of its topics: when one changes, partitions are assigned anew.

A topic's hash covers its id, its name, and for each partition the racks of its replicas; a group's the hashes
of its topics, in the order of their names. They are stored (KIP-1101), so they are Apache Kafka's, bit by bit
(class `org.apache.kafka.coordinator.group.Utils`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.assignors.members import java_order
from kcli.broker.coordinator.xxh3 import xxh3_64

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.metadata.registrations import TopicImage

NO_TOPICS = 0
"""The hash of a group that reads no topic there is."""

_FORMAT = b"\0"
_I32, _I64 = Struct("<i"), Struct("<q")


class TopicHashes:
    """Computes the hashes of groups, and remembers those of topics while these stay as they are."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicImage, int]] = {}

    def of_group(self, names: Iterable[str], image: MetadataImage) -> int:
        """Return the hash of a group that reads these topics; those that do not exist do not count."""
        existing = sorted((name for name in set(names) if name in image.topics), key=java_order)
        if not existing:
            return NO_TOPICS
        return xxh3_64(b"".join(_I64.pack(self._of_topic(name, image)) for name in existing))

    def _of_topic(self, name: str, image: MetadataImage) -> int:
        topic = image.topics[name]
        known = self._known.get(name)
        if known is None or known[0] is not topic:
            known = self._known[name] = (topic, topic_hash(topic, image))
        return known[1]

    def forget(self, name: str) -> None:
        """Forget a topic that is no more."""
        self._known.pop(name, None)


def topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    """Return the hash of one topic."""
    most, least = int.from_bytes(topic.topic_id[:8], "big"), int.from_bytes(topic.topic_id[8:], "big")
    parts = [
        _FORMAT,
        most.to_bytes(8, "little"),
        least.to_bytes(8, "little"),
        _text(topic.name),
        _I32.pack(len(topic.partitions)),
    ]
    for index, partition in enumerate(topic.partitions):
        parts.append(_I32.pack(index))
        brokers = (image.brokers.get(node_id) for node_id in partition.replicas)
        racks = [broker.rack for broker in brokers if broker is not None and broker.rack is not None]
        for rack in sorted(racks, key=java_order):
            parts += (_I32.pack(len(_utf_16(rack)) // 2), _text(rack))
    return xxh3_64(b"".join(parts))


def _text(text: str) -> bytes:
    encoded = _utf_16(text)
    return encoded + _I32.pack(len(encoded) // 2)


def _utf_16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")
