"""The group member built on confluent-kafka (librdkafka); `tests.support.member_program` describes it."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.support.member_program import (
    COMMIT_SECONDS,
    POLL_RECORDS,
    POLL_SECONDS,
    Commands,
    JoinOptions,
    Reporter,
    serve,
)


def config(options: JoinOptions) -> dict[str, Any]:
    """The consumer's configuration."""
    common: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "client.id": options.client,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
        "log_level": 3,
    }
    if options.instance:
        common["group.instance.id"] = options.instance
    if options.assignor == "consumer":
        return common | {"group.protocol": "consumer"}
    return common | {
        "partition.assignment.strategy": options.assignor,
        "session.timeout.ms": options.session,
        "heartbeat.interval.ms": options.heartbeat,
    }


class Membership:
    """One membership: what was polled, printed and committed."""

    def __init__(self, options: JoinOptions, report: Reporter) -> None:
        self.topic = options.topic
        self.report = report
        self.polled: list[Message] = []
        self.positions: dict[int, int] = {}
        self.consumer = Consumer(config(options))
        self.consumer.subscribe(
            [options.topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost
        )

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Called within a poll."""
        self.report.assigned(each.partition for each in partitions)

    def revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Called within a poll, after which the partitions are no longer ours."""
        self.print()
        given = {each.partition for each in partitions}
        self.commit({number: self.positions.pop(number) for number in given & self.positions.keys()})
        self.report.revoked(given)

    def lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Called within a poll."""
        self.print()
        for each in partitions:
            self.positions.pop(each.partition, None)
        self.report.lost(each.partition for each in partitions)

    def print(self) -> None:
        """Report what was polled."""
        by_partition: dict[int, list[Message]] = {}
        for message in self.polled:
            by_partition.setdefault(message.partition() or 0, []).append(message)
        self.polled.clear()
        for number, messages in by_partition.items():
            offsets = [message.offset() or 0 for message in messages]
            self.report.records(number, offsets, [(message.value() or b"").decode() for message in messages])
            self.positions[number] = offsets[-1] + 1

    def commit(self, positions: dict[int, int]) -> None:
        """Commit and wait for the answer."""
        if not positions:
            return
        wanted = [TopicPartition(self.topic, number, offset) for number, offset in positions.items()]
        try:
            done = self.consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            self.report("refused", reason=str(error))
            return
        refused = [f"{each.partition}: {each.error}" for each in done or () if each.error is not None]
        if refused:
            self.report("refused", reason=", ".join(refused))
        else:
            self.report.committed(positions)

    def poll(self) -> None:
        """Poll what there is, and print it."""
        message = self.consumer.poll(POLL_SECONDS)
        while message is not None:
            error = message.error()
            if error is not None and (error.fatal() or error.code() == KafkaError._FATAL):
                raise KafkaException(error)
            if error is None:
                self.polled.append(message)
            message = self.consumer.poll(0) if len(self.polled) < POLL_RECORDS else None
        self.print()

    def give_up(self) -> None:
        """Leave the group once its partitions are given up.

        A close that meets a revocation of which nobody was told sends LeaveGroup at once. The callback runs
        beside the end of the membership then: its commit is a stranger's, and if the end comes first the
        library waits for ever to get the partitions back (librdkafka #4884).
        """
        self.consumer.unsubscribe()
        self.poll()
        while self.consumer.assignment():
            self.poll()


def member(options: JoinOptions, commands: Commands, report: Reporter) -> None:
    """Be a member until told to leave."""
    membership = Membership(options, report)
    committed: dict[int, int] = {}
    due = time.monotonic()
    try:
        while not commands.leaving:
            membership.poll()
            if time.monotonic() >= due and membership.positions != committed:
                committed = dict(membership.positions)
                membership.commit(committed)
                due = time.monotonic() + COMMIT_SECONDS
        if not options.instance:
            membership.give_up()
    finally:
        membership.consumer.close()


if __name__ == "__main__":
    serve(member)
