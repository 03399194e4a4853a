"""Reading a partition: for a fetch, for one that waits, and for who has to know where logs part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.fetch_data import FetchedPartition
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kcli.broker.fetch_data import FetchPartition
    from kcli.broker.partition import Partition
    from kcli.storage.log.log_read import Isolation

NO_EPOCH = -1


def read(
    partition: Partition, request: FetchPartition, *, isolation: Isolation, max_bytes: int, min_one: bool
) -> FetchedPartition:
    """Read what a fetch asks for, up to `max_bytes`. Raises `KafkaError`.

    With `min_one` the first batch comes whatever its size; else one that does not fit is left out, for a
    client could not make progress with a part of it. Whether the replica may be read is for the caller to
    check.
    """
    row = FetchedPartition(request)
    log = partition.log
    if request.last_fetched_epoch != NO_EPOCH:
        row.diverging = diverging_epoch(partition, request)
    if row.diverging is None:
        found = log.read(request.fetch_offset, max_bytes, isolation=isolation, min_one=min_one)
        records = found.file_slice
        if records is not None and records.size >= found.first_batch_size:
            row.records = records
            row.size = records.size
        row.aborted = found.aborted
    row.high_watermark = log.high_watermark
    row.last_stable_offset = log.last_stable_offset
    row.log_start_offset = log.log_start_offset
    return row


def readable(partition: Partition, offset: int, max_bytes: int, isolation: Isolation) -> tuple[int, bool]:
    """Return how many bytes a read would bring, and whether waiting could bring more to it.

    More comes only to the active segment. Raises `KafkaError`.
    """
    log = partition.log
    records = log.read(offset, max_bytes, isolation=isolation, min_one=False).file_slice
    in_active_segment = offset >= log.segments.active.base_offset
    return (0 if records is None else records.size), in_active_segment


def diverging_epoch(partition: Partition, request: FetchPartition) -> tuple[int, int] | None:
    """Return (epoch, end offset) if the fetcher's log parted from this one before its position (KIP-595).

    Raises `KafkaError` if that cannot be told.
    """
    wanted = request.last_fetched_epoch
    if wanted == NO_EPOCH:
        return None
    log = partition.log
    epoch, end_offset = log.end_offset_for_epoch(wanted)
    if epoch == NO_EPOCH or end_offset == -1 or request.fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {request.fetch_offset} cannot be compared")
    if epoch < wanted or end_offset < request.fetch_offset:
        return epoch, end_offset
    return None
