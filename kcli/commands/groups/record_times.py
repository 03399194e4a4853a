"""The timestamps of records at given offsets, fetched from their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from kcli.client.client import Client

DEFAULT_TIMEOUT_MS = 30_000

FETCH_BYTES = 4096
"""One batch is all that is wanted, and brokers send a whole one however large it is."""

POLL_MS = 200


async def first_timestamps(
    client: Client,
    positions: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int | None]:
    """Return the timestamp of the first record at or behind each position.

    None where there is no record up to the end; a partition that does not answer in time is left out.
    """
    found: dict[TopicPartition, int | None] = {}
    wanted = [TopicPartition(*partition) for partition in positions]
    if not wanted:
        return found
    config = ConsumerConfig(max_partition_fetch_bytes=FETCH_BYTES, fetch_max_wait_ms=POLL_MS)
    with trio.move_on_after((DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000):
        async with Consumer(client, config) as consumer:
            consumer.assign(wanted)
            for partition in wanted:
                consumer.seek(partition, positions[partition])
            while wanted:
                for fetched in await consumer.poll(timeout_ms=POLL_MS):
                    found.setdefault(fetched.partition, fetched.records[0].timestamp)
                for partition in wanted:
                    position = consumer.position_nowait(partition)
                    if position is not None and position >= ends[partition]:
                        found.setdefault(partition, None)
                wanted = [partition for partition in wanted if partition not in found]
                consumer.assign(wanted)
    return found
