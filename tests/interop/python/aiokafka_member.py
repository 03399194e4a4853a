"""The group member built on aiokafka; `tests.support.member_program` describes it."""

from __future__ import annotations

import asyncio
import time

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from tests.support.member_program import (
    COMMIT_SECONDS,
    POLL_RECORDS,
    POLL_SECONDS,
    Commands,
    JoinOptions,
    Reporter,
    serve,
)


class Membership(ConsumerRebalanceListener):  # type: ignore[misc]
    """One membership: what was printed and committed."""

    def __init__(self, options: JoinOptions, report: Reporter) -> None:
        assert options.assignor == "range"
        self.topic = options.topic
        self.report = report
        self.positions: dict[int, int] = {}
        self.owned: set[int] = set()
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            group_instance_id=options.instance or None,
            client_id=options.client,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            retry_backoff_ms=50,
            session_timeout_ms=options.session,
            heartbeat_interval_ms=options.heartbeat,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        self.consumer.subscribe([options.topic], listener=self)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Called by the library's own task."""
        self.owned = {each.partition for each in assigned}
        self.report.assigned(self.owned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Called by the library's own task, once no poll returns records any more."""
        await self.commit()
        self.positions.clear()
        self.owned.clear()
        self.report.revoked(each.partition for each in revoked)

    async def commit(self) -> None:
        """Commit every position and wait for the answer."""
        positions = dict(self.positions)
        if not positions:
            return
        try:
            await self.consumer.commit(
                {TopicPartition(self.topic, number): offset for number, offset in positions.items()}
            )
        except KafkaError as error:
            self.report("refused", reason=f"{type(error).__name__}: {error}")
        else:
            self.report.committed(positions)

    async def poll(self) -> None:
        """Poll once, and print what came."""
        found = await self.consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=POLL_RECORDS)
        for place, messages in found.items():
            offsets = [message.offset for message in messages]
            self.report.records(
                place.partition, offsets, [(message.value or b"").decode() for message in messages]
            )
            self.positions[place.partition] = offsets[-1] + 1


async def membership(options: JoinOptions, commands: Commands, report: Reporter) -> None:
    """Be a member until told to leave."""
    this = Membership(options, report)
    await this.consumer.start()
    committed: dict[int, int] = {}
    due = time.monotonic()
    try:
        while not commands.leaving:
            await this.poll()
            if time.monotonic() >= due and this.positions != committed:
                committed = dict(this.positions)
                await this.commit()
                due = time.monotonic() + COMMIT_SECONDS
        # The library calls no listener on leaving.
        await this.commit()
        report.revoked(this.owned)
    finally:
        await this.consumer.stop()


def member(options: JoinOptions, commands: Commands, report: Reporter) -> None:
    """Be a member until told to leave."""
    asyncio.run(membership(options, commands, report))


if __name__ == "__main__":
    serve(member)
