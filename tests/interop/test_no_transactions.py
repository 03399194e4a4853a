"""Producers that want transactions, of which there are none: they end at once, and say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, Producer

if TYPE_CHECKING:
    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

WHY = "kcli has no transactions yet"
PATIENCE_SECONDS = 60.0
"""What a producer may wait that does not give up."""


def test_librdkafka_gives_up(kcli_broker: KcliBroker) -> None:
    producer = Producer({"bootstrap.servers": kcli_broker.bootstrap, "transactional.id": "librdkafka"})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(PATIENCE_SECONDS)
    (error,) = caught.value.args
    assert (error.fatal(), error.name()) == (True, "CLUSTER_AUTHORIZATION_FAILED")
    assert error.str().endswith(f": {WHY}")


def test_kafkas_producer_gives_up(kcli_broker: KcliBroker, kafka_tool: KafkaTools) -> None:
    performed = kafka_tool(
        "kafka-producer-perf-test",
        *("--topic", "refused", "--num-records", "1", "--record-size", "1", "--throughput", "-1"),
        *("--bootstrap-server", kcli_broker.bootstrap, "--transactional-id", "java"),
        *("--command-property", f"max.block.ms={PATIENCE_SECONDS * 1000:.0f}"),
    )
    assert performed.code != 0
    why = f"Could not find a coordinator with type TRANSACTION with key java due to unexpected error: {WHY}"
    assert why in performed.errors
