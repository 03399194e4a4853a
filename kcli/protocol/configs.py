"""The numbers of DescribeConfigs and AlterConfigs (Kafka classes `ConfigResource`, `ConfigEntry`; KIP-569).

A kcli broker stores a configuration that Kafka knows and kcli does not act on, and says so at the end of its
documentation. It refuses one of security. The protocol has an error code for wrong names and values only, so
clients recognize this refusal by its message.
"""

from __future__ import annotations

from enum import IntEnum

from kcli.protocol.error_codes import ErrorCode, KafkaError


class ConfigResourceType(IntEnum):
    """The kind of thing that a configuration belongs to."""

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
    """Where a value was set."""

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


NO_EFFECT = "No effect in kcli."
"""How a broker ends the documentation of a configuration that it stores and does not act on."""

_NOT_ACTED_ON = " is a security configuration that kcli does not act on"


class ConfigNotActedOn(KafkaError):
    """The refusal of a security configuration that kcli does not act on: no other name or value helps."""

    wants_hint = False

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


def not_acted_on_message(name: str) -> str:
    """Return the message that refuses a security configuration."""
    return f"`{name}`{_NOT_ACTED_ON}"


def is_not_acted_on_message(message: str) -> bool:
    """Return whether a broker's message is one of `not_acted_on_message`."""
    return message.endswith(_NOT_ACTED_ON)
