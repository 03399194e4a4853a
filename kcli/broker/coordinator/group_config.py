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
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000


def of_group(config: GroupConfig, overrides: Mapping[str, str]) -> GroupConfig:
    """Return the settings of a group that has configurations of its own, within the broker's limits."""
    session, heartbeat = overrides.get(SESSION_TIMEOUT, ""), overrides.get(HEARTBEAT_INTERVAL, "")
    if session.isdecimal():
        lowest, highest = config.consumer_min_session_timeout_ms, config.consumer_max_session_timeout_ms
        config = replace(config, consumer_session_timeout_ms=min(max(int(session), lowest), highest))
    if heartbeat.isdecimal():
        lowest, highest = config.consumer_min_heartbeat_interval_ms, config.consumer_max_heartbeat_interval_ms
        config = replace(config, consumer_heartbeat_interval_ms=min(max(int(heartbeat), lowest), highest))
    return config
