"""Repair: a lost commit log, made again from the footers of the files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.spark.job.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was made again."""

    target: str
    commit: int | None
    """The commit that was written; None if nothing was wrong."""
    files: int
    rows: int
    removed: tuple[str, ...] = ()
    """Files of a plan that may not have been finished: their offsets are exported again."""
    next_offsets: dict[str, dict[int, int]] = field(default_factory=dict)


def repair_export(target: Target) -> Repair:
    """Make the commit log again from what the files' footers say."""
    raise NotImplementedError
