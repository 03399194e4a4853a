"""The group member built on kcli's own client; `tests.support.member_program` describes it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio

from kcli.client.admin.types import CommittedOffset
from kcli.client.client import connect
from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.groups.rebalance_listener import RebalanceListener
from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from tests.support.member_program import (
    COMMIT_SECONDS,
    POLL_RECORDS,
    POLL_SECONDS,
    Commands,
    JoinOptions,
    Reporter,
    serve,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class Membership(RebalanceListener):
    """One membership: what was printed and committed."""

    def __init__(self, options: JoinOptions, report: Reporter, consumer: Consumer) -> None:
        self.topic = options.topic
        self.report = report
        self.positions: dict[int, int] = {}
        self.consumer = consumer
        self.consumer.subscribe([options.topic], self)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called within a poll."""
        self.report.assigned(each.partition for each in partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called within a poll, after which the partitions are no longer ours."""
        given = [each.partition for each in partitions]
        known = [number for number in given if number in self.positions]
        await self.commit({number: self.positions.pop(number) for number in known})
        self.report.revoked(given)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Called within a poll."""
        for each in partitions:
            self.positions.pop(each.partition, None)
        self.report.lost(each.partition for each in partitions)

    async def commit(self, positions: dict[int, int]) -> None:
        """Commit and wait for the answer."""
        if not positions:
            return
        offsets = {number: CommittedOffset(offset) for number, offset in positions.items()}
        wanted = {TopicPartition(self.topic, number): offset for number, offset in offsets.items()}
        try:
            await self.consumer.commit(wanted)
        except KcliError as error:
            self.report("refused", reason=f"{type(error).__name__}: {error}")
        else:
            self.report.committed(positions)

    async def poll(self) -> None:
        """Poll once, and print what came."""
        for fetched in await self.consumer.poll(POLL_RECORDS, timeout_ms=int(POLL_SECONDS * 1000)):
            number = fetched.partition.partition
            offsets = [record.offset for record in fetched.records]
            values = [(record.value or b"").decode() for record in fetched.records]
            self.report.records(number, offsets, values)
            self.positions[number] = offsets[-1] + 1


async def membership(options: JoinOptions, commands: Commands, report: Reporter) -> None:
    """Be a member until told to leave."""
    config = ConsumerConfig(
        group_id=options.group,
        group_instance_id=options.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
    )
    if options.assignor == "consumer":
        config = config.changed(group_protocol="consumer")
    else:
        config = config.changed(
            session_timeout_ms=options.session,
            heartbeat_interval_ms=options.heartbeat,
            partition_assignment_strategy=options.assignor,
        )
    client_config = ClientConfig(client_id=options.client)
    async with connect(options.bootstrap, client_config) as client, Consumer(client, config) as consumer:
        this = Membership(options, report, consumer)
        committed: dict[int, int] = {}
        due = time.monotonic()
        while not commands.leaving:
            await this.poll()
            if time.monotonic() >= due and this.positions != committed:
                committed = dict(this.positions)
                await this.commit(committed)
                due = time.monotonic() + COMMIT_SECONDS


def member(options: JoinOptions, commands: Commands, report: Reporter) -> None:
    """Be a member until told to leave."""
    trio.run(membership, options, commands, report)


if __name__ == "__main__":
    serve(member)
