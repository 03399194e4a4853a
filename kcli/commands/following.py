"""Following: partitions that come while `consume` reads without a group are read too.

They are added to topics, or those of new topics, and begin at their first record: they were born while
somebody was watching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.client.consumer.consumer import Consumer
    from kcli.client.network.metadata import ClusterMetadata


@contextmanager
def following(
    client: Client, consumer: Consumer, accepts: Callable[[str], bool], *, all_topics: bool
) -> Iterator[None]:
    """Have the consumer read what new metadata shows, of the topics that `accepts`, while inside."""

    def take(cluster: ClusterMetadata) -> None:
        known = consumer.assignment
        partitions = {
            TopicPartition(name, index)
            for name, topic in cluster.topics.items()
            if accepts(name)
            for index in topic.partitions
        }
        added = partitions - known
        if added:
            consumer.assign([*known, *sorted(added)])
            consumer.seek_to_beginning(*added)

    client.cache.listeners.append(take)
    if all_topics:
        client.follow_all_topics(True)
    try:
        yield
    finally:
        client.cache.listeners.remove(take)
        if all_topics:
            client.follow_all_topics(False)
