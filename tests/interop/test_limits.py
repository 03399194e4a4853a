"""Order and limits: many requests on one connection, many connections, and one very large request."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.headers import decode_response
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.schema import message_info
from tests.benchmarks import wire
from tests.benchmarks.measure import percentile, raise_file_limit, wait_until_idle
from tests.support.raw_client import RawClient, request_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

PRODUCE_KEY = 0
PIPELINED = 100
POLLING = 1000
PRODUCER_P99_MS = 50
IDLE = 10_000
IDLE_BYTES = 8 * 1024
HUGE_BYTES = 100_000_000
# With cores to spare the longest is about 5 ms; a busy machine must not fail the test.
PING_BESIDE_HUGE_MS = 250


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    """A broker that takes records of 100 MB."""
    from tests.support.kcli_broker import KcliBroker

    raise_file_limit()
    found = KcliBroker(tmp_path_factory.mktemp("limits"), settings={"message.max.bytes": str(HUGE_BYTES)})
    found.start()
    yield found
    found.close()


@pytest.fixture
def client(broker: KcliBroker) -> Iterator[RawClient]:
    """A connection."""
    with RawClient(broker.bootstrap) as connected:
        yield connected


def mixed_request(number: int, offset: int) -> tuple[object, int]:
    """One of six kinds of requests, among them some that wait and some that write metadata."""
    match number % 6:
        case 0:
            return ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
        case 1:
            return MetadataRequest(topics=None), 9
        case 2:
            part = ListOffsetsPartition(partition_index=0, timestamp=-1)
            topic = ListOffsetsTopic(name="mixed", partitions=[part])
            return ListOffsetsRequest(replica_id=-1, topics=[topic]), 5
        case 3:
            resource = DescribeConfigsResource(
                resource_type=2, resource_name="mixed", configuration_keys=None
            )
            return DescribeConfigsRequest(resources=[resource]), 1
        case 4:
            new = CreatableTopic(
                name=f"mixed-{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
            return CreateTopicsRequest(topics=[new], timeout_ms=1000), 4
        case _:
            return wire.fetch_request("mixed", offset, 1024, max_wait_ms=20), wire.FETCH_VERSION


def test_pipelined_requests_are_answered_in_order(client: RawClient) -> None:
    wire.make_topic(client, "mixed")
    batch, _ = wire.batch_of(200, 100)
    produce = wire.produce_request("mixed", batch)
    requests = [
        (produce, wire.PRODUCE_VERSION)
        if number % 7 == 0
        else mixed_request(number, 10_000 if number % 2 else 0)
        for number in range(PIPELINED)
    ]
    client.send(b"".join(request_frame(request, version, n) for n, (request, version) in enumerate(requests)))
    for number, (request, version) in enumerate(requests):
        frame = client.receive_frame()
        assert frame is not None
        correlation_id, response = decode_response(message_info(type(request)).key, version, frame)
        assert correlation_id == number
        assert response is not None


def produce_times(producer: RawClient, topic: str, count: int) -> list[float]:
    """Round trips of single records, a few milliseconds apart, in milliseconds."""
    batch, _ = wire.batch_of(200, 100)
    producing = wire.Producing(producer, topic, batch)
    times = []
    for _ in range(count):
        times.append(producing.one() * 1000)
        threading.Event().wait(0.003)
    return times


def test_consumers_that_wait_do_not_delay_a_producer(
    broker: KcliBroker, client: RawClient, show: Callable[[str], None]
) -> None:
    for topic in ("waited-for", "busy"):
        wire.make_topic(client, topic)
    frame = wire.fetch_frame("waited-for", 0, 1024, max_wait_ms=120_000)
    with ExitStack() as stack:
        waiting = [stack.enter_context(RawClient(broker.bootstrap)) for _ in range(POLLING)]
        for each in waiting:
            each.send(frame)
        wait_until_idle(broker.process.pid)
        p99 = percentile(produce_times(client, "busy", 500), 0.99)
        show(f"{POLLING} consumers in long polls: a producer's p99 is {p99:.2f} ms")
        assert p99 < PRODUCER_P99_MS
        # They really waited: one record answers them all.
        produce_times(client, "waited-for", 1)
        for each in waiting:
            assert len(each.receive_frame() or b"") > 200


def test_idle_connections_cost_next_to_nothing(broker: KcliBroker, show: Callable[[str], None]) -> None:
    with ExitStack() as stack:
        stack.enter_context(RawClient(broker.bootstrap)).ask(ApiVersionsRequest(), 0)
        wait_until_idle(broker.process.pid)
        before = broker.process.resident_bytes()
        for _ in range(IDLE):
            stack.enter_context(RawClient(broker.bootstrap)).ask(ApiVersionsRequest(), 0)
        each = (broker.process.resident_bytes() - before) / IDLE
        show(f"{IDLE} idle connections: {each / 1024:.1f} KB each")
        assert each < IDLE_BYTES


def test_a_huge_request_does_not_hold_up_another_client(
    broker: KcliBroker, client: RawClient, show: Callable[[str], None]
) -> None:
    wire.make_topic(client, "huge")
    batch, _ = wire.batch_of(HUGE_BYTES - 2_000, 1_000_000)
    frame = wire.produce_frame("huge", batch)
    answers: list[bytes | None] = []

    def send_huge() -> None:
        with RawClient(broker.bootstrap, timeout=60) as sender:
            for _ in range(2):
                sender.send(frame)
                answers.append(sender.receive_frame())

    sending = threading.Thread(target=send_huge)
    sending.start()
    times = []
    while sending.is_alive():
        started = time.perf_counter()
        client.ask(ApiVersionsRequest(), 0)
        times.append((time.perf_counter() - started) * 1000)
        threading.Event().wait(0.001)
    sending.join()
    for answer in answers:
        _, response = decode_response(PRODUCE_KEY, wire.PRODUCE_VERSION, answer or b"")
        assert response.responses[0].partition_responses[0].error_code == 0
    assert len(answers) == 2
    show(f"beside requests of 100 MB: ping p99 {percentile(times, 0.99):.1f} ms, longest {max(times):.1f} ms")
    assert max(times) < PING_BESIDE_HUGE_MS
