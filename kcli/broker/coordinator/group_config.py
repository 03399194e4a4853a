"""GroupConfig: the settings of the group coordinator, in the units its shards use.

The names are those of Kafka's broker properties without their prefix, the defaults Kafka's but for the
initial rebalance delay and the assignment interval: they protect a fleet that starts, and only delay a
developer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DAY_MS = 24 * 60 * 60 * 1000

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
"""What may be configured for one group, by Kafka's names."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Times in milliseconds; `migration_policy`: bidirectional, upgrade, downgrade or disabled (KIP-848)."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * DAY_MS
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_assignment_interval_ms: int = 0
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000


_PLACES = {
    SESSION_TIMEOUT: "session_timeout_ms",
    HEARTBEAT_INTERVAL: "heartbeat_interval_ms",
    ASSIGNMENT_INTERVAL: "assignment_interval_ms",
}


def value_of(config: GroupConfig, name: str) -> int:
    """Return the value that one of Kafka's names has in the settings of a group, or of the broker."""
    value: int = getattr(config, f"consumer_{_PLACES[name]}")
    return value


def limits(config: GroupConfig, name: str) -> tuple[int, int]:
    """Return the lowest and the highest value that a group may be given under one of Kafka's names."""
    place = _PLACES[name]
    return getattr(config, f"consumer_min_{place}"), getattr(config, f"consumer_max_{place}")


def of_group(config: GroupConfig, overrides: Mapping[str, str]) -> GroupConfig:
    """Return the settings of a group that has configurations of its own, within the broker's limits."""
    own = {}
    for name, place in _PLACES.items():
        text = overrides.get(name, "")
        if text.isdecimal():
            lowest, highest = limits(config, name)
            own[f"consumer_{place}"] = min(max(int(text), lowest), highest)
    return replace(config, **own) if own else config  # type: ignore[arg-type]  # they are all numbers
