"""The topic that records come back to: made as it must be, refused as it must not be, and looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.client import admin
from kcli.client.client import Client, connect
from kcli.client.config import ClientConfig, ProducerConfig
from kcli.client.producer.producer import Producer
from kcli.errors import KcliError
from kcli.spark.importing.import_state import PartitionPlan
from kcli.spark.importing.import_target import (
    TargetTopic,
    check_last,
    check_topic,
    create_topic,
    end_offsets,
    find_topic,
    record_at,
    retention_warning,
)
from kcli.spark.importing.stored_records import Rows
from tests.support.running_cluster import running_cluster

FIRST = admin.TopicPartition("copy", 0)


def topic(*partitions: int, **configs: str) -> TargetTopic:
    return TargetTopic(
        "copy", "id", partitions or (0,), {name.replace("_", "."): value for name, value in configs.items()}
    )


async def send(client: Client, *values: bytes) -> None:
    async with Producer(client, ProducerConfig()) as producer:
        for number, value in enumerate(values):
            await producer.send(
                "copy", value, b"k", partition=0, timestamp=1000 + number, headers=[("h", None)]
            )


async def test_a_topic_is_made_to_keep_what_it_is_given(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        connect(cluster.bootstrap_servers[0], ClientConfig()) as client,
    ):
        assert await find_topic(client, "copy") is None
        made = await create_topic(client, "copy", 3)
        assert (made.partitions, made.configs["retention.ms"], made.configs["message.timestamp.type"]) == (
            (0, 1, 2), "-1", "CreateTime",
        )  # fmt: skip
        assert made == await find_topic(client, "copy")
        with pytest.raises(KcliError, match="cannot create topic `a/b`"):
            await create_topic(client, "a/b", 3)

        await send(client, b"a", b"b", b"c")
        assert await end_offsets(client, "copy", [0, 2]) == {0: 3, 2: 0}
        assert await record_at(client, FIRST, 1) == (b"k", b"b", 1001, (("h", None),))
        rows = Rows([b"k"], [b"b"], [1001], [(("h", None),)])
        await check_last(client, "copy", PartitionPlan(0, 0, 9, 2), rows)
        for changed in (
            rows._replace(values=[b"x"]),
            rows._replace(timestamps_ms=[5]),
            rows._replace(headers=[()]),
        ):
            with pytest.raises(
                KcliError, match="the record at offset 1 of partition 0 of `copy` is not the one"
            ):
                await check_last(client, "copy", PartitionPlan(0, 0, 9, 2), changed)

        await admin.delete_records(client, {FIRST: 2})
        assert await record_at(client, FIRST, 1) is None
        await check_last(client, "copy", PartitionPlan(0, 0, 9, 2), rows)


def test_a_topic_must_have_the_partitions_and_keep_the_times() -> None:
    check_topic(topic(0, 1, 2), [0, 2])
    with pytest.raises(KcliError, match="topic `copy` has no partition 2, it has 2") as caught:
        check_topic(topic(0, 1), [0, 2, 4])
    assert caught.value.hint == "kcli topics alter copy --partitions 5"
    with pytest.raises(KcliError, match="times of its own") as caught:
        check_topic(topic(message_timestamp_type="LogAppendTime"), [0])
    assert caught.value.hint == "kcli configs alter copy --add message.timestamp.type=CreateTime"


@pytest.mark.parametrize(
    ("configs", "oldest_ms", "warns"),
    [
        ({"retention_ms": "1000"}, 5000, True),
        ({"retention_ms": "1000"}, 9500, False),
        ({"retention_ms": "1000"}, None, False),
        ({"retention_ms": "-1"}, 5000, False),
        ({"retention_ms": "1000", "cleanup_policy": "compact"}, 5000, False),
        ({"retention_ms": "1000", "cleanup_policy": "compact,delete"}, 5000, True),
        ({}, 5000, False),
    ],
)
def test_who_deletes_by_age_is_warned_of(configs: dict[str, str], oldest_ms: int | None, warns: bool) -> None:
    warning = retention_warning(topic(**configs), oldest_ms, 10_000)
    assert (warning is not None) is warns
