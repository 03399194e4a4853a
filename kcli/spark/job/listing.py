"""Listing: the files of a target that are committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.spark.job.export_log import ExportLog
from kcli.spark.job.failures import TargetRefused
from kcli.spark.job.target_checks import check_whole

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
    log = load_export(target)
    next_offsets: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in sorted(log.next_offsets.items()):
        next_offsets.setdefault(topic, {})[partition] = offset
    files = [file for commit in log.live_commits() for file in commit.files]
    return Listing(
        target=target.uri,
        cluster_id=log.identity.cluster_id if log.identity else None,
        topics=log.topics,
        last_commit=log.last.number if log.last else None,
        files=tuple(sorted(files, key=lambda file: (file.topic, file.partition, file.start, file.path))),
        next_offsets=next_offsets,
        unfinished_plan=log.pending.number if log.pending else None,
    )


def load_export(target: Target) -> ExportLog:
    """Return a target's log; raise `TargetRefused` if it holds no export."""
    log = ExportLog.load(target)
    if log.identity is None:
        raise TargetRefused(f"`{target.uri}` holds no export")
    check_whole(log)
    return log
