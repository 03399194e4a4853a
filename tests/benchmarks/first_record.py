"""The time from a consumer's `subscribe` to its first record, in a group that is new.

Where a group has no offset yet, librdkafka lets a tenth of a second pass before it asks where the partition
begins. A consumer that says in its callback that it wants the beginning does without, and what is measured is
the broker.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD_TIMEOUT_SECONDS = 30


def from_the_beginning(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Assign what was assigned, without a look at offsets that are not there."""
    for each in partitions:
        each.offset = OFFSET_BEGINNING
    consumer.assign(partitions)


def as_the_library_does(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Assign what was assigned, from the group's offset or else the beginning."""
    consumer.assign(partitions)


def first_record_seconds(
    bootstrap: str, topic: str, group: str, on_assign: Callable[[Consumer, list[TopicPartition]], None]
) -> float:
    """The seconds of a consumer that is connected already."""
    config = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(config)
    try:
        consumer.list_topics(topic, RECORD_TIMEOUT_SECONDS)
        started = time.monotonic()
        consumer.subscribe([topic], on_assign=on_assign)
        message = consumer.poll(RECORD_TIMEOUT_SECONDS)
        assert message is not None, f"no record in {RECORD_TIMEOUT_SECONDS} s"
        assert message.error() is None, message.error()
        return time.monotonic() - started
    finally:
        consumer.close()
