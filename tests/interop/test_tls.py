"""A TLS listener, as programs see it that were not written for it."""

from __future__ import annotations

import socket
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.tls_broker import TlsBroker
from tests.support.toolchain import need

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

LINES = [f"line {number}" for number in range(100)]
LARGE = [bytes([number]) * 700_000 for number in range(20)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path_factory.mktemp("tls"))
    with closing(broker):
        broker.start()
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.messages()


def test_kcat_produces_over_tls_and_consumes_on_the_listener_beside_it(broker: TlsBroker) -> None:
    need("kcat")
    tls = [word for name, value in broker.librdkafka.items() for word in ("-X", f"{name}={value}")]
    produce = ["kcat", "-P", "-t", "kcat", *tls]
    subprocess.run(produce, input="\n".join(LINES), text=True, check=True, timeout=60)
    for source in (tls, ["-b", f"127.0.0.1:{broker.plaintext_port}"]):
        consume = ["kcat", "-C", "-t", "kcat", "-o", "beginning", "-e", "-q", *source]
        finished = subprocess.run(consume, capture_output=True, text=True, check=True, timeout=60)
        assert finished.stdout.splitlines() == LINES


def test_large_records_pass_both_ways(broker: TlsBroker) -> None:
    producer = Producer({**broker.librdkafka, "linger.ms": 0, "batch.num.messages": 1})
    for value in LARGE:
        producer.produce("large", value)
    assert producer.flush(60) == 0
    consumer = Consumer({**broker.librdkafka, "group.id": "large", "auto.offset.reset": "earliest"})
    with closing(consumer):
        consumer.subscribe(["large"])
        values = []
        while len(values) < len(LARGE):
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            values.append(message.value())
    assert values == LARGE


def test_java_produces_and_consumes(broker: TlsBroker, kafka_tool: KafkaTools, tmp_path: Path) -> None:
    config = broker.java_config(tmp_path / "client.properties")
    ours = ("--bootstrap-server", broker.tls_bootstrap, "--topic", "java", "--command-config", config)
    records = "\n".join(LINES).encode()
    assert kafka_tool("kafka-console-producer", *ours, stdin=records).code == 0
    consumed = kafka_tool(
        "kafka-console-consumer", *ours, "--from-beginning", "--max-messages", str(len(LINES))
    )
    assert consumed.lines == LINES


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_openssl_agrees_on_a_version_and_trusts_the_chain(broker: TlsBroker, version: str) -> None:
    said = broker.s_client(f"-{version.lower().replace('v', '').replace('.', '_')}")
    assert f"New, {version}, Cipher is " in said
    assert "Verification: OK" in said
    assert "subject=O = trustme" in said
    assert "Compression: NONE" in said


def test_an_old_version_is_refused_by_an_alert(broker: TlsBroker) -> None:
    assert "tlsv1 alert protocol version" in broker.s_client("-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    assert "the client offers no version of TLS that `ssl.enabled.protocols` has" in broker.messages()


def test_renegotiation_is_refused(broker: TlsBroker) -> None:
    said = broker.s_client("-tls1_2", stdin=b"R\n")
    assert "Verification: OK" in said
    assert "no renegotiation" in said


@pytest.mark.parametrize(
    ("greeting", "text"),
    [
        (bytes.fromhex("00000013001200000000000100096b63617400"), "Kafka's protocol without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP, not TLS"),
    ],
)
def test_a_client_without_tls_is_told_by_an_alert_and_named_in_the_log(
    broker: TlsBroker, greeting: bytes, text: str
) -> None:
    with socket.create_connection(("127.0.0.1", broker.tls_port), timeout=30) as client:
        client.sendall(greeting)
        assert client.recv(100) == bytes.fromhex("15030100020246")
        assert client.recv(100) == b""
    assert text in broker.messages()


def test_a_client_with_tls_on_a_plaintext_listener_is_named_in_the_log(broker: TlsBroker) -> None:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{broker.plaintext_port}"]
    assert subprocess.run(command, input=b"", capture_output=True, timeout=30).returncode != 0
    assert "the client speaks TLS, which this listener does not" in broker.messages()
