"""Ordering and limits: many connections, many requests on one, large ones, slow ones.

One client must not hold up the others, whatever it does: that is measured here against bounds. Figures are
printed behind the run.
"""

from __future__ import annotations

import random
import selectors
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.frames import decode_response, parse_request_header
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.schema.declaration import codec, message_info
from tests.broker.records import fetch_request
from tests.support.connections import many_files, open_connections, unread_bytes
from tests.support.hostile_records import MEGABYTE, batch, large_batch, now_ms, produce_request
from tests.support.pinger import Pinger
from tests.support.producing import create_topic
from tests.support.raw_client import RawClient, request_frame
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PIPELINED = 100
CONSUMERS = 1000
CONNECTIONS = 10_000
MIN_CONNECTIONS = 5000
IDLE_BYTES = 8 * 1024
PARKED_BYTES = 16 * 1024
FRAME_BYTES = 100 * MEGABYTE
PING_WORK_MS = 200
"""What the broker may work while another client waits and one sends a hundred megabytes of records: how long
the wait is where nothing else runs. Measured: 10, one tick of the clock."""
NAMES_DECODINGS = 20
"""The same for as many names as a request may have, each of a kilobyte, by how long it takes to decode them
here: the broker works on them all that time, whose length is the machine's. Measured: 6."""


@pytest.fixture
def broker(new_kcli_broker: Callable[..., KcliBroker]) -> KcliBroker:
    """A broker of the test's own."""
    return new_kcli_broker().start()


def small_batch(value: bytes = b"v") -> bytes:
    builder = RecordBatchBuilder()
    builder.append(now_ms(), b"k", value)
    return bytes(builder.build())


# --- ordering ----------------------------------------------------------------------------------------


def mixed_requests() -> Iterator[tuple[Any, int]]:
    """A hundred requests of all kinds; in the middle one that waits for half a second."""
    choose = random.Random(5)
    for number in range(PIPELINED):
        if number == PIPELINED // 2:
            yield fetch_request("silent", max_wait_ms=500), 11
            continue
        yield choose.choice(
            [
                (produce_request("busy", small_batch(b"%d" % number), acks=0), 7),
                (produce_request("busy", small_batch(b"%d" % number), acks=1), 9),
                (produce_request("busy", small_batch(b"%d" % number), acks=-1), 3),
                (fetch_request("busy"), 4 + number % 9),
                (fetch_request("silent", max_wait_ms=1), 4 + number % 9),
                (MetadataRequest(topics=[MetadataRequestTopic(name="busy")]), 1 + number % 12),
                (ApiVersionsRequest(client_software_name="a", client_software_version="1"), number % 5),
            ]
        )


@pytest.mark.parametrize("piece", [1_000_000, 1000, 7], ids=["at-once", "in-packets", "in-crumbs"])
def test_pipelined_requests_are_answered_in_order(broker: KcliBroker, piece: int) -> None:
    create_topic(broker.bootstrap, "busy")
    create_topic(broker.bootstrap, "silent")
    requests = list(mixed_requests())
    stream = b"".join(
        request_frame(request, version, number) for number, (request, version) in enumerate(requests)
    )
    with RawClient(broker.bootstrap) as client:
        started = time.monotonic()
        for start in range(0, len(stream), piece):
            client.send(stream[start : start + piece])
        for number, (request, version) in enumerate(requests):
            if isinstance(request, ProduceRequest) and request.acks == 0:
                continue
            frame = client.receive_frame()
            assert frame is not None
            correlation_id, _ = decode_response(message_info(type(request)).key, version, frame)
            assert correlation_id == number
        assert time.monotonic() - started >= 0.5
        sent = [request for request, _ in requests if isinstance(request, ProduceRequest)]
        assert {request.acks for request in sent} == {-1, 0, 1}
        assert end_offset(client, "busy") == len(sent)


def end_offset(client: RawClient, topic: str) -> int:
    """The high watermark."""
    response = client.ask(fetch_request(topic), 11)
    ((partition,),) = [each.partitions for each in response.responses]
    assert partition.error_code == ErrorCode.NONE
    return int(partition.high_watermark)


# --- many connections --------------------------------------------------------------------------------


