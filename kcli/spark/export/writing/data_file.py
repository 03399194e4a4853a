"""Reads an exported Parquet file back: its checksum, its pages, and its footer, which names its plan.

An export checks a file by the CRC-32C of all its bytes, read right after writing while they are still in the
page cache: a third of the cost of page checksums in Parquet.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kcli.errors import KcliError, reason_of
from kcli.protocol.records.batch_header import crc32c
from kcli.spark.export.log.receipt import SEVERAL, FilePart
from kcli.spark.export.options import Identity
from kcli.spark.split import OffsetInterval

if TYPE_CHECKING:
    from kcli.spark.export.target.target import Target

BATCH_BYTES = 4 * 1024 * 1024
"""About how many bytes are decoded at a time."""

BATCH_ROWS = 8192

UNREADABLE = (OSError, ValueError, pa.ArrowException)
"""What pyarrow raises for damaged files, and Python for names in a footer that are not UTF-8."""

_PIECE_BYTES = 256 * 1024
_PAGE_BUFFER_BYTES = 1024 * 1024


def checksum(target: Target, path: str) -> int:
    piece = memoryview(bytearray(_PIECE_BYTES))
    found = 0
    with target.open_input(path) as file:
        while count := file.readinto(piece):
            found = crc32c(piece[:count], found)
    return found


def unreadable_page(target: Target, path: str) -> str | None:
    """Read every page of a Parquet file, a few at a time; return an error message, None without an error."""
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
    """Return the number of rows for a batch of `BATCH_BYTES`, by the largest row group."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    width = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1)
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(width, 1))))


def damage_of(error: Exception) -> str:
    """Return the message of an error of the file system or pyarrow, in one line."""
    said = reason_of(error) or type(error).__name__
    return said.splitlines()[0].rstrip(".")


FILES = "kcli.files"
"""The number of files that an attempt at a split wrote, in the last of them."""


PARTS = "kcli.parts"
"""The rows of each partition, in a file that several share."""


COPY_OF = "kcli.copy_of"
"""The file whose rows a copy has that count on."""
READ_BY = "kcli.read_by"
"""The plan that read these rows."""


class BadFooter(KcliError):
    """The file is not Parquet, or not of an export."""


class Footer(NamedTuple):
    topic: str
    partition: int
    """-1 for a shared file."""
    start: int
    end: int
    plan: int
    planned: OffsetInterval
    """The range that the plan read of the partition."""
    identity: Identity
    rows: int
    first_offset: int | None
    """The bounds of the column `offset`, None without it."""
    last_offset: int | None
    files: int | None
    """The number of files of its attempt; only in the last of them."""
    parts: tuple[FilePart, ...]
    """Of a shared file."""
    partitions: str
    """The partition of its task, or the first and the last one."""
    copy_of: str | None
    """The path of the shared file that it is a copy of, without the partitions that began again."""
    read_by: int
    """The plan that read its rows: an earlier one for a copy."""


def read_footer(target: Target, path: str) -> Footer:
    """Return a file's footer; raise `BadFooter` if the file is not of an export."""
    try:
        with target.open_input(path) as file:
            metadata = pq.read_metadata(file)
    except UNREADABLE as error:
        reason = str(error).partition("\n")[0]
        raise BadFooter(f"not a whole Parquet file: `{path}`: {reason}") from error
    try:
        said = {key.decode(): value.decode() for key, value in (metadata.metadata or {}).items()}
        low, _, high = said["kcli.planned"].partition("-")
        return Footer(
            said["kcli.topic"],
            int(said["kcli.partition"]) if PARTS not in said else SEVERAL,
            int(said["kcli.start"]),
            int(said["kcli.end"]),
            int(said["kcli.plan"]),
            OffsetInterval(int(low), int(high)),
            Identity.from_json(json.loads(said["kcli.identity"])),
            metadata.num_rows,
            *_offset_bounds(metadata),
            int(said[FILES]) if FILES in said else None,
            tuple(FilePart(**one) for one in json.loads(said.get(PARTS, "[]"))),
            said["kcli.partition"],
            said.get(COPY_OF),
            int(said.get(READ_BY, said["kcli.plan"])),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise BadFooter(f"not a file of an export: `{path}`") from error


def _offset_bounds(metadata: pq.FileMetaData) -> tuple[int | None, int | None]:
    """Return the smallest and the largest offset in the statistics of the row groups."""
    found = []
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            if column.path_in_schema == "offset" and column.statistics is not None:
                found.append((column.statistics.min, column.statistics.max))
    if not found:
        return None, None
    return min(low for low, _ in found), max(high for _, high in found)
