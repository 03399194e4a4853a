"""A broker whose clients have taken all descriptors that they may have serves those, and loses no disk."""

from __future__ import annotations

import json
import resource
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic, read_partition
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


pytestmark = pytest.mark.interop

DESCRIPTORS, CLIENTS, RECORDS = 256, 300, 2000
SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": "1"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KcliBroker]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    running = KcliBroker(tmp_path, settings=SETTINGS, preexec=limit).start()
    yield running
    running.close()


def create(client: RawClient, name: str, partitions: int) -> Any:
    """Ask for a topic; return the row of the response."""
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    (row,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics
    return row


def test_idle_connections_leave_descriptors_for_files(broker: KcliBroker, kcli: Callable[..., Any]) -> None:
    create_topic(broker.bootstrap, "kept", config={"segment.bytes": str(1 << 20)})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    failed = []
    producer.produce("kept", b"first", on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    high_watermarks = broker.node_directory / "replication-offset-checkpoint"
    with ExitStack() as stack:
        admin = stack.enter_context(RawClient(broker.bootstrap))
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.socket())
            client.connect(("127.0.0.1", broker.port))  # The kernel takes what the broker does not accept.
        eventually(lambda: "no connections are accepted" in broker.messages(), "accepting stops")

        for number in range(RECORDS):
            producer.produce(
                "kept",
                b"%d" % number + b"x" * 2000,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            producer.poll(0)
            if number % 100 == 0:
                producer.flush(60)  # Rolls of segments, each of which opens files.
        assert producer.flush(60) == 0
        assert failed == []
        wanted = f"kept 0 {RECORDS + 1}\n"
        eventually(lambda: high_watermarks.exists() and wanted in high_watermarks.read_text(), "a checkpoint")

        refused = create(admin, "many", 200)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert refused.error_message.startswith("no file descriptors for 200 more logs: ")
        assert create(admin, "few", 2).error_code == ErrorCode.NONE
        counts = json.loads(kcli("broker", "status", "--data-dir", str(broker.data), "-o", "json").out)
        assert counts["file_descriptors"]["limit"] == DESCRIPTORS
        assert counts["file_descriptors"]["reserve"] == 64
        assert counts["file_descriptors"]["accepting_stopped"] == 1
        assert counts["file_descriptors"]["open"] < DESCRIPTORS - 20
    with RawClient(broker.bootstrap) as client:
        eventually(
            lambda: create(client, "later", 100).error_code == ErrorCode.NONE,
            "there are descriptors again when the broker has seen that its clients are gone",
        )
        (topic,) = [
            each for each in client.ask(MetadataRequest(topics=None), 9).topics if each.name == "later"
        ]
        assert [each.error_code for each in topic.partitions] == [ErrorCode.NONE] * 100
    shown = kcli("broker", "status", "--data-dir", str(broker.data)).out
    assert "connections had to wait once, because 64 are kept for files" in shown
    assert len(read_partition(broker.bootstrap, "kept", 0)) == RECORDS + 1
    assert broker.messages().count("no connections are accepted") == 1
    assert "offline" not in broker.messages()
    assert broker.stop() == 0
