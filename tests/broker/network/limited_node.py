"""A node whose clients have quotas, and the pauses they should get."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from kcli.broker.controller.client_quota_control import QuotaAlteration
from kcli.broker.metadata.registrations import PartitionRegistration
from kcli.protocol.frames import RequestHeader, encode_request
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.schema.declaration import message_info
from tests.broker.records import batch, produce_request
from tests.broker.single_node import NODE_ID, running_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kcli.broker.replication.partition import Partition
    from tests.broker.single_node import Client, Node

LIMIT = 1000
"""Bytes a second; the quota allows ten thousand at once."""
VALUE = b"v" * 12_000
LARGE_REQUESTS = {"message.max.bytes": "4000000"}
"""Allows batches large enough to be handled in turns."""
METADATA_KEY = 3
MANY_ROUNDS = 100_000
"""The most turns that the broker gets to do what a test waits for."""


@asynccontextmanager
async def limited_node(
    directory: Path, properties: dict[str, str] | None = None, **quotas: float
) -> AsyncIterator[Node]:
    """Run a node whose client `test` has quotas."""
    async with running_node(directory, properties) as node:
        node.create_topic("t", partitions=2)
        set_quotas(node, **quotas)
        yield node


def set_quotas(node: Node, entity: tuple[str, str | None] = ("client-id", "test"), **quotas: Any) -> None:
    outcomes = node.controller.alter_client_quotas([QuotaAlteration([entity], [*quotas.items()])])
    assert outcomes == [None]


async def until(is_so: Any) -> None:
    """Let other tasks run until a condition holds, while the clock stands still."""
    for _ in range(MANY_ROUNDS):
        if is_so():
            return
        await trio.lowlevel.checkpoint()
    raise AssertionError("the condition never held")


async def held(node: Node, count: int = 1) -> None:
    """Return when requests are held back on mute connections."""
    await until(lambda: node.timer.count == count)


async def mute(client: Client, node: Node) -> float:
    """Let a client exceed its quota and ask for metadata behind that; return its pause in seconds."""
    response = await client.ask(produce_request("t", batch(VALUE)), 7)
    await client.send(MetadataRequest(topics=[]), 4)
    await held(node)
    return pause_of(response) / 1000


async def has_no_answer(client: Client) -> bool:
    """Return whether nothing has arrived once the broker has nothing more to do."""
    await trio.testing.wait_all_tasks_blocked()
    return not client.has_received


def lagging(node: Node) -> Partition:
    """Give partition 0 of topic `t` an in-sync replica that never fetches; return the partition."""
    partition = node.replica_manager.partition("t", 0)
    partition.apply(
        PartitionRegistration(
            replicas=(NODE_ID, 2), isr=(NODE_ID, 2), leader=NODE_ID, leader_epoch=0, partition_epoch=1
        )
    )
    return partition


def pause_of(response: Any) -> int:
    pause_ms: int = response.throttle_time_ms
    return pause_ms


def expected_pause(size: int, limit: int = LIMIT) -> int:
    """Return the pause after so many bytes at once, of which ten seconds are free."""
    return round(size * 1000 / limit - 10_000)


def size_of(request: object, version: int) -> int:
    """Return the size of a request of client `test` without its length."""
    return len(frame_of(request, version)) - 4


def frame_of(request: object, version: int, correlation_id: int = 1) -> bytes:
    """Return a request of client `test` as it is sent."""
    header = RequestHeader(message_info(type(request)).key, version, correlation_id, "test")
    return encode_request(header, request)
