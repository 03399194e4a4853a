"""SplitTask: one split of a plan and everything a task needs to write it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli import __version__

if TYPE_CHECKING:
    from kcli.spark.export.options import Identity, WriteOptions
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import SplitReader
    from kcli.spark.split import OffsetInterval, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """One split and what a task needs to write it; plain data that can be pickled."""

    target: Target
    plan: int
    plan_id: str
    index: int
    """The split's number in its plan."""
    split: Split
    """What to read: the plan's split, without offsets that are gone since."""
    stem: str
    """The beginning of the names of its files."""
    planned: OffsetInterval
    """The range that the plan reads of the split's partition."""
    identity: Identity
    reader: SplitReader
    options: WriteOptions

    def footer_metadata(self) -> dict[str, str]:
        """Return the metadata of Parquet footers; `repair` rebuilds a lost commit log from it."""
        split = self.split
        return {
            "kcli.topic": split.topic,
            "kcli.partition": str(split.partition),
            "kcli.start": str(split.start),
            "kcli.end": str(split.end),
            "kcli.plan": str(self.plan),
            "kcli.planned": f"{self.planned.start}-{self.planned.end}",
            "kcli.cluster": self.identity.cluster_id or "",
            "kcli.version": __version__,
            "kcli.identity": json.dumps(self.identity.to_json(), separators=(",", ":"), sort_keys=True),
        }
