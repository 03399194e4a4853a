"""Produce: checks in their order, acks, old formats, idempotence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.metadata.metadata_image import PartitionRegistration
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.batch_header import update_crc
from kcli.protocol.records.message_set import MessageSetBuilder
from tests.broker.records import batch, fetch_request, fetched, produce_request, produced, values
from tests.broker.single_node import NODE_ID, START_MS, connected, running_node
from tests.storage.log_harness import with_a_long_value

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN_ID = bytes(range(16))


def with_codec(data: bytes, codec: int) -> bytearray:
    changed = bytearray(with_byte(data, 22, codec))
    update_crc(changed, 0)
    return changed


def with_byte(data: bytes, position: int, value: int) -> bytes:
    changed = bytearray(data)
    changed[position] = value
    return bytes(changed)


def with_length(data: bytes, length: int) -> bytes:
    return data[:8] + length.to_bytes(4, "big") + data[12:]


REFUSED = [
    ("unknown topic", produce_request("no", batch(b"v")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("unknown partition", produce_request("t", batch(b"v"), index=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("negative partition", produce_request("t", batch(b"v"), index=-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("no records", produce_request("t", None), ErrorCode.INVALID_RECORD),
    ("empty records", produce_request("t", b""), ErrorCode.INVALID_RECORD),
    ("two batches", produce_request("t", batch(b"v") * 2), ErrorCode.INVALID_RECORD),
    ("an entry without a length", produce_request("t", bytes(100)), ErrorCode.CORRUPT_MESSAGE),
    ("an entry without a length behind", produce_request("t", batch(b"v") + bytes(12)), 2),
    ("an entry of magic 3 behind", produce_request("t", batch(b"v") + with_byte(batch(b"v"), 16, 3)), 2),
    ("the longest length", produce_request("t", with_length(batch(b"v"), 2**31 - 1)), -1),
    (
        "no zstd data",
        produce_request("t", bytes(with_codec(with_length(batch(b"v")[:61], 61 - 12), 4))),
        ErrorCode.INVALID_RECORD,
    ),
    ("magic 1", produce_request("t", with_byte(batch(b"v"), 16, 1)), ErrorCode.INVALID_RECORD),
    ("cut", produce_request("t", batch(b"v")[:-1]), ErrorCode.INVALID_RECORD),
    ("flipped", produce_request("t", batch(b"v")[:-1] + b"\x07"), ErrorCode.CORRUPT_MESSAGE),
    ("too large", produce_request("t", batch(b"v" * 1_048_600)), ErrorCode.MESSAGE_TOO_LARGE),
    ("no key", produce_request("compacted", batch(b"v", key=None)), ErrorCode.INVALID_RECORD),
    (
        "from the future",
        produce_request("t", batch(b"v", timestamp=START_MS + 3_600_001)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    (
        "transactional",
        produce_request(
            "t", batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        ),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (
        "an unknown codec",
        produce_request("t", bytes(with_codec(batch(b"v"), 5))),
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
    (
        "another codec",
        produce_request("t", bytes(with_codec(batch(b"v"), 3))),
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
]


@pytest.mark.parametrize(("name", "request_", "error"), REFUSED, ids=[name for name, *_ in REFUSED])
async def test_what_is_refused_leaves_no_trace(
    name: str, request_: ProduceRequest, error: ErrorCode, tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        node.create_topic("compacted", cleanup_policy="compact")
        row = produced(await client.ask(request_, 9))
        assert (ErrorCode(row.error_code), row.base_offset) == (error, -1)
        assert row.error_message
        assert all(log.log_end_offset == 0 for log in node.log_manager)


@pytest.mark.parametrize("version", [3, 6, 7, 12])
async def test_an_unknown_codec_is_an_unexpected_error(version: int, tmp_path: Path) -> None:
    """Kafka's code, which does not expect it either."""
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        for codec in (5, 6, 7):
            row = produced(await client.ask(produce_request("t", with_codec(batch(b"v"), codec)), version))
            assert row.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_transactional_batch_without_an_id_fails_the_whole_request(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", partitions=2)
        request = produce_request("t", batch(b"a"))
        marked = batch(b"b", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=marked))
        response = await client.ask(request, 9)
        assert {row.error_code for row in response.responses[0].partition_responses} == {
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        }
        assert all(log.log_end_offset == 0 for log in node.log_manager)


