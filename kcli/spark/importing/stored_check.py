"""Whether the files of an export can be imported, asked of all their footers before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from kcli.errors import UsageError
from kcli.spark.job.file_contents import UNREADABLE, damage_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.spark.importing.stored_file import StoredFile
    from kcli.spark.job.target import Target


def check_stored(target: Target, files: Iterable[StoredFile]) -> None:
    """Raise `UsageError` for the first file that is missing, cut off, or not of as many rows as committed."""
    for file in files:
        reason = _wrong_with(target, file)
        if reason is not None:
            raise UsageError(
                f"cannot import `{target.uri}`: `{file.path}`: {reason}",
                hint=f"kcli spark-export --to {target.uri} --verify",
            )


def _wrong_with(target: Target, file: StoredFile) -> str | None:
    try:
        with target.open_input(file.path) as opened:
            rows = pq.read_metadata(opened).num_rows
    except FileNotFoundError:
        return "missing"
    except UNREADABLE as error:
        return damage_of(error)
    return None if rows == file.rows else f"{rows} rows instead of {file.rows}"
