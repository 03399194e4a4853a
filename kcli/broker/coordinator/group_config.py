"""GroupConfig: the settings of the group coordinator, in the units its shards use.

The names are those of Kafka's broker properties without their prefix, the defaults Kafka's but for the
initial rebalance delay: three seconds protect a fleet that starts, and only delay a developer.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY_MS = 24 * 60 * 60 * 1000


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
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000
