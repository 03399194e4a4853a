"""Configurations: what changes, what is refused, and that a resource changes as a whole or not."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.config.group_definitions import GroupConfig
from kcli.broker.controller.configuration_control import (
    alter_configs,
    incremental_alter_configs,
)
from kcli.broker.metadata.metadata_image import ConfigResource, MetadataImage
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.configs import ConfigOperation
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import ConfigRecord
from tests.support.metadata import broker, image_of, with_topic

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, DEFAULT_BROKER, GROUP = (2, "a"), (4, "1"), (4, ""), (32, "g")
DEFAULTS = BrokerConfig.from_properties({}).topic_defaults


def image_with(resource: ConfigResource, **values: str) -> MetadataImage:
    records = [
        ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=_name(key), value=value)
        for key, value in values.items()
    ]
    return apply(with_topic(image_of(broker(1)), "a", 1, [1]), records)[0]


def _name(key: str) -> str:
    return key.replace("_", ".")


def outcome(
    image: MetadataImage, resource: ConfigResource, *changes: ConfigChange
) -> dict[str, str] | ErrorCode:
    """Return the resource's configuration afterwards, or the error code."""
    result = incremental_alter_configs(image, [(resource, changes)], defaults=DEFAULTS)
    (error,) = result.response
    if error is not None:
        assert result.records == ()
        return error.code
    return dict(apply(image, result.records)[0].config(*resource))


