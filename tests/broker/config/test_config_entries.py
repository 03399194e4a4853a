"""Entries: values, sources and synonyms, as Apache Kafka 4.3.1 answers the same DescribeConfigs."""

from __future__ import annotations

import pytest

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.config_definition import ConfigDefinition
from kcli.broker.config.config_entries import ConfigEntry, DescribedConfigs
from kcli.protocol.configs import ConfigSource, ConfigType

TOPIC, OWN, DEFAULTS, STATIC, BUILT_IN = 1, 2, 3, 4, 5


def config(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties({key.replace("_", "."): value for key, value in properties.items()})


def entry_of(
    entries: list[ConfigEntry], name: str
) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    (found,) = [entry for entry in entries if entry.name == name]
    return found.value, found.source, [(each.name, each.value, each.source) for each in found.synonyms]


@pytest.mark.parametrize(
    ("broker", "overrides", "name", "expected"),
    [
        # The main broker name has no default of its own, so those in other units are not shown either.
        (config(), {}, "retention.ms", ("604800000", BUILT_IN, [])),
        (config(log_retention_hours="1"), {}, "retention.ms", ("3600000", BUILT_IN, [])),
        (
            config(log_retention_hours="1", log_retention_ms="5"),
            {"retention.ms": "6"},
            "retention.ms",
            (
                "6",
                TOPIC,
                [
                    ("retention.ms", "6", TOPIC),
                    ("log.retention.ms", "5", STATIC),
                    ("log.retention.hours", "1", STATIC),
                    ("log.retention.hours", "168", BUILT_IN),
                ],
            ),
        ),
        (
            config(log_retention_ms="-5"),
            {},
            "retention.ms",
            ("-1", STATIC, [("log.retention.ms", "-5", STATIC), ("log.retention.hours", "168", BUILT_IN)]),
        ),
        (config(), {"retention.ms": " 7 "}, "retention.ms", ("7", TOPIC, [("retention.ms", "7", TOPIC)])),
        (
            config(),
            {},
            "segment.bytes",
            ("1073741824", BUILT_IN, [("log.segment.bytes", "1073741824", BUILT_IN)]),
        ),
        (
            config().with_dynamic(broker={"message.max.bytes": "7"}, default={"message.max.bytes": "8"}),
            {},
            "max.message.bytes",
            (
                "7",
                OWN,
                [
                    ("message.max.bytes", "7", OWN),
                    ("message.max.bytes", "8", DEFAULTS),
                    ("message.max.bytes", "1048588", BUILT_IN),
                ],
            ),
        ),
        (config(), {}, "leader.replication.throttled.replicas", ("", BUILT_IN, [])),
        (
            config(),
            {"cleanup.policy": "compact , delete"},
            "cleanup.policy",
            (
                "compact,delete",
                TOPIC,
                [("cleanup.policy", "compact,delete", TOPIC), ("log.cleanup.policy", "delete", BUILT_IN)],
            ),
        ),
    ],
)
def test_topics(
    broker: BrokerConfig, overrides: dict[str, str], name: str, expected: tuple[object, ...]
) -> None:
    assert entry_of(DescribedConfigs(broker).topic(overrides), name) == expected


def test_a_topic_has_every_configuration_of_kafka_4_3_and_nothing_internal() -> None:
    names = [entry.name for entry in DescribedConfigs(config()).topic({"internal.segment.bytes": "5"})]
    assert len(names) == 33
    assert names == sorted(names)
    assert "internal.segment.bytes" not in names


def test_brokers() -> None:
    broker = config(node_id="4", log_retention_hours="2").with_dynamic(
        broker={"log.retention.ms": "9"}, default={"max.connections": "5"}
    )
    entries = DescribedConfigs(broker).broker()
    assert entry_of(entries, "log.retention.ms") == (
        "9",
        OWN,
        [
            ("log.retention.ms", "9", OWN),
            ("log.retention.hours", "2", STATIC),
            ("log.retention.hours", "168", BUILT_IN),
        ],
    )
    assert entry_of(entries, "log.roll.ms") == (None, BUILT_IN, [])
    assert entry_of(entries, "broker.id") == (
        "4",
        STATIC,
        [("broker.id", "4", STATIC), ("broker.id", "-1", BUILT_IN)],
    )
    by_name = {entry.name: entry for entry in entries}
    assert by_name["node.id"].read_only
    assert not by_name["max.connections"].read_only
    assert "log.initial.task.delay.ms" not in by_name


def test_the_default_of_all_brokers_shows_only_what_is_set() -> None:
    broker = config(max_connections="1").with_dynamic(
        broker={"max.connections": "2"}, default={"max.connections": "3"}
    )
    (entry,) = DescribedConfigs(broker).default_broker()
    assert entry_of([entry], "max.connections") == ("3", DEFAULTS, [("max.connections", "3", DEFAULTS)])


def test_a_new_topic_reports_sources_in_other_units_too() -> None:
    entries = DescribedConfigs(config(log_retention_hours="1")).new_topic({"segment.ms": "8"})
    assert entry_of(entries, "retention.ms") == ("3600000", STATIC, [])
    assert entry_of(entries, "segment.ms") == ("8", TOPIC, [])
    assert entry_of(entries, "flush.ms") == ("9223372036854775807", BUILT_IN, [])


def test_a_password_is_sensitive() -> None:
    secret = ConfigDefinition("a.password", ConfigType.PASSWORD, None, "A password.")
    assert ConfigEntry(secret, None, ConfigSource.STATIC_BROKER_CONFIG).is_sensitive
