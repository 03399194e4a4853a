"""Reading the records of groups from their partition of `__consumer_offsets`, over the wire."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import trio

from kcli.client import admin
from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.commands.groups.history import GroupHistory
from kcli.errors import KcliError
from kcli.protocol.internal.coordinator_records import UnknownRecordType, decode_record
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.topics import TopicPartition, partition_for

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.records.record import Record

OFFSETS_TOPIC = "__consumer_offsets"

GROUP_POSITION = 4
"""Every key begins with an int16 type and the name of its group."""

MOST_RECORDS = 5_000
POLL_MS = 1_000
PATIENCE_S = 30


async def read_histories(
    client: Client, names: Iterable[str], *, with_commits: bool, timeout_ms: int | None = None
) -> tuple[dict[str, GroupHistory], list[KcliError]]:
    """Return what the records say of each group, and which of them are damaged.

    Past commits are only kept `with_commits`: there may be very many. Records of transactions that were
    aborted, or are not settled yet, do not count.
    """
    described = (await admin.describe_topics(client, [OFFSETS_TOPIC], timeout_ms=timeout_ms))[OFFSETS_TOPIC]
    if isinstance(described, KcliError):
        raise described
    histories = {name: GroupHistory(name, keeps_commits=with_commits) for name in names}
    count = len(described.partitions)
    wanted = {TopicPartition(OFFSETS_TOPIC, partition_for(name, count)) for name in histories}
    config = ConsumerConfig(auto_offset_reset="earliest", isolation_level="read_committed")
    failures: list[KcliError] = []
    async with Consumer(client, config) as consumer:
        ends = await consumer.end_offsets(wanted)
        consumer.assign(wanted)
        patience = Patience(consumer)
        while not reached(consumer, ends):
            for fetched in await consumer.poll(MOST_RECORDS, timeout_ms=POLL_MS):
                failures += take(fetched.records, histories)
            patience.check()
    return histories, failures


def reached(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    """Tell whether everything up to the end offsets has been handed out."""
    return all((consumer.position_nowait(partition) or 0) >= end for partition, end in ends.items())


class Patience:
    """Gives up on a broker that sends nothing any more."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._positions: list[int | None] = []
        self._deadline = 0.0

    def check(self) -> None:
        """Raise `KcliError` when the positions have stayed where they are for too long."""
        positions = [self._consumer.position_nowait(partition) for partition in self._consumer.assignment]
        if positions != self._positions:
            self._positions, self._deadline = positions, trio.current_time() + PATIENCE_S
        elif trio.current_time() > self._deadline:
            raise KcliError(
                f"the records of {OFFSETS_TOPIC} do not come: none for {PATIENCE_S} seconds",
                hint=f"`kcli topics describe {OFFSETS_TOPIC}` shows which partitions have a leader",
            )


def take(records: Collection[Record], histories: dict[str, GroupHistory]) -> list[KcliError]:
    """Give records to the histories they are about; return what is wrong with those that are damaged."""
    wanted = {name.encode(): history for name, history in histories.items()}
    failures = []
    for record in records:
        key = record.key or b""
        end = GROUP_POSITION + int.from_bytes(key[2:GROUP_POSITION])
        history = wanted.get(key[GROUP_POSITION:end])
        if history is None:
            continue
        try:
            history.apply(decode_record(key, record.value), record.timestamp)
        except UnknownRecordType:
            continue
        except DecodeError as error:
            failures.append(KcliError(f"{OFFSETS_TOPIC}, offset {record.offset}: {error.message}"))
    return failures
