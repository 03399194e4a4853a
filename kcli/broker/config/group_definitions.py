"""GROUP_CONFIGS: what may be configured for a single group while it works (KIP-848, class `GroupConfig`).

The broker's own settings give each its default and its limits. A stored value outside the limits counts as
the nearest allowed one. Configurations of share groups and streams groups are checked, stored and shown, and
have no effect: kcli has neither kind of group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kcli.broker.config.broker_definitions import SETTINGS, BrokerSettings
from kcli.broker.config.config_definition import (
    INT_MAX,
    Check,
    ConfigDefinition,
    InvalidConfig,
    UpdateMode,
    at_least,
    between,
    boolean,
    integer,
    one_of,
    string,
    taken,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"

_FIELD_SUFFIXES = {
    SESSION_TIMEOUT: "session_timeout_ms",
    HEARTBEAT_INTERVAL: "heartbeat_interval_ms",
    ASSIGNMENT_INTERVAL: "assignment_interval_ms",
}
"""The ends of the `GroupConfig` fields that a group may override, by the name of the configuration."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of the group coordinator, in the units that its shards use.

    Times are in milliseconds; `migration_policy` is bidirectional, upgrade, downgrade or disabled (KIP-848).
    """

    min_session_timeout_ms: int = taken(BrokerSettings.group_min_session_timeout_ms)
    max_session_timeout_ms: int = taken(BrokerSettings.group_max_session_timeout_ms)
    initial_rebalance_delay_ms: int = taken(BrokerSettings.group_initial_rebalance_delay_ms)
    max_size: int = taken(BrokerSettings.group_max_size)
    offset_metadata_max_bytes: int = taken(BrokerSettings.offset_metadata_max_bytes)
    offsets_retention_ms: int = taken(
        BrokerSettings.offsets_retention_minutes, lambda minutes: minutes * 60_000
    )
    consumer_session_timeout_ms: int = taken(BrokerSettings.group_consumer_session_timeout_ms)
    consumer_min_session_timeout_ms: int = taken(BrokerSettings.group_consumer_min_session_timeout_ms)
    consumer_max_session_timeout_ms: int = taken(BrokerSettings.group_consumer_max_session_timeout_ms)
    consumer_heartbeat_interval_ms: int = taken(BrokerSettings.group_consumer_heartbeat_interval_ms)
    consumer_min_heartbeat_interval_ms: int = taken(BrokerSettings.group_consumer_min_heartbeat_interval_ms)
    consumer_max_heartbeat_interval_ms: int = taken(BrokerSettings.group_consumer_max_heartbeat_interval_ms)
    consumer_max_size: int = taken(BrokerSettings.group_consumer_max_size)
    consumer_assignors: tuple[str, ...] = taken(BrokerSettings.group_consumer_assignors)
    consumer_assignment_interval_ms: int = taken(BrokerSettings.group_consumer_assignment_interval_ms)
    consumer_min_assignment_interval_ms: int = taken(BrokerSettings.group_consumer_min_assignment_interval_ms)
    consumer_max_assignment_interval_ms: int = taken(BrokerSettings.group_consumer_max_assignment_interval_ms)
    migration_policy: str = taken(BrokerSettings.group_consumer_migration_policy, str.lower)
    regex_refresh_interval_ms: int = taken(BrokerSettings.group_consumer_regex_refresh_interval_ms)

    def value_of(self, name: str) -> int:
        """Return the value under one of Kafka's names for a group's configurations."""
        value: int = getattr(self, f"consumer_{_FIELD_SUFFIXES[name]}")
        return value

    def limits(self, name: str) -> tuple[int, int]:
        """Return the lowest and the highest value that a group may have under one of Kafka's names."""
        suffix = _FIELD_SUFFIXES[name]
        return getattr(self, f"consumer_min_{suffix}"), getattr(self, f"consumer_max_{suffix}")

    def of_group(self, overrides: Mapping[str, str]) -> GroupConfig:
        """Return the settings of a group with configurations of its own, each within the broker's limits."""
        own = {}
        for name, suffix in _FIELD_SUFFIXES.items():
            text = overrides.get(name, "")
            if text.isdecimal():
                lowest, highest = self.limits(name)
                own[f"consumer_{suffix}"] = min(max(int(text), lowest), highest)
        return replace(self, **own) if own else self  # type: ignore[arg-type]  # they are all numbers


_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE)


def _acting(name: str, doc: str, check: Check) -> ConfigDefinition[int]:
    default = SETTINGS[f"group.{name}"].default
    return integer(name, default, doc, check=check, mode=UpdateMode.CLUSTER_WIDE)


def _inert(name: str, default: int, lowest: int, highest: int, doc: str) -> ConfigDefinition[int]:
    return integer(name, default, doc, check=between(lowest, highest), has_effect=False)


