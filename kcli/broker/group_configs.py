"""GROUP_CONFIGS: what may be configured for a single group while it works (KIP-848, class `GroupConfig`).

The broker's own settings are the default of each and set its limits. A value that was stored under other
limits counts as the nearest one that they allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.config_definition import ConfigDefinition, InvalidConfig, UpdateMode, at_least, integer
from kcli.broker.coordinator.group_config import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    GroupConfig,
    of_group,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULTS = GroupConfig()

GROUP_CONFIGS: Mapping[str, ConfigDefinition[Any]] = {
    row.name: row
    for row in (
        integer(
            HEARTBEAT_INTERVAL,
            _DEFAULTS.consumer_heartbeat_interval_ms,
            "How often the members of this group are told to send a heartbeat.",
            check=at_least(1),
            mode=UpdateMode.CLUSTER_WIDE,
        ),
        integer(
            SESSION_TIMEOUT,
            _DEFAULTS.consumer_session_timeout_ms,
            "How long a member of this group may be silent before it is removed.",
            check=at_least(1),
            mode=UpdateMode.CLUSTER_WIDE,
        ),
    )
}


def check_group_configs(values: Mapping[str, str], broker: GroupConfig) -> None:
    """Raise `InvalidConfig` unless a group may have these values under the broker's limits."""
    for name, text in values.items():
        if name not in GROUP_CONFIGS:
            raise InvalidConfig(f"unknown group config name: {name}")
        lowest, highest = _limits(name, broker)
        value = GROUP_CONFIGS[name].parse(text)
        if not lowest <= value <= highest:
            raise InvalidConfig(
                f"invalid value `{text}` for `{name}`: must be between {lowest} and {highest}"
            )
    config = of_group(broker, values)
    if config.consumer_session_timeout_ms <= config.consumer_heartbeat_interval_ms:
        raise InvalidConfig(f"`{SESSION_TIMEOUT}` must be above `{HEARTBEAT_INTERVAL}`")


def group_config_value(name: str, config: GroupConfig) -> int:
    """Return the value that `name` has in the settings of a group, or of the broker."""
    if name == SESSION_TIMEOUT:
        return config.consumer_session_timeout_ms
    return config.consumer_heartbeat_interval_ms


def _limits(name: str, broker: GroupConfig) -> tuple[int, int]:
    if name == SESSION_TIMEOUT:
        return broker.consumer_min_session_timeout_ms, broker.consumer_max_session_timeout_ms
    return broker.consumer_min_heartbeat_interval_ms, broker.consumer_max_heartbeat_interval_ms
