"""The topic of an import: found or created, fit to hold the records, unchanged since the last run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from kcli.client import admin
from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.uuids import uuid_to_text
from kcli.spark.importing.import_state import RESTART_HINT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.client.client import Client
    from kcli.spark.importing.import_state import PartitionPlan
    from kcli.spark.importing.stored_records import Rows

LOOK_SECONDS = 30.0
"""How long to wait for the record that a resumed import compares."""

LEADER_SECONDS = 30.0
"""How long a new topic may be without leaders."""

KEEP_FOREVER = {"retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "CreateTime"}
"""Imported records may be old: the topic must not delete them at once."""


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic now; `topic_id` is None for brokers without topic ids."""

    name: str
    topic_id: str | None
    partitions: tuple[int, ...]
    configs: Mapping[str, str | None]


async def find_topic(client: Client, name: str) -> TargetTopic | None:
    found = (await admin.describe_topics(client, [name]))[name]
    if isinstance(found, KafkaError):
        if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise KcliError(f"cannot describe topic `{name}`: {found.message}", hint=found.hint)
    resource = admin.ConfigResource(admin.ConfigResourceType.TOPIC, name)
    entries = (await admin.describe_configs(client, [resource]))[resource]
    # Without permission to see them one may still write.
    configs = {} if isinstance(entries, KafkaError) else {entry.name: entry.value for entry in entries}
    identity = uuid_to_text(found.topic_id) if any(found.topic_id) else None
    return TargetTopic(name, identity, tuple(part.partition for part in found.partitions), configs)


async def create_topic(client: Client, name: str, partitions: int) -> TargetTopic:
    """Create the topic with unlimited retention; wait until it can be written."""
    wanted = admin.NewTopic(name, partitions, configs=KEEP_FOREVER)
    created = (await admin.create_topics(client, [wanted]))[name]
    if isinstance(created, KafkaError):
        raise KcliError(f"cannot create topic `{name}`: {created.message}", hint=created.hint)
    with trio.move_on_after(LEADER_SECONDS):
        while True:
            found = await find_topic(client, name)
            if found is not None and len(found.partitions) == partitions:
                return found
            await trio.sleep(0.1)
    raise KcliError(f"topic `{name}` was created and is not there yet", hint="try again in a moment")


def check_topic(topic: TargetTopic, partitions: Iterable[int]) -> None:
    """Raise `KcliError` unless the topic has the partitions, and keeps the timestamps, of the records."""
    missing = sorted(set(partitions) - set(topic.partitions))
    if missing:
        raise KcliError(
            f"topic `{topic.name}` has no partition {missing[0]}, it has {len(topic.partitions)}",
            hint=f"kcli topics alter {topic.name} --partitions {missing[-1] + 1}",
        )
    if topic.configs.get("message.timestamp.type") == "LogAppendTime":
        raise KcliError(
            f"topic `{topic.name}` gives records times of its own: `message.timestamp.type` is LogAppendTime",
            hint=f"kcli configs alter {topic.name} --add message.timestamp.type=CreateTime",
        )


def retention_warning(topic: TargetTopic, oldest_ms: int | None, now_ms: int) -> str | None:
    """Return a warning if the broker will delete records because of their age."""
    try:
        retention_ms = int(topic.configs.get("retention.ms") or -1)
    except ValueError:
        return None
    deletes = "delete" in (topic.configs.get("cleanup.policy") or "delete")
    if oldest_ms is None or not deletes or not 0 <= retention_ms < now_ms - oldest_ms:
        return None
    return (
        f"topic `{topic.name}` deletes records older than {retention_ms} ms, and some of these are: "
        f"kcli configs alter {topic.name} --add retention.ms=-1"
    )


async def end_offsets(client: Client, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    wanted = {admin.TopicPartition(topic, partition): admin.LATEST for partition in partitions}
    ends = {}
    for partition, found in (await admin.list_offsets(client, wanted)).items():
        if isinstance(found, KafkaError):
            raise KcliError(f"cannot find the end of {partition}: {found.message}", hint=found.hint)
        ends[partition.partition] = found.offset
    return ends


async def check_last(client: Client, topic: str, plan: PartitionPlan, expected: Rows) -> None:
    """Raise `KcliError` unless the last record of a partition is the one that was sent last.

    A record that compaction has removed proves nothing.
    """
    offset = plan.base + plan.done - 1
    found = await record_at(client, admin.TopicPartition(topic, plan.partition), offset)
    if found is not None and found != next(zip(*expected, strict=True)):
        raise KcliError(
            f"the record at offset {offset} of partition {plan.partition} of `{topic}` is not the one that "
            "was sent there: another producer writes to it",
            hint=RESTART_HINT,
        )


async def record_at(
    client: Client, partition: admin.TopicPartition, offset: int
) -> tuple[object, ...] | None:
    """Return key, value, timestamp and headers of a record, None without a record at the offset."""
    async with Consumer(client, ConsumerConfig(auto_offset_reset="none")) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        with trio.move_on_after(LOOK_SECONDS):
            try:
                return await _found_at(consumer, partition, offset)
            except KafkaError as error:
                if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    return None  # the topic has deleted it meanwhile
                raise
    raise KcliError(f"cannot read the record at offset {offset} of {partition}: no answer in time")


async def _found_at(
    consumer: Consumer, partition: admin.TopicPartition, offset: int
) -> tuple[object, ...] | None:
    while (consumer.position_nowait(partition) or 0) <= offset:
        for fetched in await consumer.poll():
            for record in fetched.records:
                if record.offset == offset:
                    headers = tuple((name, _bytes(content)) for name, content in record.headers)
                    return _bytes(record.key), _bytes(record.value), record.timestamp, headers
    return None


def _bytes(content: object) -> bytes | None:
    return None if content is None else bytes(content)  # type: ignore[call-overload]
