"""Configurations on the wire: what may have them, where a value comes from, what type it has.

The numbers of DescribeConfigs and AlterConfigs (Kafka classes `ConfigResource`, `ConfigEntry`; KIP-569).

What a kcli broker says of a configuration that Kafka knows and kcli does not act on: an inert one.

The protocol only has a code for names and values that are wrong, so clients know this refusal by its words.
"""

from __future__ import annotations

from enum import IntEnum

from kcli.protocol.error_codes import ErrorCode, KafkaError


class ConfigResourceType(IntEnum):
    """What a configuration belongs to."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    """How IncrementalAlterConfigs changes a value (KIP-339). APPEND and SUBTRACT act on lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """The type of a value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_NO_EFFECT = " has no effect in kcli"


class InertConfig(KafkaError):
    """The refusal of an inert configuration: no other name and no other value would do."""

    wants_hint = False

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


def no_effect(name: str) -> str:
    """Return what to say of an inert configuration."""
    return f"`{name}`{_NO_EFFECT}"


def tells_no_effect(message: str) -> bool:
    """Tell whether a broker's words are those of `no_effect`."""
    return message.endswith(_NO_EFFECT)
