"""CleaningJob: what one round of compaction needs of a log, frozen: any thread may work on it.

`plan_job` makes it in the thread that owns the log. The sources are closed segments, which nobody writes;
they may be deleted or truncated meanwhile, which the flag `cleaning` or their missing files tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.storage.cleaning.cleanable import LogToClean
from kcli.storage.log.log_cleaning import Cleaning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.topics import TopicPartition
    from kcli.storage.cleaning.cleanable import Bound, Cleanable
    from kcli.storage.index.transaction_index import AbortedTransaction
    from kcli.storage.log.log_config import LogConfig
    from kcli.storage.log.unified_log import UnifiedLog

READ_BYTES = 256 * 1024
"""Kafka gives half of `log.cleaner.io.buffer.size` to reading."""
DEDUPE_BUFFER_BYTES = 128 * 1024 * 1024
LOAD_FACTOR = 0.9


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A closed segment: its base offset and the size of its log file in bytes.

    A dry run may take the active segment for one that is closed, with the size that it has now.
    """

    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class LastRecord:
    """What must stay of a producer: its last data offset, -1 without one, and its epoch."""

    last_data_offset: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    """One round on one log; `sources` are its closed segments below `first_uncleanable`, the oldest first."""

    topic_partition: TopicPartition
    directory: str
    sources: tuple[SourceSegment, ...]
    first_dirty: int
    first_uncleanable: int
    bound: Bound
    config: LogConfig
    now_ms: int
    last_records: Mapping[int, LastRecord]
    """By producer id."""
    aborted: tuple[AbortedTransaction, ...]
    """The aborted transactions that touch the sources, in the order of their markers."""
    map_bytes: int
    """How large the offset map may become."""
    read_bytes: int = READ_BYTES
    """How much of a source is read at a time; a larger batch is read whole."""
    cleaning: Cleaning = field(default_factory=Cleaning)
    """The flag that makes the round void; a `Compaction` ties it to the log."""


def plan_job(
    log: UnifiedLog,
    first_dirty: int,
    now_ms: int,
    *,
    map_bytes: int = int(DEDUPE_BUFFER_BYTES * LOAD_FACTOR),
    read_bytes: int = READ_BYTES,
    cleanable: Cleanable | None = None,
) -> CleaningJob | None:
    """Return the next round on a log, None if nothing from `first_dirty` on can be cleaned.

    `cleanable` is what was measured; by default the log is measured now. Changes nothing.
    Raises `CorruptIndex` and `OSError`.
    """
    dirty = LogToClean(log)
    cleanable = cleanable or dirty.measure(now_ms)
    if first_dirty >= cleanable.first_uncleanable:
        return None
    sources = log.segments.between(0, cleanable.first_uncleanable)
    return CleaningJob(
        topic_partition=log.topic_partition,
        directory=log.directory,
        sources=tuple(SourceSegment(each.base_offset, each.size) for each in sources),
        first_dirty=first_dirty,
        first_uncleanable=cleanable.first_uncleanable,
        bound=cleanable.bound,
        config=log.config,
        now_ms=now_ms,
        last_records={
            entry.producer_id: LastRecord(entry.last_offset, entry.producer_epoch)
            for entry in log.producer_state.producers.values()
        },
        aborted=dirty.aborted_in(sources),
        map_bytes=map_bytes,
        read_bytes=read_bytes,
    )
