"""Every client produces to a topic of its own; every client reads what every other wrote, without a group."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.clients import CLIENTS, CODECS, Client
from tests.support.producing import create_topic, produce
from tests.support.raw_client import RawClient
from tests.support.records import Shape, TestRecord, decode, encode, generate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.apache_kafka import ApacheKafka
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

RECORDS = int(os.environ.get("KCLI_MATRIX_RECORDS", "10000"))
FEW = RECORDS // 10
SEED = 20260611


@dataclass(frozen=True, slots=True)
class Lane:
    """How the records of one partition are produced."""

    partition: int
    codec: str
    acks: str
    idempotent: bool


LANES = (
    Lane(0, "none", "all", idempotent=False),
    Lane(1, "gzip", "all", idempotent=False),
    Lane(2, "snappy", "all", idempotent=False),
    Lane(3, "lz4", "all", idempotent=False),
    Lane(4, "zstd", "all", idempotent=False),
    Lane(5, "none", "0", idempotent=False),
    Lane(6, "gzip", "1", idempotent=False),
    Lane(7, "none", "all", idempotent=True),
    Lane(8, "lz4", "all", idempotent=True),
)


def lanes_of(client: Client) -> list[Lane]:
    """The lanes that the client's formats and interfaces allow."""
    return [
        lane for lane in LANES if lane.codec in client.codecs and (client.idempotence or not lane.idempotent)
    ]


def topic_of(client: Client) -> str:
    """The topic that a client writes."""
    return "matrix-" + client.name.lower().replace(" ", "-")


@dataclass(slots=True)
class Written:
    """What one client wrote: per partition the records, offsets filled in, and when it ran."""

    partitions: dict[int, list[TestRecord]]
    started_ms: int
    ended_ms: int


def write(client: Client, bootstrap: str, directory: Path, *, total: int = RECORDS) -> Written:
    """Let a client create its topic, or find it, and produce its share into every lane it can."""
    lanes = lanes_of(client)
    partitions: dict[int, list[TestRecord]] = {}
    arguments = []
    for number, lane in enumerate(lanes):
        count = total // len(lanes) + (number < total % len(lanes))
        records = generate(SEED, lane.partition, count, client.shape)
        partitions[lane.partition] = [replace(record, offset=n) for n, record in enumerate(records)]
        path = directory / f"{topic_of(client)}-{lane.partition}"
        path.write_bytes(encode(records))
        arguments.append(f"{lane.partition}:{lane.codec}:{lane.acks}:{int(lane.idempotent)}:{path}")
    creator = client if client.creates_topics else CLIENTS[0]
    creator.run("create", bootstrap, topic_of(client), str(len(LANES)))
    started_ms = int(time.time() * 1000)
    client.run("produce", bootstrap, topic_of(client), *arguments)
    return Written(partitions, started_ms, int(time.time() * 1000))


def read(client: Client, bootstrap: str, written: dict[str, Written], directory: Path) -> dict[str, str]:
    """Let a client read every topic's partitions that it can decompress; the verdict per topic."""
    slots = [
        (topic, lane.partition)
        for topic, source in written.items()
        for lane in LANES
        if lane.partition in source.partitions and lane.codec in client.codecs
    ]
    output = directory / f"read-by-{topic_of(client)}"
    wanted = [f"{topic}:{part}:{len(written[topic].partitions[part])}" for topic, part in slots]
    client.run("consume", bootstrap, str(output), *wanted)
    received: list[list[TestRecord]] = [[] for _ in slots]
    for record in decode(output.read_bytes()):
        received[record.slot].append(record)
    verdicts: dict[str, str] = {}
    for (topic, partition), records in zip(slots, received, strict=True):
        difference = compare(client, written[topic], partition, records)
        if difference:
            verdicts.setdefault(topic, f"{topic}-{partition}: {difference}")
    return verdicts


def compare(reader: Client, source: Written, partition: int, records: list[TestRecord]) -> str:
    """The first difference between what was written to a partition and what was read, or nothing."""
    expected = source.partitions[partition]
    if len(records) != len(expected):
        return f"{len(records)} records instead of {len(expected)}"
    for position, (want, got) in enumerate(zip(expected, records, strict=True)):
        if got.offset != position:
            return f"offset {got.offset} at position {position}"
        if (got.key, got.value) != (want.key, want.value):
            return f"offset {position}: key and value {got.key!r}, {got.value!r:.80}"
        if want.timestamp < 0:
            if not source.started_ms <= got.timestamp <= source.ended_ms:
                return f"offset {position}: timestamp {got.timestamp} outside the time of production"
            expected[position] = replace(want, timestamp=got.timestamp)
        elif got.timestamp != want.timestamp:
            return f"offset {position}: timestamp {got.timestamp} instead of {want.timestamp}"
        if shown_headers(reader, want) != got.headers:
            return f"offset {position}: headers {got.headers} instead of {want.headers}"
    return ""


