"""A new certificate while the broker runs: new connections see it, and those that are there go on."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.support.apache_kafka import java_command
from tests.support.processes import ChildProcess
from tests.support.tls_broker import TlsBroker
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

NAMES = ("localhost", "127.0.0.1")
PROPERTY = "listener.name.ssl.ssl.keystore.location"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path)
    with closing(broker):
        broker.start()
        yield broker
        assert broker.stop() == 0


def shown(broker: TlsBroker) -> str:
    """The certificate that a new connection is shown, as PEM text."""
    said = broker.s_client("-showcerts")
    assert "Verification: OK" in said
    certificate = re.search(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", said, re.DOTALL)
    assert certificate is not None
    return certificate[0]


def produce(broker: TlsBroker, *values: str) -> None:
    producer = Producer(broker.librdkafka)
    for value in values:
        producer.produce("t", value)
    assert producer.flush(60) == 0


def alter(tools: KafkaTools, broker: TlsBroker, path: Path) -> str:
    """Set the key store's place by Apache Kafka's tool; what it says if it fails."""
    result = tools(
        "kafka-configs", "--bootstrap-server", f"127.0.0.1:{broker.plaintext_port}", "--alter",
        "--entity-type", "brokers", "--entity-name", "1", "--add-config", f"{PROPERTY}={path}",
    )  # fmt: skip
    return "" if result.code == 0 else result.output + result.errors


def test_new_connections_see_a_new_certificate_and_a_java_consumer_goes_on(
    broker: TlsBroker, kafka_tool: KafkaTools, tmp_path: Path
) -> None:
    produce(broker, "before")
    config = broker.java_config(tmp_path / "client.properties")
    command = java_command("apache-kafka", "org.apache.kafka.tools.consumer.ConsoleConsumer")
    command += ["--bootstrap-server", broker.tls_bootstrap, "--command-config", str(config)]
    consumer = ChildProcess([*command, "--topic", "t", "--from-beginning"], stderr=tmp_path / "consumer.log")
    try:
        consumer.wait_for_line(lambda line: line == "before", timeout=60, what="the first record")
        first = shown(broker)
        broker.issue(*NAMES, common_name="broker")
        eventually(lambda: shown(broker) != first, "housekeeping has noticed the file", seconds=30)
        second = shown(broker)
        produce(broker, "between")
        consumer.wait_for_line(lambda line: line == "between", timeout=60, what="the second record")
        broker.issue(*NAMES, common_name="broker")
        # The same value again: the time of the file decides.
        assert alter(kafka_tool, broker, broker.key_store) == ""
        third = shown(broker)
        assert len({first, second, third}) == 3
        produce(broker, "after")
        consumer.wait_for_line(lambda line: line == "after", timeout=60, what="the third record")
    finally:
        consumer.kill()
    assert "WARN" not in (tmp_path / "consumer.log").read_text()


def test_what_does_not_fit_is_refused_and_the_old_certificate_stays(
    broker: TlsBroker, kafka_tool: KafkaTools, tmp_path: Path
) -> None:
    first = shown(broker)
    other = tmp_path / "other.pem"
    shutil.copy(broker.key_store, other)
    assert alter(kafka_tool, broker, other) == ""
    other.write_text("no store")
    said = alter(kafka_tool, broker, other)
    assert "InvalidRequestException" in said
    assert f"cannot use the key store `{other}`" in said
    broker.issue(*NAMES, common_name="somebody else")
    said = alter(kafka_tool, broker, broker.key_store)
    assert "the new certificate is for `CN=somebody else," in said
    assert shown(broker) == first


def test_a_reload_can_be_asked_for(broker: TlsBroker, kcli: Callable[..., Finished]) -> None:
    first = shown(broker)
    broker.issue(*NAMES, "more.example", common_name="broker")
    done = kcli("tls", "reload", "--data-dir", str(broker.data))
    assert done.exit_code == 0
    assert done.out.startswith("node 1, SSL: reloaded: CN=broker,OU=tests,O=trustme")
    assert " for localhost, 127.0.0.1, more.example, valid until " in done.out
    assert shown(broker) != first
    broker.issue("localhost", common_name="broker")
    done = kcli("tls", "reload", "--data-dir", str(broker.data))
    assert done.exit_code == 1
    assert done.out.startswith("node 1, SSL: keeps its certificate: CN=broker,OU=tests,O=trustme")
    assert done.err.splitlines() == [
        "error: node 1, listener `SSL`: the new certificate lacks alternative names of the old one: "
        "127.0.0.1, more.example",
        "hint: `ssl.allow.san.changes=true` accepts that",
    ]
