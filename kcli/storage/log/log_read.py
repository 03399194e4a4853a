"""LogRead: the result of a read of a log; Isolation: the offset that bounds it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.storage.index.transaction_index import AbortedTransaction
    from kcli.storage.log.file_records import FileSlice


class Isolation(Enum):
    """The offset that bounds a fetch (Kafka class `FetchIsolation`)."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class LogOffsetMetadata(NamedTuple):
    """An offset, the base offset of its segment and the position of its batch; -1 until looked up."""

    offset: int
    segment_base_offset: int = -1
    position: int = -1


@dataclass(slots=True, eq=False)
class LogRead:
    """The result of a read, and the log's offsets at that time.

    `file_slice` is None if there is nothing to read. It begins with the batch that holds the requested
    offset, so possibly with earlier records, and may end within a batch; `first_batch_size` is the size of
    the first batch. `aborted` lists the aborted transactions that touch the slice, None unless the read was
    limited to committed records.
    """

    file_slice: FileSlice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    aborted: list[AbortedTransaction] | None = None
    first_batch_size: int = 0