def shown_headers(reader: Client, record: TestRecord) -> tuple[tuple[str, bytes | None], ...]:
    """A record's headers as this reader reports them."""
    if not reader.reads_headers:
        return ()
    if not reader.headers_as_text:
        return record.headers
    # kcat prints a value up to its first zero byte.
    values = (
        (name, b"NULL" if value is None else value.partition(b"\0")[0]) for name, value in record.headers
    )
    text = (name.encode() + b"=" + value for name, value in values)
    return (("", b",".join(text)),)


def table(writers: list[Client], verdicts: dict[str, dict[str, str]]) -> str:
    """The matrix in Markdown: a row for each reader, a column for each writer."""
    lines = [
        "| reads ↓ wrote → | " + " | ".join(client.name for client in writers) + " |",
        "|---" * (len(writers) + 1) + "|",
    ]
    for reader in writers:
        cells = []
        for writer in writers:
            failed = topic_of(writer) in verdicts[reader.name]
            partial = any(lane.codec not in reader.codecs for lane in lanes_of(writer))
            cells.append("**no**" if failed else "yes¹" if partial else "yes")
        lines.append(f"| {reader.name} | " + " | ".join(cells) + " |")
    lines.append("")
    lines.append("¹ all but zstd, which that client cannot decompress.")
    return "\n".join(lines)


def run_matrix(
    bootstrap: str, clients: list[Client], directory: Path, *, total: int = RECORDS
) -> tuple[str, list[str]]:
    """Write with every client, read with every client; the table and the differences."""
    written = {topic_of(client): write(client, bootstrap, directory, total=total) for client in clients}
    verdicts = {client.name: read(client, bootstrap, written, directory) for client in clients}
    problems = [f"{name}: {text}" for name, by_topic in verdicts.items() for text in by_topic.values()]
    return table(clients, verdicts), problems


def stored_codecs(directory: Path) -> set[str]:
    """The codecs of the batches in a partition's directory; batches are of format 2."""
    codecs = set()
    for path in directory.glob("*.log"):
        data, position = path.read_bytes(), 0
        while position < len(data):
            (size,) = struct.unpack_from(">i", data, position + 8)
            assert data[position + 16] == 2
            codecs.add(CODECS[data[position + 22] & 7])
            position += 12 + size
    return codecs


def test_every_client_reads_what_every_other_wrote(
    kcli_broker: KcliBroker, tmp_path: Path, show: Callable[[str], None]
) -> None:
    shown, problems = run_matrix(kcli_broker.bootstrap, list(CLIENTS), tmp_path)
    show(shown)
    assert problems == []
    # Clients send what they cannot make smaller as it is; nothing is recompressed.
    for client in CLIENTS:
        for lane in lanes_of(client):
            stored = stored_codecs(kcli_broker.node_directory / f"{topic_of(client)}-{lane.partition}")
            assert lane.codec in stored <= {lane.codec, "none"}, (client.name, lane)


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")
@pytest.mark.parametrize("protocol", [(0, 11), (1, 0), (2, 0)])
def test_zstd_goes_to_every_client_that_reads_batches(
    kcli_broker: KcliBroker, protocol: tuple[int, int]
) -> None:
    """Fetch 4 to 9, which those brokers had, came before zstd; which codecs it knows is up to the client."""
    from kafka import KafkaConsumer, TopicPartition

    topic = "zstd-for-{}-{}".format(*protocol)
    records = _produce_one_zstd_batch(kcli_broker.bootstrap, topic)
    consumer = KafkaConsumer(
        bootstrap_servers=kcli_broker.bootstrap, api_version=protocol, group_id=None, enable_auto_commit=False
    )
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    read = [next(consumer).value for _ in records]
    consumer.close()
    assert read == [record.value for record in records]


def test_a_client_of_message_sets_is_told_that_they_have_no_zstd(kcli_broker: KcliBroker) -> None:
    topic = "zstd-in-message-sets"
    _produce_one_zstd_batch(kcli_broker.bootstrap, topic)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    wanted = FetchTopic(topic=topic, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[wanted])
    with RawClient(kcli_broker.bootstrap) as client:
        (answer,) = client.ask(request, 3).responses[0].partitions
    assert (answer.error_code, bytes(answer.records)) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, b"")


def _produce_one_zstd_batch(bootstrap: str, topic: str) -> list[TestRecord]:
    """Create a topic with records in one batch of partition 0; return them."""
    create_topic(bootstrap, topic)
    records = generate(SEED, 0, 100, Shape())
    # All in one batch: a first one of a record or two would be larger with zstd, and goes out without.
    produce(bootstrap, topic, records, {"compression.type": "zstd", "linger.ms": 60_000})
    return records


def test_the_harness_agrees_with_apache_kafka(apache_kafka: ApacheKafka, tmp_path: Path) -> None:
    """The same programs and comparisons hold against the original."""
    names = ("confluent-kafka", "kcat", "franz-go", "kcli")
    clients = [client for client in CLIENTS if client.name in names]
    _, problems = run_matrix(apache_kafka.bootstrap, clients, tmp_path, total=FEW)
    assert problems == []