def test_ten_thousand_connections(broker: KcliBroker, show: Callable[[str], None]) -> None:
    create_topic(broker.bootstrap, "silent")
    process = broker.process
    with many_files() as most:
        count = min(CONNECTIONS, most)
        assert count >= MIN_CONNECTIONS, "the limit of open files is too low for this test"
        with open_connections(broker.bootstrap, 100):
            before = process.resident_bytes()
        with open_connections(broker.bootstrap, count) as connections:
            idle = (process.resident_bytes() - before) / count
            with Pinger(broker.bootstrap) as pinger:
                serve_a_newcomer(broker)
            frame = request_frame(fetch_request("silent", max_wait_ms=60_000), 11)
            for connection in connections:
                connection.sendall(frame)
            wait_until_taken(broker)
            parked = (process.resident_bytes() - before) / count
            serve_a_newcomer(broker)
            wake(broker, connections)
    show(
        f"{count} connections: {idle / 1024:.1f} KB idle, {parked / 1024:.1f} KB parked each; "
        f"another waited {pinger.longest_ms:.1f} ms at most"
    )
    assert idle < IDLE_BYTES
    assert parked < PARKED_BYTES
    serve_a_newcomer(broker)


def serve_a_newcomer(broker: KcliBroker) -> None:
    """A new client gets in and is answered."""
    with RawClient(broker.bootstrap) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE


def wait_until_taken(broker: KcliBroker) -> None:
    """Return when the broker has read all that was sent to it, and answers what comes after it."""
    eventually(lambda: unread_bytes(broker.port) == 0, "everything is read")
    with RawClient(broker.bootstrap) as client:
        client.ask(ApiVersionsRequest(), 0)


def wake(broker: KcliBroker, connections: list[socket.socket]) -> None:
    """One record for all who wait: each gets it."""
    with RawClient(broker.bootstrap) as client:
        client.ask(produce_request("silent", small_batch()), 9)
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)
        left = len(connections)
        deadline = time.monotonic() + 60
        while left:
            assert time.monotonic() < deadline, f"{left} of {len(connections)} got nothing"
            for key, _ in selector.select(timeout=1):
                assert key.fileobj.recv(100_000)  # type: ignore[union-attr]
                selector.unregister(key.fileobj)
                left -= 1


def test_waiting_consumers_and_a_producer(broker: KcliBroker, show: Callable[[str], None]) -> None:
    """A thousand long polls on one topic, a producer on another; then one on the same."""
    create_topic(broker.bootstrap, "silent")
    create_topic(broker.bootstrap, "busy")
    frame = request_frame(fetch_request("silent", max_wait_ms=600_000), 11)
    with many_files(), open_connections(broker.bootstrap, CONSUMERS) as consumers:
        for consumer in consumers:
            consumer.sendall(frame)
        wait_until_taken(broker)
        p50, p99 = latencies(broker, "busy", 2000)
        show(f"{CONSUMERS} waiting consumers: a producer waits {p50:.2f} ms (p50), {p99:.2f} ms (p99)")
        wake(broker, consumers)


