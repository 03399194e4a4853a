"""The short path of one batch to one partition: what it reads, and the same responses as the handler."""

from __future__ import annotations

import os
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.handlers.produce.short_path import FIRST_VERSION, reader
from kcli.broker.handlers.produce.wire import FLEXIBLE_FROM, TOPIC_IDS_FROM, decoder
from kcli.broker.network.apis import APIS, Api
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.schema.declaration import DecodeError, codec
from kcli.protocol.uuids import ZERO_UUID
from tests.broker.records import batch, produce_request
from tests.broker.single_node import START_MS, Node, connected, running_node

VERSIONS = range(FIRST_VERSION, 14)
BEFORE = b"\x00" * 7


def read(data: bytes, version: int) -> Any:
    """Return what the short reader makes of a body, None for another shape."""
    buffer = memoryview(bytearray(BEFORE + data + b"\x00" * 50))
    try:
        found, _ = reader(version)(buffer, len(BEFORE), len(BEFORE) + len(data))
    except DecodeError:
        return None
    if type(found) is not tuple:
        return None
    acks, name, index, records = found[:4]
    return acks, name, index, bytes(records)


def request_of(name: str, index: int, records: bytes, acks: int) -> ProduceRequest:
    rows = [PartitionProduceData(index=index, records=memoryview(records))]
    topic = TopicProduceData(name=name, topic_id=id_of(name), partition_data=rows)
    return ProduceRequest(acks=acks, timeout_ms=5, topic_data=[topic])


def id_of(name: str) -> bytes:
    """Return an id for a topic; a version encodes either this or the name."""
    return md5(name.encode()).digest()


names = st.text("abc._-é", min_size=1, max_size=100)
small_ints = st.integers(-(2**31), 2**31 - 1)


@given(
    version=st.sampled_from(VERSIONS),
    name=names,
    index=small_ints,
    acks=st.sampled_from([-1, 1]),
    size=st.sampled_from([0, 1, 100, 126, 127, 128, 20_000]),
)
def test_one_batch_to_one_partition_is_read(
    version: int, name: str, index: int, acks: int, size: int
) -> None:
    records = bytes(size)
    encoded = codec(ProduceRequest, version).encode(request_of(name, index, records, acks))
    expected = (acks, id_of(name) if version >= TOPIC_IDS_FROM else name.encode(), index, records)
    is_too_long = FLEXIBLE_FROM <= version < TOPIC_IDS_FROM and len(name.encode()) > 126
    assert read(encoded, version) == (None if is_too_long else expected)


@given(
    version=st.sampled_from(VERSIONS),
    name=names,
    changes=st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), max_size=4),
    cut=st.sampled_from([0, 0, 0, 1, 5]),
    more=st.sampled_from([b"", b"", b"", b"\x00"]),
)
def test_what_is_read_is_what_the_request_says(
    version: int, name: str, changes: list[tuple[int, int]], cut: int, more: bytes
) -> None:
    encoded = bytearray(codec(ProduceRequest, version).encode(request_of(name, 3, b"r" * 20, 1)))
    for position, value in changes:
        encoded[position % len(encoded)] = value
    data = bytes(encoded[: len(encoded) - cut]) + more
    found = read(data, version)
    if found is None:
        return
    acks, raw, index, records = found
    request, end = decoder(version)(memoryview(data), 0, len(data))
    assert end == len(data)
    ((topic, topic_id, partitions),) = request.topics
    ((partition, data_of_it),) = partitions
    assert (acks, index, records) == (request.acks, partition, bytes(data_of_it or b""))
    assert raw == topic_id if version >= TOPIC_IDS_FROM else raw.decode(errors="replace") == topic
    assert request.transactional_id is None


REQUESTS = {
    "one record": batch(b"v"),
    "many records": batch(*[b"v" * 100] * 300),
    "a producer's first": batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0),
    "out of order": batch(b"v", producer_id=6, producer_epoch=0, base_sequence=3),
    "transactional": batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
    "flipped": batch(b"v")[:-1] + b"\x07",
    "cut": batch(b"v")[:-1],
    "two": batch(b"v") * 2,
    "none": b"",
    "too large": batch(b"v" * 1_048_600),
    "too late": batch(b"v", timestamp=START_MS + 3_600_001),
}


def without_short_path() -> tuple[Api, ...]:
    """Return the API table without the short path."""
    full = Api("Produce", "produce.handler", decoder="produce.wire.decoder")
    return tuple(full if api.key == 0 else api for api in APIS)


async def answers(directory: Path, version: int, apis: tuple[Api, ...]) -> list[Any]:
    async with running_node(directory, apis=apis) as node, connected(node) as client:
        node.create_topic("t")
        node.create_topic("stamped", message_timestamp_type="LogAppendTime")
        found = []
        for name in ("t", "stamped", "unknown"):
            for records in REQUESTS.values():
                request = produce_request(name, records)
                if version >= TOPIC_IDS_FROM:
                    known = node.image.topics.get(name)
                    request.topic_data[0].name = ""
                    request.topic_data[0].topic_id = id_of(name) if known is None else known.topic_id
                found.append(await client.ask(request, version))
        for response in found:
            # Each node has given its topics ids of its own.
            response.responses[0].topic_id = ZERO_UUID
        return [*found, *(ends(node))]


def ends(node: Node) -> list[object]:
    return [(log.topic_partition, log.log_end_offset, log.high_watermark) for log in node.log_manager]


@pytest.mark.parametrize("version", VERSIONS)
async def test_both_ways_answer_the_same(version: int, tmp_path: Path) -> None:
    for name in ("short", "full"):
        os.mkdir(tmp_path / name)
    short = await answers(tmp_path / "short", version, APIS)
    assert short == await answers(tmp_path / "full", version, without_short_path())
    assert short[0].responses[0].partition_responses[0].error_code == ErrorCode.NONE
