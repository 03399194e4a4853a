"""LogRead: the result of a read of a log, and Isolation: up to which offset a read may go."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.storage.index.transaction_index import AbortedTransaction
    from kcli.storage.log.file_records import FileSlice


class Isolation(Enum):
    """Up to where a fetch may read (Kafka class `FetchIsolation`)."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class LogOffsetMetadata(NamedTuple):
    """An offset and where it is: the base offset of its segment and the position of its batch there.

    Both are -1 as long as they have not been looked up.
    """

    offset: int
    segment_base_offset: int = -1
    position: int = -1


class LogRead:
    """What a read found, and the log's offsets at that moment.

    `file_slice` is None when there is nothing to read. It begins with the batch that holds the offset asked
    for, so possibly with earlier records, and may end within a batch; `first_batch_size` is the size of that
    first batch. `aborted` lists the aborted transactions that touch the slice, None unless only committed
    records were asked for.
    """

    __slots__ = (
        "aborted",
        "file_slice",
        "first_batch_size",
        "high_watermark",
        "last_stable_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(
        self,
        file_slice: FileSlice | None,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        log_end_offset: int,
        aborted: list[AbortedTransaction] | None = None,
        first_batch_size: int = 0,
    ) -> None:
        self.file_slice = file_slice
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.aborted = aborted
        self.first_batch_size = first_batch_size
