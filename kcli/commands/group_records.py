"""Reading the records of groups from their partition of `__consumer_offsets`, over the wire."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from kcli.client import admin
from kcli.client.config import ConsumerConfig
from kcli.client.consumer import Consumer
from kcli.client.metadata import TopicPartition
from kcli.commands.group_history import GroupHistory
from kcli.errors import KcliError
from kcli.protocol.coordinator_records import UnknownRecordType, decode_record
from kcli.protocol.group_partition import partition_for
from kcli.protocol.schema import DecodeError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.record import Record

OFFSETS_TOPIC = "__consumer_offsets"

GROUP_POSITION = 4
"""Every key begins with an int16 type and the name of its group."""

MOST_RECORDS = 5_000


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
        while not await reached(consumer, ends):
            for fetched in await consumer.poll(MOST_RECORDS, timeout_ms=1000):
                failures += take(fetched.records, histories)
    return histories, failures


async def reached(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    """Tell whether everything up to the end offsets has been handed out."""
    for partition, end in ends.items():
        if end > 0 and await consumer.position(partition) < end:
            return False
    return True


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
