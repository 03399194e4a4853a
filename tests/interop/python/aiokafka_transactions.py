"""The transactional program built on aiokafka; `transaction_program` describes it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.support.transaction_program import DEADLINE_SECONDS, ReadRecord, Wanted, records_to_send, serve

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

T = TypeVar("T")


class AiokafkaTransactions:
    """Producers by name, in an event loop of a thread of its own, which goes on between commands."""

    def __init__(self) -> None:
        self._producers: dict[str, AIOKafkaProducer] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, DEADLINE_SECONDS), self._loop).result()

    def open(self, *, producer: str, bootstrap: str, id: str, timeout: str, **_: str) -> None:
        """InitProducerId."""

        async def start() -> AIOKafkaProducer:
            made = AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=id, transaction_timeout_ms=int(timeout)
            )
            await made.start()
            return made

        self._producers[producer] = self._run(start())

    def begin(self, *, producer: str) -> None:
        """Only known to the client."""
        self._run(self._producers[producer].begin_transaction())

    def send(self, *, producer: str, topic: str, partitions: str, count: str, tag: str) -> None:
        """Send and flush."""

        async def send() -> None:
            made = self._producers[producer]
            sent = [
                await made.send(topic, value=value, key=key, partition=partition)
                for partition, key, value in records_to_send(partitions, count, tag)
            ]
            await asyncio.gather(*sent)

        self._run(send())

    def offsets(self, *, producer: str, group: str, topic: str, position: str) -> None:
        """In the name of a group without members."""
        wanted = {TopicPartition(topic, 0): int(position)}
        self._run(self._producers[producer].send_offsets_to_transaction(wanted, group))

    def commit(self, *, producer: str) -> None:
        """Commit."""
        self._run(self._producers[producer].commit_transaction())

    def abort(self, *, producer: str) -> None:
        """Abort."""
        self._run(self._producers[producer].abort_transaction())

    def close(self, *, producer: str) -> None:
        """Forget the producer."""
        self._run(self._producers.pop(producer).stop())

    def read(self, bootstrap: str, isolation: str, wanted: Wanted) -> Iterator[ReadRecord]:
        """Read every wanted partition."""

        async def read() -> list[ReadRecord]:
            places = [TopicPartition(*place) for place in wanted.slots]
            consumer = AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=None,
                enable_auto_commit=False,
                isolation_level=isolation,
            )
            await consumer.start()
            records: list[ReadRecord] = []
            try:
                consumer.assign(places)
                for place in places:
                    consumer.seek(place, 0)
                while wanted.missing:
                    for (topic, partition), messages in (await consumer.getmany(timeout_ms=200)).items():
                        for each in messages:
                            wanted.arrived((topic, partition), each.offset)
                            records.append((topic, partition, each.offset, each.key, each.value))
            finally:
                await consumer.stop()
            return records

        return iter(self._run(read()))


if __name__ == "__main__":
    serve(AiokafkaTransactions())
