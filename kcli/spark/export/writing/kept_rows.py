"""Copies of shared files without the rows of partitions that begin again.

The rows of a partition whose log is another one stop counting, those of the others in the same file go on. So
a commit that resets only some partitions of a file has a copy of it with the others; the file itself is
retired as a whole. A copy has the name of the file, with the new plan's number: writing it again after a
crash replaces it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kcli.errors import KcliError
from kcli.spark.export.target.layout import copied_path
from kcli.spark.export.target.local_target import temporary_name
from kcli.spark.export.writing.data_file import (
    COPY_OF,
    FILES,
    PARTS,
    READ_BY,
    UNREADABLE,
    bearable_rows,
    checksum,
    damage_of,
)
from kcli.spark.export.writing.split_writer import ParquetPart

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.export.log.plan import Plan
    from kcli.spark.export.log.receipt import FilePart, WrittenFile
    from kcli.spark.export.target.target import Target


def write_copy(target: Target, file: WrittenFile, plan: Plan) -> WrittenFile:
    """Write the rows of a shared file that stay, and return the copy under its final name."""
    path = copied_path(file.path, plan.number)
    written_to = temporary_name(path, f"{plan.number:08x}") if target.renames else path
    parts = _moved_together(file, plan.resets)
    try:
        with target.open_input(file.path) as opened, pq.ParquetFile(opened) as stored:
            part = ParquetPart(
                target,
                written_to,
                schema=stored.schema_arrow.remove_metadata(),
                metadata=_metadata(stored, file.path, plan.number),
                options=plan.options.parquet,
            )
            for rows in _kept(stored, file, plan.resets):
                part.add(rows)
                if part.has_group:
                    part.flush()
    except UNREADABLE as error:
        raise KcliError(
            f"cannot read `{file.path}`, which has rows of partitions that stay: {damage_of(error)}",
            hint="kcli spark-export --to DIR --verify",
        ) from error
    said = {FILES: "1", PARTS: json.dumps([one.to_json() for one in parts], separators=(",", ":"))}
    size = part.close(said)
    crc32c = checksum(target, written_to) if target.renames else None
    if written_to != path:
        target.rename(written_to, path)
    return replace(
        file,
        path=path,
        rows=sum(one.rows for one in parts),
        size_bytes=size,
        first_offset=min((one.first_offset for one in parts if one.first_offset is not None), default=None),
        last_offset=max((one.last_offset for one in parts if one.last_offset is not None), default=None),
        crc32c=crc32c,
        parts=parts,
        copy_of=file.path,
    )


def _stays(topic: str, part: FilePart, resets: Collection[TopicPartition]) -> bool:
    return (topic, part.partition) not in resets


def _moved_together(file: WrittenFile, resets: Collection[TopicPartition]) -> tuple[FilePart, ...]:
    """Return the parts that stay, one behind the other."""
    moved: list[FilePart] = []
    for part in file.parts:
        if _stays(file.topic, part, resets):
            moved.append(replace(part, first_row=sum(one.rows for one in moved)))
    return tuple(moved)


def _kept(
    stored: pq.ParquetFile, file: WrittenFile, resets: Collection[TopicPartition]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that stay, in their order."""
    kept = [part for part in file.parts if _stays(file.topic, part, resets)]
    at = 0
    for batch in stored.iter_batches(bearable_rows(stored.metadata), use_threads=False):
        for part in kept:
            first, end = max(part.first_row, at), min(part.first_row + part.rows, at + batch.num_rows)
            if first < end:
                yield batch.slice(first - at, end - first)
        at += batch.num_rows


def _metadata(stored: pq.ParquetFile, path: str, plan: int) -> dict[str, str]:
    said = {
        key.decode(): value.decode()
        for key, value in (stored.metadata.metadata or {}).items()
        if key.startswith(b"kcli.")
    }
    said.pop(PARTS, None)
    said.pop(FILES, None)
    read_by = said.get(READ_BY, said["kcli.plan"])
    return said | {"kcli.plan": str(plan), COPY_OF: path, READ_BY: read_by}
