"""Quotas as clients that others wrote meet them: told of a pause, not heard, within the limit at last."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.kcli_broker import KcliBroker
from tests.support.waiting import first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Finished
    from tests.interop.conftest import AnyBroker
    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

RATE = 1 << 20
SAMPLES = 4
RECORD = 10_000
"""Bytes of a record."""
IN_ADVANCE = RATE * (SAMPLES - 1)
"""What a client may send or read at once that has been silent for a while."""
BEYOND = 3 * RATE
LATEST_SECONDS = 30.0


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[KcliBroker]:
    """A broker that looks back three seconds instead of ten: clients are limited the sooner."""
    broker = KcliBroker(tmp_path, settings={"quota.window.num": str(SAMPLES)})
    broker.start()
    yield broker
    broker.stop()


def test_kafkas_tools_set_a_quota_that_kafkas_producer_keeps(
    limited: KcliBroker, kafka_tool: KafkaTools
) -> None:
    server = ("--bootstrap-server", limited.bootstrap)
    entity = ("--entity-type", "clients", "--entity-name", "X")
    altered = kafka_tool(
        "kafka-configs", *server, "--alter", "--add-config", f"producer_byte_rate={RATE}", *entity
    )
    assert (altered.code, altered.lines) == (0, ["Completed updating config for client X."]), altered
    described = kafka_tool("kafka-configs", *server, "--describe", *entity)
    assert described.lines == ["Quota configs for client-id 'X' are producer_byte_rate=1048576.0"]
    count = (IN_ADVANCE + BEYOND) // RECORD
    performed = kafka_tool(
        "kafka-producer-perf-test",
        *("--topic", "perf", "--num-records", str(count), "--record-size", str(RECORD), "--throughput", "-1"),
        *("--print-metrics", "--bootstrap-server", limited.bootstrap),
        *("--command-property", "client.id=X"),
    )
    assert performed.code == 0, performed
    (longest,) = re.findall(r"produce-throttle-time-max\S*\s*: ([\d.]+)", performed.output)
    assert float(longest) > 0
    # Half of it was sent at once, the rest at a megabyte a second. How slow a busy machine is says nothing.
    speed = re.findall(r"\(([\d.]+) MB/sec\)", performed.output)[-1]
    assert 0 < float(speed) < 3
    refused = kafka_tool("kafka-configs", *server, "--alter", "--add-config", "request_percentage=5", *entity)
    assert refused.code == 1
    assert "`request_percentage` is not enforced by this broker" in refused.errors


def set_quota(kcli: Callable[..., Finished], broker: KcliBroker, *quotas: str) -> None:
    finished = kcli("configs", "alter", "--client", "limited", *quotas, "-b", broker.bootstrap)
    assert finished.exit_code == 0, finished


def test_librdkafka_is_told_of_its_pauses(limited: KcliBroker, kcli: Callable[..., Finished]) -> None:
    set_quota(kcli, limited, "--add", f"producer_byte_rate={RATE},consumer_byte_rate={RATE}")
    told: list[float] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": limited.bootstrap,
        "client.id": "limited",
        "throttle_cb": lambda event: told.append(event.throttle_time),
    }
    producer = Producer(settings)
    count = (IN_ADVANCE + BEYOND) // RECORD
    started = time.monotonic()
    for number in range(count):
        producer.produce("told", number.to_bytes(RECORD, "big"))
        producer.poll(0)
    assert producer.flush(LATEST_SECONDS) == 0
    assert max(told) > 0
    # What is beyond what is allowed at once takes a second for each megabyte, but for the last batch.
    assert time.monotonic() - started > 1
    told.clear()
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["told"])
    read: list[int] = []
    deadline = time.monotonic() + LATEST_SECONDS
    while len(read) < count and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None
            read.append(int.from_bytes(message.value(), "big"))
    consumer.close()
    assert read == [*range(count)]
    assert max(told) > 0


def test_kafkas_consumer_with_its_fetch_sessions_reads_everything_at_its_rate(
    limited: KcliBroker, kcli: Callable[..., Finished], kafka_tool: KafkaTools
) -> None:
    set_quota(kcli, limited, "--add", f"consumer_byte_rate={RATE}")
    producer = Producer({"bootstrap.servers": limited.bootstrap})
    count = (IN_ADVANCE + BEYOND) // RECORD
    for number in range(count):
        producer.produce("session", f"{number:0{RECORD}}")
        producer.poll(0)
    assert producer.flush(LATEST_SECONDS) == 0
    started = time.monotonic()
    consumed = kafka_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", limited.bootstrap, "--topic", "session", "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", str(round(LATEST_SECONDS * 1000))),
        *("--command-property", "client.id=limited"),
    )
    assert (consumed.code, [int(line[-9:]) for line in consumed.lines]) == (0, [*range(count)])
    assert time.monotonic() - started > 1


def test_a_quota_is_in_the_metadata_log_as_kafkas_tool_reads_it_and_survives_a_kill(
    limited: KcliBroker, kcli: Callable[..., Finished], kafka_tool: KafkaTools
) -> None:
    set_quota(kcli, limited, "--user-defaults", "--add", "producer_byte_rate=12345")
    limited.kill()
    limited.start()
    described = kcli("configs", "describe", "--user-defaults", "--client", "limited", "-b", limited.bootstrap)
    assert described.out.splitlines() == [
        "Quota configs for the default user-principal, client-id 'limited' are producer_byte_rate=12345.0"
    ]
    limited.stop()
    dumped: list[Any] = []
    for log in sorted((limited.node_directory / "__cluster_metadata-0").glob("*.log")):
        result = kafka_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", log)
        assert result.code == 0, result
        payloads = re.findall(r"payload: (\{.*\})", result.output)
        dumped += [
            each["data"] for each in map(json.loads, payloads) if each["type"] == "CLIENT_QUOTA_RECORD"
        ]
    (record,) = dumped
    entity = sorted(record["entity"], key=lambda part: str(part["entityType"]))
    assert [(part["entityType"], part["entityName"]) for part in entity] == [
        ("client-id", "limited"),
        ("user", None),
    ]
    assert (record["key"], record["value"], record["remove"]) == ("producer_byte_rate", 12345.0, False)


ENTITIES = [
    (("--user", "u"), "user-principal 'u'"),
    (("--user-defaults",), "the default user-principal"),
    (("--client", "c"), "client-id 'c'"),
    (("--client-defaults",), "the default client-id"),
    (("--user", "u", "--client", "c"), "user-principal 'u', client-id 'c'"),
    (("--user", "u", "--client-defaults"), "user-principal 'u', the default client-id"),
]


@pytest.mark.parametrize(("options", "named"), ENTITIES, ids=lambda value: str(value))
def test_kcli_and_kafkas_tool_show_and_change_the_same_quotas_of_any_broker(
    broker: AnyBroker,
    kcli: Callable[..., Finished],
    kafka_tool: KafkaTools,
    options: tuple[str, ...],
    named: str,
) -> None:
    def configs(*arguments: str) -> Finished:
        finished = kcli("configs", *arguments, "-b", broker.bootstrap)
        assert finished.exit_code == 0, finished
        return finished

    def described() -> list[str]:
        return configs("describe", *options).out.splitlines()

    altered = configs("alter", *options, "--add", "producer_byte_rate=20000000,consumer_byte_rate=30000000")
    assert len(altered.out.splitlines()) == 1
    lines = first(described, bool, "the quotas are there")
    assert lines == [f"Quota configs for {named} are consumer_byte_rate=3.0E7, producer_byte_rate=2.0E7"]
    original = kafka_tool("kafka-configs", "--bootstrap-server", broker.bootstrap, "--describe", *options)
    assert sorted(re.split(" are |, (?=[pc])", original.lines[0])) == sorted(
        re.split(" are |, (?=[pc])", lines[0])
    )
    configs("alter", *options, "--delete", "producer_byte_rate,consumer_byte_rate")
    assert first(described, lambda lines: not lines, "the quotas are gone") == []