def _check_reset(value: str) -> str | None:
    if value in {"earliest", "latest"} or _DURATION.fullmatch(value):
        return None
    return "must be earliest, latest or by_duration:PnDTnHnMn.nS"


_ACTING = (
    _acting(ASSIGNMENT_INTERVAL, "Minimum time between two assignments of this group, in ms.", at_least(0)),
    _acting(
        HEARTBEAT_INTERVAL,
        "Heartbeat interval that the coordinator gives to members of this group, in ms.",
        at_least(1),
    ),
    _acting(
        SESSION_TIMEOUT,
        "How long after its last heartbeat a member of this group is removed, in ms.",
        at_least(1),
    ),
)

# The limits are the defaults of `group.share.max.session.timeout.ms` and the like.
_WITHOUT_EFFECT = (
    _inert(
        "share.assignment.interval.ms",
        1000,
        0,
        15_000,
        "Least time between two assignments of this share group, in ms.",
    ),
    string(
        "share.auto.offset.reset",
        "latest",
        "Where this share group begins to read.",
        check=_check_reset,
        has_effect=False,
    ),
    _inert(
        "share.delivery.count.limit",
        5,
        2,
        10,
        "Times that a record is delivered to this share group before it counts as rejected.",
    ),
    _inert(
        "share.heartbeat.interval.ms",
        5000,
        5000,
        15_000,
        "Time between two heartbeats of a member of this share group, in ms.",
    ),
    string(
        "share.isolation.level",
        "read_uncommitted",
        "Whether this share group reads records of open transactions.",
        check=one_of("read_committed", "read_uncommitted"),
        has_effect=False,
    ),
    _inert(
        "share.partition.max.record.locks",
        2000,
        100,
        4000,
        "Records of a partition that this share group may hold at a time.",
    ),
    _inert(
        "share.record.lock.duration.ms",
        30_000,
        15_000,
        60_000,
        "Time that a member of this share group holds a record, in ms.",
    ),
    boolean(
        "share.renew.acknowledge.enable",
        True,
        "Whether members of this share group may hold a record for longer.",
        has_effect=False,
    ),
    _inert(
        "share.session.timeout.ms",
        45_000,
        45_000,
        60_000,
        "Silence after which a member of this share group is removed, in ms.",
    ),
    _inert(
        "streams.assignment.interval.ms",
        1000,
        0,
        15_000,
        "Least time between two assignments of this streams group, in ms.",
    ),
    _inert(
        "streams.heartbeat.interval.ms",
        5000,
        5000,
        15_000,
        "Time between two heartbeats of a member of this streams group, in ms.",
    ),
    _inert(
        "streams.initial.rebalance.delay.ms",
        3000,
        0,
        INT_MAX,
        "How long this group, when empty, waits for members before it assigns, in ms.",
    ),
    _inert("streams.num.standby.replicas", 0, 0, 2, "Standby copies of each task's state."),
    _inert(
        "streams.session.timeout.ms",
        45_000,
        45_000,
        60_000,
        "Silence after which a member of this streams group is removed, in ms.",
    ),
)

_WITHOUT_BROKER_DEFAULT = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)
"""Group configurations without a broker configuration for their default."""

GROUP_CONFIGS: Mapping[str, ConfigDefinition[Any]] = {row.name: row for row in (*_ACTING, *_WITHOUT_EFFECT)}


def acts(name: str) -> bool:
    """True if a group configuration has an effect."""
    return GROUP_CONFIGS[name] in _ACTING


def broker_synonym(name: str) -> str:
    """Return the broker configuration with the default of a group configuration."""
    return name if name in _WITHOUT_BROKER_DEFAULT else f"group.{name}"


def check_group_configs(values: Mapping[str, str], broker: GroupConfig) -> None:
    """Raise `InvalidConfig` unless a group may have these values under the broker's limits."""
    for name, text in values.items():
        if name not in GROUP_CONFIGS:
            raise InvalidConfig(f"unknown group config name: {name}")
        value = GROUP_CONFIGS[name].parse(text)
        if not acts(name):
            continue
        lowest, highest = broker.limits(name)
        if not lowest <= value <= highest:
            raise InvalidConfig(
                f"invalid value `{text}` for `{name}`: must be between {lowest} and {highest}"
            )
    config = broker.of_group(values)
    if config.consumer_session_timeout_ms <= config.consumer_heartbeat_interval_ms:
        raise InvalidConfig(f"`{SESSION_TIMEOUT}` must be above `{HEARTBEAT_INTERVAL}`")


def group_topic_configs(settings: BrokerSettings) -> dict[str, str]:
    """Return the topic configurations of `__consumer_offsets` that differ from the defaults of topics."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.offsets_topic_segment_bytes),
    }
