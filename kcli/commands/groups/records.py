"""Reads records through a consumer: those of groups in `__consumer_offsets`, and timestamps at offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
"""Every key begins with an int16 type and the name of its group, whose length is at 2."""

MOST_RECORDS = 5_000
POLL_MS = 1_000
PATIENCE_S = 30

DEFAULT_TIMEOUT_MS = 30_000

FETCH_BYTES = 4096
"""One batch is enough, and a broker sends at least one whatever its size."""

TIMES_POLL_MS = 200


async def read_histories(
    client: Client,
    names: Iterable[str],
    *,
    with_commits: bool,
    commits_since_ms: int = 0,
    timeout_ms: int | None = None,
) -> tuple[dict[str, GroupHistory], list[KcliError]]:
    """Return the history of each group, and the errors of damaged records.

    Past commits may be many: they are kept only `with_commits`, from `commits_since_ms` on. Aborted
    transactions do not count, nor does what follows the beginning of an open one.
    """
    described = (await admin.describe_topics(client, [OFFSETS_TOPIC], timeout_ms=timeout_ms))[OFFSETS_TOPIC]
    if isinstance(described, KcliError):
        raise described
    histories = {
        name: GroupHistory(name, keeps_commits=with_commits, commits_since_ms=commits_since_ms)
        for name in names
    }
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
    """Tell whether the consumer has returned everything up to the end offsets."""
    return all((consumer.position_nowait(partition) or 0) >= end for partition, end in ends.items())


class Patience:
    """Gives up on a broker that sends no more records."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._positions: list[int | None] = []
        self._deadline = 0.0

    def check(self) -> None:
        """Raise `KcliError` if the positions have not changed for `PATIENCE_S`."""
        positions = [self._consumer.position_nowait(partition) for partition in self._consumer.assignment]
        if positions != self._positions:
            self._positions, self._deadline = positions, trio.current_time() + PATIENCE_S
        elif trio.current_time() > self._deadline:
            raise KcliError(
                f"no records of {OFFSETS_TOPIC} came for {PATIENCE_S} seconds",
                hint=f"`kcli topics describe {OFFSETS_TOPIC}` shows which partitions have a leader",
            )


def take(records: Collection[Record], histories: dict[str, GroupHistory]) -> list[KcliError]:
    """Apply records to the histories of their groups; return the errors of damaged ones."""
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


async def first_timestamps(
    client: Client,
    positions: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int | None]:
    """Return the time of the first record from each position on: None without one, missing without answer."""
    found: dict[TopicPartition, int | None] = {}
    wanted = [TopicPartition(*partition) for partition in positions]
    if not wanted:
        return found
    config = ConsumerConfig(max_partition_fetch_bytes=FETCH_BYTES, fetch_max_wait_ms=TIMES_POLL_MS)
    with trio.move_on_after((DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000):
        async with Consumer(client, config) as consumer:
            consumer.assign(wanted)
            for partition in wanted:
                consumer.seek(partition, positions[partition])
            while wanted:
                for fetched in await consumer.poll(timeout_ms=TIMES_POLL_MS):
                    found.setdefault(fetched.partition, fetched.records[0].timestamp)
                for partition in wanted:
                    position = consumer.position_nowait(partition)
                    if position is not None and position >= ends[partition]:
                        found.setdefault(partition, None)
                wanted = [partition for partition in wanted if partition not in found]
                consumer.assign(wanted)
    return found
