"""PartitionReport: what looking at one replica directory came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.errors import KcliError
    from kcli.storage.verification.findings import Finding


class PartitionReport(NamedTuple):
    """Findings, files that could not be read, and how much was looked at.

    `passed` and `empty` are the index files that a starting broker would take, in sanity mode; `written` are
    fresh ones.
    """

    directory: str
    findings: list[Finding]
    failures: list[KcliError]
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0
    topic_id: bytes | None = None
    passed: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
