"""File names of an export, taken apart again."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(
    r"(?P<hidden>\.?)(?P<stem>part-(?:.*-)?\d{20}-\d{20}-(?P<plan>\d{6,}))"
    r"(?P<suffix>(?:-[0-9a-f]{1,7})*)(?:-(?P<named>[0-9a-f]{8}))?\.parquet(?:\.(?P<attempt>[0-9a-f]+))?"
)


class FileName(NamedTuple):
    """What the name of a data file says."""

    stem: str
    plan: int
    is_temporary: bool
    attempt: str | None
    """The id of the attempt that wrote it; None for a file that was renamed."""


def parsed_name(path: str) -> FileName | None:
    """Return what the name of a file says, None if it is no data file of an export."""
    match = _NAME.fullmatch(path.rpartition("/")[2])
    if match is None:
        return None
    return FileName(
        match["stem"], int(match["plan"]), bool(match["hidden"]), match["attempt"] or match["named"]
    )


def published_path(path: str) -> str:
    """Return the final path of a file under its temporary name."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}{name.removeprefix('.').rpartition('.')[0]}"
