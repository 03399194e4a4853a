"""LogConfig: the topic configuration of a log; LogSettings: what the node gives a log besides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_INT64_MAX = 2**63 - 1
_DAY_MS = 24 * 60 * 60 * 1000

PRODUCER_ID_EXPIRATION_MS = _DAY_MS

DELETE = "delete"
COMPACT = "compact"
PRODUCER_COMPRESSION = "producer"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One topic's configuration under its Kafka names, with Kafka's defaults and meaning of -1."""

    cleanup_policy: frozenset[str] = frozenset({DELETE})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = PRODUCER_COMPRESSION
    compression_zstd_level: int = 3
    delete_retention_ms: int = _DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _INT64_MAX
    flush_ms: int = _INT64_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = _INT64_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    message_timestamp_before_max_ms: int = _INT64_MAX
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    unclean_leader_election_enable: bool = False

    @property
    def is_compacted(self) -> bool:
        """Whether compaction keeps the latest record of each key, so that every record needs one."""
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention deletes segments by age and size."""
        return DELETE in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The age at which the log rolls: a compacted record must not stay in the active segment."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def uses_append_time(self) -> bool:
        """Whether the broker's clock replaces the producer's timestamps."""
        return self.message_timestamp_type == LOG_APPEND_TIME

    def compression_level(self, compression_type: str) -> int | None:
        """Return the configured level of a codec by its configuration name, None if it has no levels."""
        levels = {"gzip": self.compression_gzip_level, "lz4": self.compression_lz4_level}
        return {**levels, "zstd": self.compression_zstd_level}.get(compression_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The configuration of one log and the callbacks to its node.

    `report` takes one line for each event worth a log line. `on_failure(log directory, message)` takes the
    log directory offline. With `verifies_transactions` a leader takes only verified transactional data.
    `on_lowered_cleaner_offset` is called after a truncation below that offset, which its checkpoint must not
    survive. `random_below(n)` returns an int in [0, n), for `segment.jitter.ms`.
    """

    config: LogConfig
    report: Callable[[str], None]
    on_failure: Callable[[str, str], None]
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    verifies_transactions: bool = False
    on_lowered_cleaner_offset: Callable[[], None] = lambda: None
    random_below: Callable[[int], int] = lambda limit: 0
