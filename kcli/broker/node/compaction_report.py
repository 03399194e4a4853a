"""CompactionReport: what a round of compaction found and did, as `kcli broker compact` tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.storage.cleaning.cleanable import Bound
from kcli.storage.cleaning.cleaning_stats import CleaningStats

if TYPE_CHECKING:
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.cleaning.cleanable import Cleanable
    from kcli.storage.cleaning.cleaning_run import CleaningRun


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """A round on one log: `stats` is empty if there was nothing to clean below what `bound` names."""

    topic_partition: TopicPartition
    first_dirty_offset: int
    end_offset: int
    bound: Bound
    producer_id: int | None
    """The producer of the open transaction that bounds the round."""
    stats: CleaningStats

    @classmethod
    def of(
        cls, topic_partition: TopicPartition, cleanable: Cleanable, run: CleaningRun | None
    ) -> CompactionReport:
        """Return the report on a round that has ended; without `run` there was nothing to clean."""
        is_full = run is not None and run.is_map_full
        return cls(
            topic_partition=topic_partition,
            first_dirty_offset=cleanable.first_dirty,
            end_offset=cleanable.first_dirty if run is None else run.end_offset,
            bound=Bound.FULL_MAP if is_full else cleanable.bound,
            producer_id=None if is_full else cleanable.unstable_producer_id,
            stats=CleaningStats() if run is None else run.stats,
        )

    def row(self, node_id: int | None) -> dict[str, Any]:
        """Return the report as JSON values."""
        stats = self.stats
        return {
            "node": node_id,
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "segments_before": stats.segments_before,
            "segments_after": stats.segments_after,
            "bytes_before": stats.bytes_before,
            "bytes_after": stats.bytes_after,
            "records_before": stats.records_before,
            "records_after": stats.records_after,
            "dropped": {
                "newer_value": stats.superseded,
                "tombstone": stats.tombstones,
                "aborted": stats.aborted,
                "marker": stats.markers,
                "keyless": stats.keyless,
            },
            "horizons_set": stats.horizons,
            "first_dirty_offset": self.first_dirty_offset,
            "end_offset": self.end_offset,
            "bounded_by": self.bound.name.lower(),
            "producer_id": self.producer_id,
        }
