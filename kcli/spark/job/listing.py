"""Listing: the files of a target that are committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.spark.job.receipt import WrittenFile
    from kcli.spark.job.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The state of a target as of its last commit."""

    target: str
    cluster_id: str | None
    topics: dict[str, str | None]
    """Topic ids by name."""
    last_commit: int | None
    files: tuple[WrittenFile, ...]
    next_offsets: dict[str, dict[int, int]]
    """Where the next export goes on, by topic and partition."""
    unfinished_plan: int | None


def list_export(target: Target) -> Listing:
    """Return the committed files; raise `KcliError` if the target holds no export."""
    raise NotImplementedError
