"""A node with a topic and a coordinator, and members of its groups."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.broker.handlers import group_requests as ask
from tests.broker.handlers.group_requests import GROUP
from tests.broker.single_node import Client, Node, connected, running_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


OFFSETS = "__consumer_offsets"
TOPIC = "topic"
PARTITIONS = 3


@asynccontextmanager
async def group_node(directory: Path, **properties: str) -> AsyncIterator[tuple[Node, Client]]:
    """A node with a topic of three partitions, and the coordinator's own."""
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    async with running_node(directory, settings) as node, connected(node) as client:
        node.create_topic(TOPIC, PARTITIONS)
        assert (await client.ask(ask.find_one(), 0)).error_code == 0
        yield node, client


class Member:
    """A member that has a connection of its own."""

    def __init__(self, client: Client, member_id: str, generation: int, group: str = GROUP) -> None:
        self.client = client
        self.id = member_id
        self.generation = generation
        self.group = group

    async def sync(self) -> int:
        """Sync as a leader that assigns nothing."""
        request = ask.sync(self.group, self.id, self.generation, {self.id: b"assigned"})
        error: int = (await self.client.ask(request, 3)).error_code
        return error

    async def heartbeat(self) -> int:
        error: int = (
            await self.client.ask(ask.heartbeat(self.group, self.id, self.generation), 3)
        ).error_code
        return error

    async def commit(self, offset: int = 1, **changes: Any) -> int:
        request = ask.commit(
            {(TOPIC, 0): offset}, self.group, member=self.id, generation=self.generation, **changes
        )
        (error,) = ask.committed(await self.client.ask(request, 7)).values()
        return error


async def joined(client: Client, group: str = GROUP, *, version: int = 3, **changes: Any) -> Member:
    """Join a group without the sync."""
    response = await client.ask(ask.join(group, **changes), version)
    assert response.error_code == 0, response
    return Member(client, response.member_id, response.generation_id, group)


async def stable(client: Client, group: str = GROUP, **changes: Any) -> Member:
    """Join a group and sync."""
    member = await joined(client, group, **changes)
    assert await member.sync() == 0
    return member
