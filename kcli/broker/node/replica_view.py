"""A view of a replica for reading: what a dry run of compaction works on.

It is a log in a temporary directory, with links to the log files and copies of the small files, so nothing
there changes the replica: damaged indexes are rebuilt in the copies, and nothing is ever cut. A broker may
write the replica meanwhile: the view ends with its last whole batch.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.storage.log.file_records import ReadOnlyRecords
from kcli.storage.log.leader_epochs import LeaderEpochs
from kcli.storage.log.local_log import LocalLog, LogSegments
from kcli.storage.log.log_segment import LogSegment
from kcli.storage.log.unified_log import UnifiedLog
from kcli.storage.log_paths import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
    segment_path,
)
from kcli.storage.producers.producer_snapshot import ProducerSnapshots
from kcli.storage.producers.producer_state import ProducerStateManager

if TYPE_CHECKING:
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.log.log_config import LogSettings

_COPIED = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)


def view_of(
    replica: str, directory: str, topic_partition: TopicPartition, *, settings: LogSettings, now_ms: int
) -> UnifiedLog | None:
    """Return the log of a replica, viewed in an empty directory; None without segments.

    Its log start is that of the first segment. Raises `CorruptRecord` and `OSError`.
    """
    base_offsets = _link(replica, directory)
    if not base_offsets:
        return None
    segments, config, report = LogSegments(), settings.config, settings.report
    for base_offset in base_offsets:
        records = ReadOnlyRecords.open(segment_path(directory, base_offset, LOG_SUFFIX))
        segments.add(
            LogSegment(directory, base_offset, records=records, config=config, now_ms=now_ms, report=report)
        )
    end_offset, _ = segments.active.find_end()
    producer_state = ProducerStateManager(
        topic_partition, producer_id_expiration_ms=settings.producer_id_expiration_ms
    )
    snapshots = ProducerSnapshots(directory)
    snapshots.find()
    snapshots.rebuild(
        producer_state,
        segments.batches_between,
        log_start_offset=base_offsets[0],
        end_offset=end_offset,
        now_ms=now_ms,
        report=report,
    )
    local = LocalLog(
        directory,
        topic_partition,
        settings=settings,
        segments=segments,
        end_offset=end_offset,
        recovery_point=end_offset,
        now_ms=now_ms,
    )
    return UnifiedLog(
        local,
        topic_id=None,
        leader_epochs=LeaderEpochs(directory),
        producer_state=producer_state,
        snapshots=snapshots,
        log_start_offset=base_offsets[0],
    )


def _link(replica: str, directory: str) -> list[int]:
    """Link the log files of a replica into a directory, copy the small files; return the base offsets."""
    base_offsets = []
    for name in sorted(os.listdir(replica)):
        base_offset = base_offset_of(name, LOG_SUFFIX)
        if base_offset is not None:
            os.symlink(os.path.abspath(f"{replica}/{name}"), f"{directory}/{name}")
            base_offsets.append(base_offset)
        elif name.endswith(_COPIED):
            # A broker may delete it now.
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{replica}/{name}", f"{directory}/{name}")
    return base_offsets
