"""The group member built on kafka-python; `tests.support.member_program` describes it."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError

from tests.support.member_program import (
    COMMIT_SECONDS,
    POLL_RECORDS,
    POLL_SECONDS,
    Commands,
    JoinOptions,
    Reporter,
    serve,
)
from tests.support.waiting import first

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Membership(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """One membership: what was printed and committed."""

    def __init__(self, options: JoinOptions, report: Reporter) -> None:
        self.topic = options.topic
        self.report = report
        self.positions: dict[int, int] = {}
        self.reported: dict[int, int] = {}
        settings: dict[str, Any] = {"group_instance_id": options.instance} if options.instance else {}
        self.consumer = KafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            client_id=options.client,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            reconnect_backoff_max_ms=200,
            session_timeout_ms=options.session,
            heartbeat_interval_ms=options.heartbeat,
            partition_assignment_strategy=[ASSIGNORS[options.assignor]],
            **settings,
        )
        # A leader whose metadata come while it assigns assigns nothing, and takes that for all there is.
        first(lambda: self.consumer.partitions_for_topic(options.topic), bool, f"{options.topic} is known")
        self.consumer.subscribe([options.topic], listener=self)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Called within a poll."""
        self.report.assigned(each.partition for each in assigned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Called within a poll, after which the partitions are no longer ours."""
        given = {each.partition for each in revoked}
        positions = {number: self.positions.pop(number) for number in given if number in self.positions}
        if positions:
            try:
                await self.consumer.commit_async(self.offsets(positions))
            except KafkaError as error:
                self.report("refused", reason=f"{type(error).__name__}: {error}")
            else:
                self.committed(positions)
        self.report.revoked(given)

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """Called within a poll."""
        for each in lost:
            self.positions.pop(each.partition, None)
        self.report.lost(each.partition for each in lost)

    def offsets(self, positions: dict[int, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        """As the library wants them."""
        return {
            TopicPartition(self.topic, number): OffsetAndMetadata(offset, "", -1)
            for number, offset in positions.items()
        }

    def commit(self) -> None:
        """Commit every position; the answer comes within a later poll.

        Not with the library's waiting commit: that repeats what was refused for a rebalance after it, and so
        puts back what the partitions' next owner has committed.
        """
        positions = dict(self.positions)
        self.consumer.commit_async(self.offsets(positions), callback=partial(self.answered, positions))

    def answered(self, positions: dict[int, int], _offsets: object, answer: object) -> None:
        """Called when a commit is answered, or cannot be."""
        if isinstance(answer, Exception):
            self.report("refused", reason=f"{type(answer).__name__}: {answer}")
        else:
            self.committed(positions)

    def committed(self, positions: dict[int, int]) -> None:
        """Report what is new of a commit.

        The library calls back within a later poll, the last answer first: by then the partitions may be
        another member's, which has committed more.
        """
        newer = {
            number: offset for number, offset in positions.items() if offset > self.reported.get(number, -1)
        }
        self.reported |= newer
        self.report.committed(newer)

    def poll(self) -> None:
        """Poll once, and print what came."""
        try:
            found = self.consumer.poll(timeout_ms=int(POLL_SECONDS * 1000), max_records=POLL_RECORDS)
        except KafkaConnectionError as error:
            # While a broker is away the library now and then gives up on it; the next poll tries again.
            self.report("refused", reason=str(error))
            time.sleep(POLL_SECONDS)
            return
        for place, messages in found.items():
            offsets = [message.offset for message in messages]
            self.report.records(place.partition, offsets, [message.value.decode() for message in messages])
            self.positions[place.partition] = offsets[-1] + 1


def member(options: JoinOptions, commands: Commands, report: Reporter) -> None:
    """Be a member until told to leave."""
    membership = Membership(options, report)
    committed: dict[int, int] = {}
    due = time.monotonic()
    try:
        while not commands.leaving:
            membership.poll()
            if time.monotonic() >= due and membership.positions != committed:
                membership.commit()
                committed = dict(membership.positions)
                due = time.monotonic() + COMMIT_SECONDS
    finally:
        membership.consumer.close()


if __name__ == "__main__":
    serve(member)
