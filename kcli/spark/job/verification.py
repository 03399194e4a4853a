"""Verification: whether the committed files are there and hold what the log says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.spark.job.target import Target


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was committed."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was checked and found."""

    target: str
    files: int
    rows: int
    bytes: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def verify_export(target: Target) -> Verification:
    """Check existence, size, footer and rows of every committed file, and that none overlap."""
    raise NotImplementedError
