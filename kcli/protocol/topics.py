"""Names of topics and partitions, and the topics that belong to the cluster itself (class `Topic`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.java import string_hash

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state"})
"""Where the coordinators keep their state: ordinary topics with ordinary logs."""

METADATA_TOPIC = "__cluster_metadata"
"""The metadata log has the name and the shape of a partition of this topic, which does not exist."""

MAX_NAME_LENGTH = 249


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


def partition_for(name: str, count: int) -> int:
    """Return the partition, of `count`, of the coordinators' topic that holds a group or a transactional id.

    Java takes the absolute value of a signed hash, and 0 for the one that has none (`Utils.abs`).
    """
    value = string_hash(name)
    if value > 0x8000_0000:
        return (0x1_0000_0000 - value) % count
    return 0 if value == 0x8000_0000 else value % count


def check_topic_name(name: str) -> None:
    """Raise `KafkaError` INVALID_TOPIC_EXCEPTION unless a topic may have this name."""
    wrong = None
    if not name:
        wrong = "it is empty"
    elif name in {".", ".."}:
        wrong = "`.` and `..` are not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        wrong = f"it is longer than {MAX_NAME_LENGTH} characters"
    elif not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        wrong = "only ASCII letters, digits, `.`, `_` and `-` are allowed"
    if wrong is not None:
        # Most who import this module check no name: a dump of log files knows no error codes.
        from kcli.protocol.error_codes import ErrorCode, KafkaError

        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"invalid topic name `{name}`: {wrong}")


def collision_key(name: str) -> str:
    """Return the key of a name that metrics cannot tell from names differing only in `.` and `_`."""
    return name.replace(".", "_")
