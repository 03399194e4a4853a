"""The member of a consumer with a group: its creation, and its tasks in the consumer's `async with` block."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from kcli.client.groups.group_commits import CommittedPositions
from kcli.client.network.background import shielded_nursery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.fetcher import Fetcher
    from kcli.client.fetch.subscription_state import AssignedPartitions
    from kcli.client.groups.classic_member import ClassicMember
    from kcli.client.groups.consumer_member import ConsumerMember
    from kcli.client.groups.member import Callbacks, Member


def new_member(
    client: Client,
    config: ConsumerConfig,
    *,
    assigned: AssignedPartitions,
    fetcher: Fetcher,
    callbacks: Callbacks,
) -> Member:
    """Return the member for a configuration; the fetcher starts at the committed offsets."""
    # Imported here: a member speaks one protocol.
    if config.is_consumer_protocol:
        from kcli.client.groups.consumer_member import ConsumerMember

        kind: type[ConsumerMember | ClassicMember] = ConsumerMember
    else:
        from kcli.client.groups.classic_member import ClassicMember

        kind = ClassicMember
    member = kind(client, config, assigned, callbacks)
    fetcher.start_committed = CommittedPositions(
        client, assigned, commits=member.commits, ended=fetcher.position_ended
    ).start
    return member


@asynccontextmanager
async def member_running(
    member: Member, nursery: trio.Nursery, *, close_seconds: float, warn: Callable[[str], None]
) -> AsyncIterator[None]:
    """Run a member during the block; it ends within `close_seconds` after the end of the block."""
    async with shielded_nursery(nursery) as members_nursery:
        member.start(members_nursery)
        nursery.start_soon(_hurry_once_cancelled, member, close_seconds)
        try:
            yield
        finally:
            deadline = min(trio.current_time() + close_seconds, member.assignment.deadline)
            with trio.CancelScope(shield=True, deadline=deadline) as scope:
                await member.close()
            if scope.cancelled_caught and member.commits.is_busy:
                warn("the coordinator did not answer in time: what was read last may be read again")


async def _hurry_once_cancelled(member: Member, close_seconds: float) -> None:
    """When the block is cancelled, limit the time of everything that is shielded."""
    try:
        await trio.sleep_forever()
    finally:
        member.assignment.hurry(close_seconds)
