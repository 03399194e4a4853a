"""Clients that vanish, flood or starve a broker, and a process that is stopped or short of memory.

One broker is exposed to all of it. Meanwhile a producer goes on, whose acknowledged records another client
reads back at the end; other clients are served; and the broker comes back to what it was by itself.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from tests.broker.records import fetch_request
from tests.support.connections import many_files, open_connections, unread_bytes
from tests.support.hostile_records import MEGABYTE, batch, now_ms, produce_request
from tests.support.kcli_broker import KcliBroker
from tests.support.ledger import Ledger
from tests.support.producing import create_topic
from tests.support.raw_client import RawClient, request_frame
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.interop

PARKED, CONNECTS, TOPICS, HALF_OPEN = 10_000, 20_000, 5000, 200
NO_LINGER = struct.pack("ii", 1, 0)
TCP_REPAIR = 19
SETTINGS = {
    "auto.create.topics.enable": "false",
    "connections.max.idle.ms": "2000",
    "log.segment.delete.delay.ms": "1",
}


class Exposed:
    """The broker, its ledger, and what it used before anything happened to it."""

    def __init__(self, broker: KcliBroker) -> None:
        self.broker = broker
        self.bootstrap = broker.bootstrap
        create_topic(self.bootstrap, "kept")
        create_topic(self.bootstrap, "silent")
        create_topic(self.bootstrap, "other")
        self.ledger = Ledger(self.bootstrap, "kept")
        self.ledger.wait_for(100)
        self.descriptors = self.open_descriptors()

    def open_descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.broker.process.pid}/fd"))

    def serve_others(self) -> None:
        """A new client is answered, and the producer goes on."""
        with RawClient(self.bootstrap) as client:
            assert client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
        self.ledger.wait_for(20)

    def produce(self) -> None:
        """Another client produces one record."""
        builder = RecordBatchBuilder()
        builder.append(now_ms(), None, b"v")
        with RawClient(self.bootstrap) as client:
            ((row,),) = [
                each.partition_responses
                for each in client.ask(produce_request("other", bytes(builder.build())), 9).responses
            ]
        assert row.error_code == ErrorCode.NONE

    def recover(self) -> None:
        """Others are served, and the broker holds no more descriptors than before."""
        self.serve_others()
        eventually(
            lambda: self.open_descriptors() <= self.descriptors + 10,
            "descriptors are given back",
            seen=self.open_descriptors,
        )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in memory, if there is room: five thousand topics are 15,000 files."""
    memory = Path("/dev/shm")
    volume = os.statvfs(memory) if memory.is_dir() else None
    if volume is None or volume.f_bavail * volume.f_frsize < 1024 * MEGABYTE:
        yield tmp_path_factory.mktemp("adversity")
        return
    with tempfile.TemporaryDirectory(prefix="kcli-test-", dir=memory) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def exposed(directory: Path) -> Iterator[Exposed]:
    broker = KcliBroker(directory, settings=SETTINGS).start()
    try:
        found = Exposed(broker)
        yield found
        found.ledger.close()
        assert found.ledger.failures == []
        found.ledger.check(broker.bootstrap)
        assert broker.stop() == 0
        assert "offline" not in broker.messages()
        assert "Traceback" not in broker.messages()
        assert len(broker.messages()) < 200_000
        broker.start()
        found.ledger.check(broker.bootstrap)
    finally:
        broker.close()


def test_ten_thousand_waiting_consumers_vanish(exposed: Exposed) -> None:
    frame = request_frame(fetch_request("silent", max_wait_ms=600_000), 11)
    with many_files() as most, open_connections(exposed.bootstrap, min(PARKED, most)) as consumers:
        assert len(consumers) > PARKED // 2, "the limit of open files is too low for this test"
        for number, consumer in enumerate(consumers):
            consumer.sendall(frame)
            if number % 2:
                consumer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        eventually(lambda: unread_bytes(exposed.broker.port) == 0, "everything is read")
        exposed.serve_others()
    exposed.recover()
    exposed.produce()


def test_twenty_thousand_connections_come_and_go(exposed: Exposed) -> None:
    before = exposed.broker.process.resident_bytes()
    frame = request_frame(ApiVersionsRequest(), 0)
    for number in range(CONNECTS):
        with socket.create_connection(("127.0.0.1", exposed.broker.port), timeout=60) as client:
            if number % 3 == 0:
                client.sendall(frame[: number % len(frame)])
            if number % 2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        if number % 4000 == 0:
            exposed.serve_others()
    exposed.recover()
    assert exposed.broker.process.resident_bytes() - before < 32 * MEGABYTE