@pytest.mark.parametrize(
    ("before", "changes", "expected"),
    [
        ({}, [ConfigChange("retention.ms", SET, "5")], {"retention.ms": "5"}),
        ({"retention_ms": "5"}, [ConfigChange("retention.ms", SET, "6")], {"retention.ms": "6"}),
        ({"retention_ms": "5"}, [ConfigChange("retention.ms", DELETE)], {}),
        ({}, [ConfigChange("retention.ms", DELETE)], {}),
        ({}, [ConfigChange("no.such.name", DELETE)], {}),
        # What is appended to, or subtracted from, is the default if there is no value.
        ({}, [ConfigChange("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "delete,compact"}),
        ({}, [ConfigChange("cleanup.policy", APPEND, "delete")], {"cleanup.policy": "delete"}),
        ({}, [ConfigChange("cleanup.policy", SUBTRACT, "delete")], {"cleanup.policy": ""}),
        ({}, [ConfigChange("cleanup.policy", SUBTRACT, "")], {"cleanup.policy": "delete"}),
        ({}, [ConfigChange("cleanup.policy", APPEND, "compact,,")], {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup_policy": "compact,delete"},
            [ConfigChange("cleanup.policy", SUBTRACT, "delete, other")],
            {"cleanup.policy": "compact"},
        ),
    ],
)
def test_operations(before: dict[str, str], changes: list[ConfigChange], expected: dict[str, str]) -> None:
    assert outcome(image_with(TOPIC, **before), TOPIC, *changes) == expected


@pytest.mark.parametrize(
    ("resource", "change", "code"),
    [
        (TOPIC, ConfigChange("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ConfigChange("retention.ms", SET, "-2"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ConfigChange("retention", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ConfigChange("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ConfigChange("cleanup.policy", APPEND, ""), ErrorCode.INVALID_CONFIG),
        (TOPIC, ConfigChange("retention", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ConfigChange("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        ((2, "none"), ConfigChange("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((2, ""), ConfigChange("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        ((2, "a b"), ConfigChange("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, ConfigChange("log.retention.hours", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, ConfigChange("listeners", SET, "PLAINTEXT://:1"), ErrorCode.INVALID_REQUEST),
        (BROKER, ConfigChange("log.retention.ms", SET, "x"), ErrorCode.INVALID_REQUEST),
        (BROKER, ConfigChange("no.such.name", SET, "x"), ErrorCode.INVALID_CONFIG),
        (DEFAULT_BROKER, ConfigChange("log.segment.bytes", SET, "10"), ErrorCode.INVALID_REQUEST),
        (DEFAULT_BROKER, ConfigChange("log.retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        ((4, "x"), ConfigChange("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        ((4, "2"), ConfigChange("log.retention.ms", SET, "1"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        ((8, "1"), ConfigChange("root", SET, "DEBUG"), ErrorCode.INVALID_REQUEST),
        ((32, ""), ConfigChange("consumer.session.timeout.ms", SET, "45000"), ErrorCode.INVALID_REQUEST),
        (GROUP, ConfigChange("a", SET, "b"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("a", APPEND, "b"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("consumer.session.timeout.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("consumer.session.timeout.ms", SET, "44999"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("consumer.session.timeout.ms", SET, "60001"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("consumer.heartbeat.interval.ms", SET, "4999"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("consumer.heartbeat.interval.ms", SET, "15001"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("consumer.assignment.interval.ms", SET, "-1"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("consumer.assignment.interval.ms", SET, "15001"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("share.session.timeout.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("share.auto.offset.reset", SET, "sometimes"), ErrorCode.INVALID_CONFIG),
        (GROUP, ConfigChange("streams.num.standby.replicas", SET, "9"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ConfigChange("retention.ms", SET, "-5"), ErrorCode.INVALID_CONFIG),
        ((16, "laptops"), ConfigChange("interval.ms", SET, "60000"), ErrorCode.INVALID_REQUEST),
        ((99, "g"), ConfigChange("a", SET, "b"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals(resource: ConfigResource, change: ConfigChange, code: ErrorCode) -> None:
    assert outcome(image_with(TOPIC), resource, change) is code


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumer.assignment.interval.ms", "5"),
        ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.isolation.level", "read_committed"),
        ("streams.session.timeout.ms", "46000"),
    ],
)
def test_configurations_of_groups(name: str, value: str) -> None:
    assert outcome(image_with(GROUP), GROUP, ConfigChange(name, SET, value)) == {name: value}


@pytest.mark.parametrize("resource", [BROKER, DEFAULT_BROKER])
def test_dynamic_configurations_of_brokers(resource: ConfigResource) -> None:
    change = ConfigChange("log.retention.ms", SET, "1")
    assert outcome(image_with(resource), resource, change) == {"log.retention.ms": "1"}


def test_one_bad_value_keeps_the_whole_resource_as_it_was_and_others_change() -> None:
    image = with_topic(image_with(TOPIC), "b", 2, [1])
    good, bad = ConfigChange("retention.ms", SET, "5"), ConfigChange("segment.ms", SET, "0")
    result = incremental_alter_configs(image, [(TOPIC, [good, bad]), ((2, "b"), [good])], defaults=DEFAULTS)
    assert isinstance(result.response[0], KafkaError)
    assert result.response[1] is None
    assert [record.resource_name for record in result.records if isinstance(record, ConfigRecord)] == ["b"]


def test_values_are_checked_together_with_those_already_set() -> None:
    image = image_with(TOPIC, max_compaction_lag_ms="10")
    too_long = ConfigChange("min.compaction.lag.ms", SET, "11")
    assert outcome(image, TOPIC, too_long) is ErrorCode.INVALID_CONFIG
    both = outcome(image, TOPIC, too_long, ConfigChange("max.compaction.lag.ms", SET, "11"))
    assert both == {"max.compaction.lag.ms": "11", "min.compaction.lag.ms": "11"}


def test_a_value_that_does_not_change_makes_no_record() -> None:
    image = image_with(TOPIC, retention_ms="5")
    changes = [(TOPIC, [ConfigChange("retention.ms", SET, "5")])]
    assert incremental_alter_configs(image, changes, defaults=DEFAULTS).records == ()


def test_altering_in_the_old_way_replaces_everything() -> None:
    image = image_with(TOPIC, retention_ms="5", segment_ms="7")
    result = alter_configs(image, [(TOPIC, {"segment.ms": "8"})], defaults=DEFAULTS)
    assert result.response == [None]
    assert dict(apply(image, result.records)[0].topic_config("a")) == {"segment.ms": "8"}


@pytest.mark.parametrize(
    ("resource", "values", "code"),
    [
        (TOPIC, {"segment.ms": "0"}, ErrorCode.INVALID_CONFIG),
        ((2, "none"), {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, {"log.retention.hours": "1"}, ErrorCode.INVALID_REQUEST),
        ((8, "1"), {}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_altering_in_the_old_way_refused(
    resource: ConfigResource, values: dict[str, str], code: ErrorCode
) -> None:
    defaults: Any = MappingProxyType(DEFAULTS)
    result = alter_configs(image_with(TOPIC, retention_ms="5"), [(resource, values)], defaults=defaults)
    (error,) = result.response
    assert error is not None
    assert error.code is code
    assert result.records == ()


def test_a_group_must_be_silent_for_longer_than_between_two_heartbeats() -> None:
    limits = GroupConfig(consumer_min_session_timeout_ms=1, consumer_min_heartbeat_interval_ms=1)
    changes = [
        ConfigChange("consumer.session.timeout.ms", SET, "10000"),
        ConfigChange("consumer.heartbeat.interval.ms", SET, "10000"),
    ]
    image = image_with(TOPIC)
    result = incremental_alter_configs(image, [(GROUP, changes)], defaults={}, groups=limits)
    (error,) = result.response
    assert error is not None
    assert error.code is ErrorCode.INVALID_CONFIG
    changes[1] = ConfigChange("consumer.heartbeat.interval.ms", SET, "9999")
    result = incremental_alter_configs(image, [(GROUP, changes)], defaults={}, groups=limits)
    assert (result.response, len(result.records)) == ([None], 2)
