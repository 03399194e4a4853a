"""What is in a file of an export: the checksum of all its bytes, and whether its pages can be read.

Of a file system the bytes are read back when they have just been written and are still in memory, which
costs a third of what checksums in the pages of Parquet cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kcli.errors import reason_of
from kcli.protocol.records.batch_header import crc32c

if TYPE_CHECKING:
    from kcli.spark.job.target import Target

BATCH_BYTES = 4 * 1024 * 1024
"""About how much is decoded at a time."""

BATCH_ROWS = 8192

UNREADABLE = (OSError, ValueError, pa.ArrowException)
"""What pyarrow raises of damaged files: of names in a footer that are no UTF-8 Python's own error."""

_PIECE_BYTES = 256 * 1024
_PAGE_BUFFER_BYTES = 1024 * 1024


def checksum(target: Target, path: str) -> int:
    """Return the CRC-32C of a file."""
    piece = memoryview(bytearray(_PIECE_BYTES))
    found = 0
    with target.open_input(path) as file:
        while count := file.readinto(piece):
            found = crc32c(piece[:count], found)
    return found


def unreadable_page(target: Target, path: str) -> str | None:
    """Read every page of a Parquet file, a few at a time; return why one cannot be read, None if all can."""
    try:
        with (
            target.open_input(path) as opened,
            pq.ParquetFile(
                opened, buffer_size=_PAGE_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
            ) as file,
        ):
            for _ in file.iter_batches(bearable_rows(file.metadata), use_threads=False):
                pass
    except UNREADABLE as error:
        return f"cannot be read: {damage_of(error)}"
    return None


def bearable_rows(metadata: pq.FileMetaData) -> int:
    """Return how many rows make a batch of bearable size, by the largest of the row groups."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    width = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1)
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(width, 1))))


def damage_of(error: Exception) -> str:
    """Return what an error of the file system or of pyarrow says, in one line."""
    said = reason_of(error) or type(error).__name__
    return said.splitlines()[0].rstrip(".")