def test_five_thousand_topics_are_made_and_deleted(exposed: Exposed) -> None:
    step = 500
    with RawClient(exposed.bootstrap) as client:
        for first in range(0, TOPICS, step):
            names = [f"passing-{number}" for number in range(first, first + step)]
            wanted = [
                CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
                for name in names
            ]
            made = client.ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000), 7)
            assert {each.error_code for each in made.topics} == {ErrorCode.NONE}
            exposed.ledger.wait_for(1)
        for first in range(0, TOPICS, step):
            names = [f"passing-{number}" for number in range(first, first + step)]
            gone = client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), 5)
            assert {each.error_code for each in gone.responses} == {ErrorCode.NONE}
            exposed.ledger.wait_for(1)
        topics = client.ask(MetadataRequest(topics=None), 9).topics
        assert sorted(topic.name for topic in topics) == ["kept", "other", "silent"]
    data = exposed.broker.node_directory
    eventually(
        lambda: not [name for name in os.listdir(data) if name.startswith("passing-")],
        "the directories are gone",
        seen=lambda: len(os.listdir(data)),
    )
    exposed.recover()


def test_clients_that_are_gone_without_a_word_are_let_go(exposed: Exposed) -> None:
    """Their machines lost power: no packet says so. Half of them wait for records, for less than they may."""
    frame = request_frame(fetch_request("silent", max_wait_ms=1000), 11)
    with open_connections(exposed.bootstrap, HALF_OPEN) as clients:
        for number, client in enumerate(clients):
            if number % 2:
                client.sendall(frame)
        eventually(lambda: unread_bytes(exposed.broker.port) == 0, "everything is read")
        try:
            for client in clients:
                client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)  # Closing it sends nothing then.
                client.close()
        except PermissionError:
            pass  # Only root may do that: they stay, and are as silent.
        assert exposed.open_descriptors() >= exposed.descriptors + HALF_OPEN // 2
        exposed.recover()


def test_malformed_frames_fill_no_log(exposed: Exposed) -> None:
    before = len(exposed.broker.messages())
    for number in range(2000):
        with socket.create_connection(("127.0.0.1", exposed.broker.port), timeout=60) as client:
            client.sendall(struct.pack(">ihhih", 25, 3, 1, number, 100) + b"\0\x1b[2J\n" * 3)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
    exposed.recover()
    with RawClient(exposed.bootstrap) as client:
        client.send(struct.pack(">i", -1))
        assert client.is_closed()
    eventually(lambda: "more like it in the last" in exposed.broker.messages()[before:], "they are counted")
    written = exposed.broker.messages()[before:]
    assert len(written) < 40_000
    assert not set("\0\x1b") & set(written)


def test_a_process_short_of_memory_refuses_and_goes_on(exposed: Exposed) -> None:
    pid = exposed.broker.process.pid
    former = resource.prlimit(pid, resource.RLIMIT_AS)
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    large = request_frame(produce_request("other", batch(bytes(60 * MEGABYTE))), 9)
    try:
        resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + 4 * MEGABYTE, former[1]))
        with ExitStack() as stack:
            clients = [stack.enter_context(RawClient(exposed.bootstrap)) for _ in range(5)]
            for client in clients:
                client.offer(large)
                assert client.receive_frame() is None  # There is no room for the request.
        exposed.serve_others()
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, former)
    exposed.recover()
    exposed.produce()


def test_a_stopped_process_goes_on_where_it_was(exposed: Exposed) -> None:
    """Its clients' requests time out meanwhile, and are sent again."""
    before = exposed.broker.messages()
    os.kill(exposed.broker.process.pid, signal.SIGSTOP)
    try:
        impatient = Ledger(
            exposed.bootstrap, "other", {"message.timeout.ms": 1500, "socket.timeout.ms": 1000}
        )
        eventually(lambda: bool(impatient.failures), "a client gives up")
        impatient.close()
        assert impatient.acknowledged == {}
    finally:
        os.kill(exposed.broker.process.pid, signal.SIGCONT)
    exposed.recover()
    assert "fenced" not in exposed.broker.messages()[len(before) :]
