"""Findings: what is said about a group, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from kcli.commands.groups.facts import Partition
from kcli.commands.groups.lag import duration_text, in_order
from kcli.commands.words import counted, listed

MOST_NAMED = 8
"""A finding names no more partitions than these."""


class Level(StrEnum):
    """How bad a finding is."""

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"
    FINE = "fine"


class Finding(NamedTuple):
    """One thing that was found; `code` names it for programs."""

    level: Level
    code: str
    message: str
    hint: str | None = None


def named(partitions: Iterable[Partition]) -> str:
    """Return the names of partitions, not too many."""
    ordered = in_order(partitions)
    return listed([f"{topic}-{index}" for topic, index in ordered], most=MOST_NAMED)


def records(count: int) -> str:
    """Return a number of records."""
    return counted(count, "record")


def ago(at_ms: int, now_ms: int) -> str:
    """Return how long ago a moment was."""
    return f"{duration_text(max(0, now_ms - at_ms))} ago"


def time_text(at_ms: int) -> str:
    """Return a moment in UTC, to the second."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
