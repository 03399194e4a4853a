"""The transactional program built on kcli's own client; `transaction_program` describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client.admin.types import CommittedOffset
from kcli.client.client import connect
from kcli.client.config import ConsumerConfig, ProducerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.groups.classic_membership import GroupMetadata
from kcli.client.producer.producer import Producer
from kcli.protocol.topics import TopicPartition
from tests.support.transaction_program import DEADLINE_SECONDS, ReadRecord, Wanted, records_to_send, serve

if TYPE_CHECKING:
    from collections.abc import Iterator


class Running(NamedTuple):
    """A producer, and what ends the task that it lives in."""

    producer: Producer
    scope: trio.CancelScope


class KcliTransactions:
    """Producers by name, in tasks of the nursery; the commands come from another thread."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._producers: dict[str, Running] = {}

    def open(self, *, producer: str, bootstrap: str, id: str, timeout: str, **_: str) -> None:
        """InitProducerId."""
        config = ProducerConfig(transactional_id=id, transaction_timeout_ms=int(timeout))
        self._producers[producer] = trio.from_thread.run(self._nursery.start, _run, bootstrap, config)
        trio.from_thread.run(self._producers[producer].producer.init_transactions)

    def begin(self, *, producer: str) -> None:
        """Only known to the client."""
        trio.from_thread.run(self._producers[producer].producer.begin_transaction)

    def send(self, *, producer: str, topic: str, partitions: str, count: str, tag: str) -> None:
        """Send and flush."""

        async def send() -> None:
            made = self._producers[producer].producer
            sent = [
                await made.send(topic, value, key, partition=partition)
                for partition, key, value in records_to_send(partitions, count, tag)
            ]
            await made.flush()
            for delivery in sent:
                if delivery.error is not None:
                    raise delivery.error

        trio.from_thread.run(send)

    def offsets(self, *, producer: str, group: str, topic: str, position: str) -> None:
        """In the name of a group without members."""
        wanted = {TopicPartition(topic, 0): CommittedOffset(int(position))}
        member = GroupMetadata(group, -1, "", None)
        trio.from_thread.run(self._producers[producer].producer.send_offsets, wanted, member)

    def commit(self, *, producer: str) -> None:
        """Commit."""
        trio.from_thread.run(self._producers[producer].producer.commit_transaction)

    def abort(self, *, producer: str) -> None:
        """Abort."""
        trio.from_thread.run(self._producers[producer].producer.abort_transaction)

    def close(self, *, producer: str) -> None:
        """End the producer's task."""
        trio.from_thread.run_sync(self._producers.pop(producer).scope.cancel)

    def read(self, bootstrap: str, isolation: str, wanted: Wanted) -> Iterator[ReadRecord]:
        """Read every wanted partition."""

        async def read() -> list[ReadRecord]:
            places = [TopicPartition(*place) for place in wanted.slots]
            config = ConsumerConfig(isolation_level=isolation, fetch_max_wait_ms=100)
            records: list[ReadRecord] = []
            with trio.fail_after(DEADLINE_SECONDS):
                async with connect(bootstrap) as client, Consumer(client, config) as consumer:
                    consumer.assign(places)
                    for place in places:
                        consumer.seek(place, 0)
                    while wanted.missing:
                        for fetched in await consumer.poll():
                            topic, partition = fetched.partition
                            for each in fetched.records:
                                wanted.arrived((topic, partition), each.offset)
                                records.append((topic, partition, each.offset, each.key, each.value))
            return records

        return iter(trio.from_thread.run(read))


async def _run(
    bootstrap: str, config: ProducerConfig, task_status: trio.TaskStatus[Running] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.CancelScope() as scope:
        async with connect(bootstrap) as client, Producer(client, config) as producer:
            task_status.started(Running(producer, scope))
            await trio.sleep_forever()


async def _main() -> None:
    async with trio.open_nursery() as nursery:
        await trio.to_thread.run_sync(serve, KcliTransactions(nursery))
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(_main)
