"""Client properties are typed, checked and named as Kafka's are."""

from __future__ import annotations

import pytest

from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig, duration_ms
from kcli.errors import UsageError


def test_each_class_takes_its_own_names_and_leaves_the_others() -> None:
    properties = {
        "client.id": "me",
        "request.timeout.ms": "1000",
        "acks": "1",
        "linger.ms": "7",
        "enable.idempotence": "False",
        "isolation.level": "read_committed",
        "group.id": "g",
    }
    assert ClientConfig.from_properties(properties) == ClientConfig(client_id="me", request_timeout_ms=1000)
    producer = ProducerConfig(acks="1", linger_ms=7, enable_idempotence=False, request_timeout_ms=1000)
    assert ProducerConfig.from_properties(properties) == producer
    assert ConsumerConfig.from_properties(properties).is_read_committed


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (ClientConfig, "request.timeout.ms", "soon"),
        (ClientConfig, "request.timeout.ms", "0"),
        (ClientConfig, "request.timeout.ms", "99999999999"),
        (ClientConfig, "security.protocol", "TLS"),
        (ClientConfig, "metadata.recovery.strategy", "hope"),
        (ProducerConfig, "acks", "2"),
        (ProducerConfig, "enable.idempotence", "maybe"),
        (ProducerConfig, "compression.type", "lzma"),
        (ConsumerConfig, "isolation.level", "none"),
        (ConsumerConfig, "auto.offset.reset", "newest"),
    ],
)
def test_bad_values_are_usage_errors_that_name_the_property(
    cls: type[ClientConfig] | type[ProducerConfig] | type[ConsumerConfig], name: str, value: str
) -> None:
    with pytest.raises(UsageError, match=name) as raised:
        cls.from_properties({name: value})
    assert raised.value.hint


@pytest.mark.parametrize(
    "excluding", [{"acks": "1"}, {"acks": "0"}, {"retries": "0"}, {"enable.idempotence": "false"}], ids=str
)
def test_a_transactional_producer_is_idempotent(excluding: dict[str, str]) -> None:
    properties = {"transactional.id": "t", "transaction.timeout.ms": "5000"}
    config = ProducerConfig.from_properties(properties)
    assert (config.is_idempotent, config.required_acks, config.transaction_timeout_ms) == (True, -1, 5000)
    with pytest.raises(UsageError, match=r"transactional\.id"):
        ProducerConfig.from_properties({**properties, **excluding})


@pytest.mark.parametrize(
    ("codec", "settings", "level"),
    [
        ("gzip", {}, None),
        ("gzip", {"compression.gzip.level": "1"}, 1),
        ("zstd", {}, 3),
        ("lz4", {"compression.lz4.level": "12"}, 12),
        ("snappy", {}, None),
    ],
)
def test_the_level_is_that_of_the_codec_in_use(
    codec: str, settings: dict[str, str], level: int | None
) -> None:
    config = ProducerConfig.from_properties({"compression.type": codec, **settings})
    assert config.compression_level == level


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("P2DT0.5S", 172_800_500), ("PT0S", 0)],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert duration_ms(f"by_duration:{text}") == milliseconds


@pytest.mark.parametrize("text", ["P", "PT", "1D", "P1H", "PT1D", "", "P" + "9" * 5000 + "D"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError):
        duration_ms(f"by_duration:{text}")


@pytest.mark.parametrize(
    ("properties", "names", "is_cooperative"),
    [
        ({}, ["range", "cooperative-sticky"], False),
        ({"partition.assignment.strategy": "cooperative-sticky"}, ["cooperative-sticky"], True),
        (
            {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor,range"},
            ["sticky", "range"],
            False,
        ),
    ],
)
def test_a_group_is_cooperative_only_if_every_assignor_is(
    properties: dict[str, str], names: list[str], is_cooperative: bool
) -> None:
    config = ConsumerConfig.from_properties(properties)
    assert [strategy.name for strategy in config.strategies] == names
    assert config.is_cooperative is is_cooperative


@pytest.mark.parametrize(
    ("properties", "is_consumer_protocol"),
    [
        ({}, False),
        ({"group.protocol": "CLASSIC"}, False),
        ({"group.protocol": "consumer"}, True),
        ({"group.protocol": "Consumer", "group.remote.assignor": "range", "group.id": "g"}, True),
    ],
)
def test_who_assigns(properties: dict[str, str], is_consumer_protocol: bool) -> None:
    assert ConsumerConfig.from_properties(properties).is_consumer_protocol is is_consumer_protocol


@pytest.mark.parametrize(
    ("properties", "commits"),
    [({}, False), ({"group.id": "g"}, True), ({"group.id": "g", "enable.auto.commit": "false"}, False)],
)
def test_positions_are_committed_only_in_a_group(properties: dict[str, str], commits: bool) -> None:
    assert ConsumerConfig.from_properties(properties).commits_by_itself is commits


@pytest.mark.parametrize(
    "properties",
    [
        {"group.protocol": "streams"},
        {"group.protocol": "consumer", "session.timeout.ms": "6000"},
        {"group.protocol": "CONSUMER", "heartbeat.interval.ms": "100"},
        {"group.protocol": "consumer", "partition.assignment.strategy": "range"},
        {"group.remote.assignor": "uniform"},
        {"partition.assignment.strategy": "fair"},
        {"partition.assignment.strategy": "range,RangeAssignor"},
        {"group.id": "g", "heartbeat.interval.ms": "5000", "session.timeout.ms": "5000"},
    ],
)
def test_what_a_group_cannot_be_joined_with_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        ConsumerConfig.from_properties(properties)