@pytest.mark.parametrize("count", [3, 148, 149, 1000, 9000])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
async def test_a_malformed_record_is_refused_at_every_size(count: int, codec: Codec, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", max_message_bytes="10000000")
        row = produced(await client.ask(produce_request("t", with_a_long_value(count, codec)), 7))
        assert (row.error_code, row.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert node.replica_manager.partition("t", 0).log.log_end_offset == 0


@pytest.mark.parametrize("acks", [2, -2, 32767])
async def test_other_acks_are_refused(acks: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        response = await client.ask(produce_request("t", batch(b"v"), acks=acks), 9)
        assert produced(response).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        assert node.replica_manager.partition("t", 0).log.log_end_offset == 0
        response = await client.ask(produce_request("no", batch(b"v"), acks=acks), 9)
        assert produced(response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response = await client.ask(produce_request("t", batch(b"v")[:-1], acks=acks), 9)
        assert produced(response).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("is_topic_repeated", [False, True])
async def test_of_a_partition_that_is_named_twice_the_last_batch_counts(
    is_topic_repeated: bool, tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", partitions=2)
        rows = [
            PartitionProduceData(index=index, records=batch(value))
            for index, value in ((0, b"a"), (1, b"b"), (0, b"c"))
        ]
        parts = [[row] for row in rows] if is_topic_repeated else [rows]
        topics = [TopicProduceData(name="t", partition_data=part) for part in parts]
        response = await client.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 9)
        assert [
            [(row.index, row.error_code, row.base_offset) for row in topic.partition_responses]
            for topic in response.responses
        ] == [[(0, 0, 0), (1, 0, 0)]]
        assert values(fetched(await client.ask(fetch_request("t"), 12))) == [(0, b"c")]


async def test_a_bad_record_is_named(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("compacted", cleanup_policy="compact")
        row = produced(await client.ask(produce_request("compacted", batch(b"a", b"b", key=None)), 9))
        assert [error.batch_index for error in row.record_errors] == [0, 1]


@pytest.mark.parametrize(
    ("version", "error"), [(3, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (6, 76), (7, 0), (13, 0)]
)
async def test_zstd_needs_version_7(version: int, error: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t")
        request = produce_request("t", batch(b"v" * 1000, codec=Codec.ZSTD))
        if version >= 13:
            request.topic_data[0].topic_id, request.topic_data[0].name = topic.topic_id, ""
        assert produced(await client.ask(request, version)).error_code == error


async def test_a_bad_partition_does_not_fail_its_neighbours(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", partitions=2)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[
                        PartitionProduceData(index=0, records=batch(b"a")),
                        PartitionProduceData(index=7, records=batch(b"b")),
                        PartitionProduceData(index=1, records=batch(b"c")),
                    ],
                ),
                TopicProduceData(
                    name="no", partition_data=[PartitionProduceData(index=0, records=batch(b"d"))]
                ),
            ],
        )
        response = await client.ask(request, 9)
        assert [
            [(row.index, row.error_code, row.base_offset) for row in topic.partition_responses]
            for topic in response.responses
        ] == [[(0, 0, 0), (7, 3, -1), (1, 0, 0)], [(0, 3, -1)]]


async def test_topics_are_named_by_id_from_version_13(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t")
        for topic_id, error in [(topic.topic_id, 0), (UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID)]:
            request = ProduceRequest(
                acks=1,
                timeout_ms=1000,
                topic_data=[
                    TopicProduceData(
                        topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=batch(b"a"))]
                    )
                ],
            )
            response = await client.ask(request, 13)
            assert (response.responses[0].topic_id, produced(response).error_code) == (topic_id, error)


async def test_acks_0_is_not_answered(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        for number in range(3):
            await client.send(produce_request("t", batch(b"%d" % number), acks=0), 9)
        response = await client.ask(fetch_request("t"), 12)
        assert values(fetched(response)) == [(0, b"0"), (1, b"1"), (2, b"2")]


@pytest.mark.parametrize("topic", ["no", "t"])
async def test_a_failure_with_acks_0_closes_the_connection(topic: str, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await client.send(produce_request(topic, batch(b"v")[:-1], acks=0), 9)
        assert await client.is_closed()


async def test_append_time_is_answered(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", message_timestamp_type="LogAppendTime")
        row = produced(await client.ask(produce_request("t", batch(b"v", timestamp=5)), 9))
        assert row.log_append_time_ms == START_MS


# --- old formats ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
async def test_message_sets_are_converted_up(version: int, magic: int, codec: Codec, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        builder = MessageSetBuilder(magic, codec=codec)
        for value in (b"a", None, b"c"):
            builder.append(START_MS if magic else -1, b"k", value)
        for base_offset in (0, 3):
            row = produced(await client.ask(produce_request("t", builder.build()), version))
            assert (row.error_code, row.base_offset) == (0, base_offset)
        data = fetched(await client.ask(fetch_request("t"), 12))
        assert values(data) == [(0, b"a"), (1, None), (2, b"c"), (3, b"a"), (4, None), (5, b"c")]
        batches = list(iter_batches(bytes(data.records)))
        assert [each.magic for each in batches] == [2, 2]
        assert {each.max_timestamp for each in batches} == {START_MS if magic else -1}


async def test_an_empty_message_set_writes_nothing(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        row = produced(await client.ask(produce_request("t", b""), 2))
        assert (row.error_code, row.base_offset) == (0, -1)


# --- idempotence ---------------------------------------------------------------------------------


async def test_a_repeated_batch_gets_its_first_offset(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")

        async def send(sequence: int, epoch: int = 0, count: int = 2) -> tuple[int, int]:
            records = batch(*[b"v"] * count, producer_id=9, producer_epoch=epoch, base_sequence=sequence)
            row = produced(await client.ask(produce_request("t", records), 9))
            return row.error_code, row.base_offset

        assert [await send(sequence) for sequence in (0, 2, 4)] == [(0, 0), (0, 2), (0, 4)]
        assert [await send(sequence) for sequence in (2, 0, 4)] == [(0, 2), (0, 0), (0, 4)]
        assert (await send(8))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await send(0, epoch=1) == (0, 6)
        assert (await send(6, epoch=0))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await send(2, epoch=2))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


# --- acks=all with followers ---------------------------------------------------------------------


def with_follower(node: Any, *, isr: tuple[int, ...] = (NODE_ID, 2), epoch: int = 1) -> Any:
    """Give the topic's partition a follower that is not there."""
    partition = node.replica_manager.partition("t", 0)
    partition.apply(
        PartitionRegistration(
            replicas=(NODE_ID, 2), isr=isr, leader=NODE_ID, leader_epoch=0, partition_epoch=epoch
        )
    )
    return partition


async def test_acks_all_waits_for_the_followers(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = with_follower(node)
        await client.send(produce_request("t", batch(b"a", b"b"), timeout_ms=60_000), 9)
        while not node.purgatory.parked:
            await trio.lowlevel.checkpoint()
        partition.follower_fetched(2, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert node.purgatory.parked == 1
        partition.follower_fetched(2, 2)
        row = produced((await client.receive(0, 9))[1])
        assert (row.error_code, row.base_offset) == (0, 0)


async def test_acks_all_ends_with_a_timeout_and_keeps_the_records(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = with_follower(node)
        row = produced(await client.ask(produce_request("t", batch(b"a"), timeout_ms=10), 9))
        assert row.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 0)


async def test_acks_all_ends_when_the_leader_moves(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        partition = with_follower(node)
        await client.send(produce_request("t", batch(b"a"), timeout_ms=60_000), 9)
        while not node.purgatory.parked:
            await trio.lowlevel.checkpoint()
        partition.apply(
            PartitionRegistration(
                replicas=(NODE_ID, 2), isr=(2,), leader=2, leader_epoch=1, partition_epoch=2
            )
        )
        row = produced((await client.receive(0, 9))[1])
        assert (row.error_code, row.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_acks_all_needs_enough_replicas_in_sync(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", min_insync_replicas="2")
        partition = with_follower(node, isr=(NODE_ID,))
        row = produced(await client.ask(produce_request("t", batch(b"a")), 9))
        assert (row.error_code, partition.log.log_end_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, 0)
        # With acks=1 it is written, but stays invisible (KIP-966).
        row = produced(await client.ask(produce_request("t", batch(b"a"), acks=1), 9))
        assert (row.error_code, partition.log.high_watermark) == (0, 0)


async def test_a_large_request_lets_others_in_between(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        node.create_topic("t", partitions=40)
        node.create_topic("other")
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[
                        PartitionProduceData(index=index, records=batch(b"v" * 1_000_000))
                        for index in range(40)
                    ],
                )
            ],
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, request, 9)
            for number in range(20):
                response = await other.ask(produce_request("other", batch(b"v")), 9)
                assert produced(response).base_offset == number
        _, response = await client.receive(0, 9)
        rows = response.responses[0].partition_responses
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0)] * 40