def latencies(broker: KcliBroker, topic: str, count: int) -> tuple[float, float]:
    """p50 and p99 of single records with acks=1, in milliseconds."""
    frame = request_frame(produce_request(topic, small_batch()), 9)
    taken = []
    with RawClient(broker.bootstrap) as client:
        for _ in range(count):
            started = time.perf_counter()
            client.send(frame)
            assert client.receive_frame() is not None
            taken.append(time.perf_counter() - started)
    taken.sort()
    return taken[count // 2] * 1000, taken[count * 99 // 100] * 1000


# --- large requests ----------------------------------------------------------------------------------


def large_frames() -> Iterator[tuple[str, bytes]]:
    """Frames of a hundred megabytes: records that are taken, that are refused, and no request at all."""
    room = FRAME_BYTES - 1000
    yield "one batch that is stored", request_frame(produce_request("large", large_batch(room)), 9)
    yield "one batch that is too large", request_frame(produce_request("busy", batch(bytes(room))), 9)
    small = large_batch(900_000)
    many = produce_request("busy", small)
    many.topic_data[0].partition_data *= room // len(small)
    yield "a hundred batches", request_frame(many, 9)
    yield "garbage for records", request_frame(produce_request("busy", b"\xff" * room), 9)
    yield "message sets", request_frame(produce_request("busy", bytes(room)), 2)
    yield "garbage", struct.pack(">i", room) + b"\xff" * room
    yield (
        "names",
        request_frame(
            MetadataRequest(topics=[MetadataRequestTopic(name=f"{n}{'x' * 1000}") for n in range(90_000)]), 9
        ),
    )


def test_a_hundred_megabytes_delay_nobody(broker: KcliBroker, show: Callable[[str], None]) -> None:
    create_topic(broker.bootstrap, "busy")
    create_topic(broker.bootstrap, "large", 1, {"max.message.bytes": "104857600"})
    waits = {}
    for name, frame in large_frames():
        pinger = Pinger(broker.bootstrap, server=broker.process)
        with pinger, RawClient(broker.bootstrap, timeout=60) as client:
            client.offer(frame)
            client.receive_all()
        waits[name] = pinger.most_work_ms
    show(
        "the broker's work while another client waits and one sends 100 MB: "
        + ", ".join(f"{name} {wait:.0f} ms" for name, wait in waits.items())
        + f"; memory peaked at {broker.process.peak_resident_bytes() // MEGABYTE} MB"
    )
    assert name == "names", "which come last"
    assert waits.pop("names") < NAMES_DECODINGS * decoding_ms(frame)
    assert max(waits.values()) < PING_WORK_MS


def decoding_ms(frame: bytes) -> float:
    """How long this process works to decode a request for metadata."""
    started = time.thread_time()
    codec(MetadataRequest, 9).decode(frame[4:], parse_request_header(frame[4:])[1])
    return (time.thread_time() - started) * 1000


def test_the_limit_of_a_request(new_kcli_broker: Callable[..., KcliBroker]) -> None:
    broker = new_kcli_broker({"socket.request.max.bytes": "100000"}).start()
    fits = request_frame(ApiVersionsRequest(), 0)[4:]
    fits += bytes(100_000 - len(fits))
    with RawClient(broker.bootstrap) as client:
        client.send(struct.pack(">i", 100_000) + fits)
        assert client.receive_frame() is not None
        client.send(struct.pack(">i", 100_001))
        assert client.is_closed()
    serve_a_newcomer(broker)


# --- slow clients ------------------------------------------------------------------------------------


def test_a_client_that_never_reads(broker: KcliBroker, show: Callable[[str], None]) -> None:
    """Fifty of them ask for everything again and again: what they do not take is not made."""
    create_topic(broker.bootstrap, "large", 1, {"max.message.bytes": "20000000"})
    with RawClient(broker.bootstrap) as client:
        for _ in range(5):
            client.ask(produce_request("large", large_batch(10_000_000)), 9)
    asked = request_frame(fetch_request("large", max_bytes=50_000_000), 11)
    asked += request_frame(MetadataRequest(topics=None), 9) * 20
    before = broker.process.peak_resident_bytes()
    with ExitStack() as stack:
        silent = [stack.enter_context(RawClient(broker.bootstrap, receive_buffer=4096)) for _ in range(50)]
        for client in silent:
            client.socket.settimeout(0.1)
        with ThreadPoolExecutor(10) as threads:
            list(threads.map(lambda client: send_until_full(client, asked * 50), silent))
        with Pinger(broker.bootstrap, server=broker.process) as pinger:
            latencies(broker, "large", 200)
        grown = broker.process.peak_resident_bytes() - before
        show(f"50 clients that never read: {grown // 1024} KB, another waited {pinger.longest_ms:.1f} ms")
        assert grown < 64 * MEGABYTE
        assert pinger.most_work_ms < PING_WORK_MS
    serve_a_newcomer(broker)


def send_until_full(client: RawClient, data: bytes) -> None:
    """Send again and again until nobody takes it any more."""
    for _ in range(1000):
        try:
            client.send(data)
        except TimeoutError:
            return
    raise AssertionError("the broker takes requests without end")


def test_clients_that_send_byte_by_byte(broker: KcliBroker) -> None:
    create_topic(broker.bootstrap, "busy")
    frame = request_frame(produce_request("busy", small_batch(b"x" * 300)), 9)
    large = request_frame(produce_request("busy", small_batch(b"x" * 50_000)), 9)
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.bootstrap)) for _ in range(20)]
        pinger = stack.enter_context(Pinger(broker.bootstrap, server=broker.process))
        for client in clients:
            client.send(large[:40_000])
        for position in range(len(frame)):
            for client in clients[:10]:
                client.send(large[40_000 + position : 40_001 + position])
        for client in clients[:10]:
            client.send(large[40_000 + len(frame) :])
            assert client.receive_frame() is not None
        with RawClient(broker.bootstrap) as slow:
            for position in range(len(frame)):
                slow.send(frame[position : position + 1])
            assert slow.receive_frame() is not None
            assert end_offset(slow, "busy") == 11
    assert pinger.most_work_ms < PING_WORK_MS
